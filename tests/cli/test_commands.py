"""What the commands print and write when all is well."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mygym.cli.arguments import CONFIG_FLAGS
from mygym.cli.main import COMMANDS
from mygym.config import load_file
from mygym.registry import REGISTRIES, registry
from mygym.runs.resolve_config import resolve_config
from mygym.tasks.grammar import letters
from tests.cli.conftest import Outcome
from tests.components import ALGORITHMS, COMBOS, COVERING, TASKS
from tests.conftest import ROOT

Command = Callable[..., Outcome]

SETTINGS = [
    "steps=60",
    "n_envs=1",
    "eval={episodes: 2, final_episodes: 3}",
    "video={episodes: 1, width: 64, height: 48}",
    "algo_params.policy_kwargs.net_arch=[16]",
]
TRAIN = [word for setting in SETTINGS for word in ("--set", setting)]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_examples_and_ends_with_0(command: str, mygym_command: Command) -> None:
    outcome = mygym_command(*command.split(), "--help")
    assert outcome.code == 0
    assert "usage:" in outcome.out
    assert outcome.err == ""
    if command:
        assert "examples:" in outcome.out
    else:
        assert all(name in outcome.out for name in COMMANDS)


def test_no_command_is_help(mygym_command: Command) -> None:
    assert mygym_command() == mygym_command("--help")


def test_the_version(mygym_command: Command) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", mygym_command("--version").out)


def test_every_flag_of_the_design_is_there(mygym_command: Command) -> None:
    text = mygym_command("train", "--help").out
    flags = "config algo framework strategy robot task workspace control engine steps seed n-envs logdir resume set"
    assert all(f"--{flag} " in text for flag in flags.split())
    assert "--explain" in text
    assert "--dry-run" in text


# list, describe -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(REGISTRIES))
def test_list_names_everything_in_words_and_json(
    kind: str, mygym_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # no line is broken
    rows = json.loads(mygym_command("list", kind, "--json").out)
    assert [row["name"] for row in rows] == registry(kind).names()
    assert all(row["kind"] == kind and row["help"] and row["origin"] for row in rows)
    words = mygym_command("list", kind).out
    assert all(row["name"] in words and row["help"] in words for row in rows)


def test_list_without_a_kind_lists_all_kinds(mygym_command: Command) -> None:
    rows = json.loads(mygym_command("list", "--json").out)
    assert {row["kind"] for row in rows} == set(REGISTRIES)


EVERYTHING = [(kind, name) for kind in sorted(REGISTRIES) for name in registry(kind).names()]


@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_everything_can_be_described_in_words_and_json(kind: str, name: str, mygym_command: Command) -> None:
    words, data = mygym_command("describe", kind, name), mygym_command("describe", kind, name, "--json")
    assert (words.code, data.code) == (0, 0)
    assert yaml.safe_load(words.out) == json.loads(data.out)
    assert json.loads(data.out)[kind] == name


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_described_with_its_numbers(name: str, mygym_command: Command) -> None:
    task = registry("task").get(name).load()
    text = mygym_command("describe", "task", name).out
    assert f"{task.tolerance} m" in text
    assert f"{task.hold} steps" in text
    assert f"{task.horizon} steps" in text
    assert "goals from" in text
    assert all(task.asset(role) in text for role in task.roles)


def test_a_composition_and_an_algorithm_can_be_described(mygym_command: Command) -> None:
    assert "withdraw" in mygym_command("describe", "task", "AGMDW").out
    assert "learning_rate" in mygym_command("describe", "algo", "sac").out


def test_stages_are_listed_in_words_with_what_compositions_need(mygym_command: Command) -> None:
    rows = {row["name"]: row for row in json.loads(mygym_command("list", "stage", "--json").out)}
    assert rows["grasp"] | {"letter": "G", "requires": ["free", "near"], "gives": ["held"]} == rows["grasp"]
    assert (rows["move"]["help"], rows["open"]["help"]) == ("move the object to the goal", "open the part")
    words = mygym_command("list", "stage").out
    assert "{" not in words
    assert re.search(r"grasp +G +free, near +held +grasp the object", words)


@pytest.mark.parametrize("name", registry("stage").names())
def test_a_stage_is_described_without_empty_fields(name: str, mygym_command: Command) -> None:
    content = json.loads(mygym_command("describe", "stage", name, "--json").out)
    assert all(value not in (None, [], {}, "") for value in content.values())
    assert {"requires", "gives", "acts on", "needs"} <= content.keys()
    assert all(meaning.endswith(".") for meaning in content["gives"].values())


@pytest.mark.parametrize("name", registry("observation").names())
def test_an_observation_is_described_by_shape_unit_and_frame(name: str, mygym_command: Command) -> None:
    content = json.loads(mygym_command("describe", "observation", name, "--json").out)
    assert content["shape"].startswith("(N")
    assert {"N", *re.findall(r"\b[ACJLRp]\b", content["shape"])} == content["where"].keys()
    assert content["unit"]
    if content["unit"] == "m" and name not in ("gripper_width", "second_gripper_width"):
        assert content["frame"].startswith("world")


@pytest.mark.parametrize(
    ("said", "stages", "areas"),
    [
        ("[approach, push]", ["approach", "push"], ["surface"]),
        ("[{stages: AGMDW, object: apple, area: far_left}, {stages: A}]", [*"AGMDWA"], ["far_left", "reach"]),
        ("[{stages: [approach, open], part: cabinet.drawer}]", ["approach", "open"], []),
    ],
)
def test_lists_are_described_as_tasks_are(
    said: str, stages: list[str], areas: list[str], mygym_command: Command
) -> None:
    content = json.loads(mygym_command("describe", "task", said, "--json").out)
    assert content["stages"] == [letters().get(stage, stage) for stage in stages]
    assert list(content["goals from"]) == areas
    assert all({"low", "high"} == area.keys() for area in content["goals from"].values())


# explain, dry run ---------------------------------------------------------------------------------------------------


def test_explain_prints_every_value_and_its_origin(mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("robot: kuka\nalgo_params: {tau: 0.01}\n")
    outcome = mygym_command("train", "--config", "run.yaml", "--seed", "3", "--explain")
    lines = {line.split()[0]: line for line in outcome.out.splitlines()}
    assert outcome.code == 0
    assert re.fullmatch(r'robot +"kuka" +file', lines["robot"])
    assert re.fullmatch(r"seed +3 +flag", lines["seed"])
    assert re.fullmatch(r'logdir +"runs" +default', lines["logdir"])
    assert re.fullmatch(r"algo_params.tau +0.01 +file", lines["algo_params.tau"])
    assert re.fullmatch(r"algo_params.gamma +\S+ +algorithm sac", lines["algo_params.gamma"])
    assert re.fullmatch(r"task_params.horizon +\d+ +task reach", lines["task_params.horizon"])
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_dry_run_builds_everything_and_writes_nothing(algo: str, mygym_command: Command, tmp_path: Path) -> None:
    outcome = mygym_command("train", "--algo", algo, "--n-envs", "1", "--dry-run")
    assert outcome.code == 0, outcome.err
    for words in (
        "observation: ",
        "observed: ee_position 3, ee_velocity 3",
        "action: Box(-1.0, 1.0, (3,)",
        "algorithm: ",
        "parameters",
        "env steps/s",
    ):
        assert words in outcome.out
    assert list(tmp_path.iterdir()) == []
    assert all("[" not in line for line in outcome.out.splitlines() if line.startswith("observation: "))


@pytest.mark.parametrize(
    ("flags", "key"),
    [
        ("--strategy distill --set strategy_params.teacher=nowhere", "strategy_params.teacher"),
        ("--strategy demos --algo sac --set strategy_params.dataset=nowhere", "strategy_params.dataset"),
        ("--strategy demos --algo recurrent_ppo", "strategy"),
        ("--strategy curriculum --task AGM --steps 20", "steps"),
    ],
)
def test_dry_run_refuses_what_a_run_refuses(flags: str, key: str, mygym_command: Command) -> None:
    outcome = mygym_command("train", *flags.split(), "--dry-run")
    assert (outcome.code, outcome.err.startswith(f"error: {key}: ")) == (2, True), outcome.err


SLIDE = ("--task", "slide", "--robot", "kuka")  # which ends short of the goal
DRY, TRAINED = ("train", "--dry-run", "--n-envs", "1"), ("train", *TRAIN, "--n-envs", "1")
JUDGED = ("evaluate", "--policy", "oracle", "--episodes", "1")


@pytest.mark.parametrize("command", [DRY, TRAINED, JUDGED])
def test_a_robot_that_is_not_supported_is_noted_and_runs(command: tuple[str, ...], mygym_command: Command) -> None:
    outcome = mygym_command(*command, *SLIDE)
    assert outcome.code == 0, outcome.err
    notes = [line for line in outcome.err.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1
    assert notes[0].startswith("note: kuka does not do slide well enough in workspace table; supported robots: ")
    assert "panda" in notes[0]
    assert "note: " not in mygym_command(*command, "--task", "push", "--robot", "kuka").err


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.*")), ids=lambda path: path.name)
def test_every_shipped_config_is_right(path: Path, mygym_command: Command) -> None:
    assert mygym_command("train", "--config", str(path), "--explain").code == 0
    assert resolve_config(load_file(path)).config


def test_names_stay_text_and_numbers_become_numbers(mygym_command: Command) -> None:
    assert set(CONFIG_FLAGS) <= set(resolve_config().values())
    outcome = mygym_command("train", "--robot", "1", "--explain")
    assert "robot: '1'" in outcome.err


# train, evaluate ----------------------------------------------------------------------------------------------------


def test_the_last_line_tells_of_each_task_and_of_what_the_strategies_came_to(mygym_command: Command) -> None:
    strategy = ("--strategy", "multitask+experts", "--set", "strategy_params.multitask.tasks=[reach, push]")  # an alias
    by_sampler = ("--set", "strategy_params.experts={by: sampler, candidates: 2}")
    outcome = mygym_command("train", *TRAIN, "--algo", "a2c", *strategy, *by_sampler)
    assert outcome.code == 0, outcome.err
    run = Path(outcome.out.splitlines()[-1].removeprefix("run: "))
    result = json.loads((run / "result.json").read_text())
    by_task = ", ".join(f"{task} {rate:.0%}" for task, rate in result["success_by_task"].items())
    assert set(result["success_by_task"]) == {"reach", "push"}
    path = result["strategy"]["mixture"]["path"]
    assert f" s; {by_task}; mixture: path {path}\n" in outcome.err + outcome.out


def test_train_then_evaluate_the_run(mygym_command: Command, tmp_path: Path) -> None:
    outcome = mygym_command("train", *TRAIN, "--seed", "4")
    assert outcome.code == 0, outcome.err
    last = outcome.out.splitlines()[-1]
    assert last.startswith("run: ")
    run = Path(last.removeprefix("run: "))
    assert run.name == "seed_4"
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    judged = mygym_command("evaluate", str(run), "--episodes", "3", "--json")
    assert judged.code == 0, judged.err
    content = json.loads(judged.out)
    assert len(content["episodes"]) == sum(content["stage_reached"].values()) == 3
    assert {"success_rate", "mean_return", "mean_length", "mean_distance"} <= content.keys()
    assert mygym_command("evaluate", str(run), "--episodes", "3", "--json").out == judged.out
    other = json.loads(mygym_command("evaluate", str(run), "--episodes", "3", "--json", "--seed", "1").out)
    assert other["episodes"] != content["episodes"]
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    refused = mygym_command("evaluate", str(run), "--task", "push")
    assert (refused.code, "--task" in refused.err) == (2, True)


@pytest.mark.parametrize(("task", "robot"), COVERING)
def test_evaluate_judges_the_oracle(task: str, robot: str, mygym_command: Command, tmp_path: Path) -> None:
    line = f"evaluate --policy oracle --task {task} --robot {robot} --episodes 5 --json"
    outcome = mygym_command(*line.split())
    content = json.loads(outcome.out)
    assert (outcome.code, content["success_rate"], content["stage_reached"]) == (0, 1.0, {"done": 5})
    assert all(episode["length"] > 0 for episode in content["episodes"])
    assert list(tmp_path.iterdir()) == []


def test_evaluate_prints_words_and_films(mygym_command: Command, tmp_path: Path) -> None:
    line = "evaluate --policy zero --episodes 2 --video film.mp4 --set video.width=64 --set video.height=48"
    outcome = mygym_command(*line.split())
    assert outcome.code == 0, outcome.err
    assert re.search(r"success_rate +0\.0%", outcome.out)
    assert outcome.out.splitlines()[-1] == "video: film.mp4"
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]
    assert (tmp_path / "film.mp4").stat().st_size > 1000


def test_evaluate_says_and_films_where_it_fails(mygym_command: Command, tmp_path: Path) -> None:
    line = "evaluate --policy hover --task pick_and_place --episodes 3 --failure-videos made/here"
    small = ["--set", "video={width: 64, height: 48}", "--set", "task_params.horizon=30"]
    outcome = mygym_command(*line.split(), *small)
    assert outcome.code == 0, outcome.err
    said = re.search(
        r"^failed in grasp \(grasp the cube\): 3 of 3 episodes, 100\.0%; .* seed (\d+)$", outcome.out, re.M
    )
    assert said
    assert outcome.out.splitlines()[-1] == "failure videos: made/here"
    film = tmp_path / "made" / "here" / f"failed_in_grasp_seed_{said[1]}.mp4"
    assert list(tmp_path.rglob("*.*")) == [film]
    before = film.read_bytes()
    content = json.loads(mygym_command(*line.split(), *small, "--json").out)
    phrase = {"stage": "grasp", "phrase": "grasp the cube"}
    assert content["failures"] == [{**phrase, "count": 3, "share": 1.0, "seed": int(said[1])}]
    assert sorted(tmp_path.rglob("*.*")) == [film, film.with_stem(f"{film.stem}_2")]  # nothing is overwritten
    assert film.read_bytes() == before
    solved = mygym_command("evaluate", "--policy", "oracle", "--episodes", "2", "--failure-videos", "none")
    assert "failed in" not in solved.out
    assert solved.out.splitlines()[-1] == "failure videos: none, as no episode failed"
    assert not (tmp_path / "none").exists()


def test_a_card_in_words_and_json(mygym_command: Command, tmp_path: Path) -> None:
    outcome = mygym_command("card", "reach", "--robot", "kuka", "--episodes", "4")
    assert outcome.code == 0
    assert outcome.out.startswith(
        "reach: approach the goal\nkuka, workspace table, ee_delta; 4 episodes of each policy"
    )
    assert re.search(r"^ oracle +100\.0% +≥ 47\.3% +\d+\.\d ", outcome.out, re.M)
    assert "solved at reset: 0.0% of 24 resets" in outcome.out
    assert outcome.err.splitlines()[:2] == ["card of reach: 24 resets", "card of reach: 4 episodes of oracle"]
    content = json.loads(mygym_command("card", "[approach, push]", "--episodes", "1", "--json").out)
    assert content["words"] == "approach the cube, push it to the goal"
    assert set(content["policies"]) == {"oracle", "random", "zero", "hover"}
    assert list(tmp_path.iterdir()) == []


def test_a_card_of_a_config_with_its_own_numbers(mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("task: reach\nworkspace: drawer\ntask_params: {horizon: 5}\nsteps: 5000\n")
    outcome = mygym_command("card", "--config", "mine.yaml", "--set", "task_params.tolerance=0.001", "--episodes", "1")
    assert outcome.code == 0
    assert "workspace drawer, ee_delta; 1 episode of each policy" in outcome.out
    assert re.search(r"^ zero +0\.0% +≤ 95\.0% +5\.0 ", outcome.out, re.M)  # steps
    assert "expert solves it: NO" in outcome.out


def test_a_card_of_few_episodes_says_that_they_are_few(mygym_command: Command) -> None:
    outcome = mygym_command("card", "push", "--episodes", "1")
    assert "1 episode of oracle" in outcome.err
    last = outcome.out.splitlines()[-1]
    assert last.startswith(
        "nothing wrong so far, but up to 39.3% of resets may be solved; the expert may solve as few as"
    )
    assert last.endswith("random actions may solve up to 95.0%: more --episodes are needed to tell")


def test_the_programs_of_the_folder_are_the_commands(python, tmp_path: Path) -> None:
    done = python(str(ROOT / "evaluate.py"), "--policy", "zero", "--episodes", "1")
    assert done.returncode == 0, done.stderr
    assert "success_rate" in done.stdout
    assert done.stderr == ""
    done = python("-m", "mygym", "list", "robot")
    assert done.stdout.splitlines()[0] == "robot"


def test_a_closed_pipe_is_no_traceback(python, tmp_path: Path) -> None:
    code = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-m', 'mygym', 'list'], stdout=subprocess.PIPE, stderr=subprocess.PIPE);"
        "p.stdout.close(); sys.exit('Traceback' in p.stderr.read().decode())"
    )
    assert python("-c", code).returncode == 0


# new, check ---------------------------------------------------------------------------------------------------------


def test_from_nothing_to_a_trained_algorithm_in_two_commands(mygym_command: Command, tmp_path: Path) -> None:
    made = mygym_command("new", "algo", "mine")
    assert made.code == 0
    files = ["algos/mine.py", "configs/mine.yaml", "tests/test_mine.py"]
    assert made.out.splitlines()[:3] == files
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == files
    (train,) = [line.strip() for line in made.out.splitlines() if line.strip().startswith("mygym train")]
    trained = mygym_command(*train.split()[1:], *TRAIN)
    assert trained.code == 0
    assert trained.out.splitlines()[-1].startswith("run: runs/reach/panda/mine/")
    again = mygym_command("new", "algo", "mine")
    assert (again.code, "is a registered algorithm already" in again.err) == (2, True)


def test_what_is_next_is_said_for_the_folder_that_one_is_in(mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert "  python train.py --task mine\n  mygym check task mine\n" in mygym_command("new", "task", "mine").out
    both = mygym_command("new", "env", "other").out
    assert "mygym check task other" in both
    assert "mygym check workspace other" in both


def test_check_tells_of_each_check_and_ends_with_0(mygym_command: Command, tmp_path: Path) -> None:
    outcome = mygym_command("check", "policy", "zero")
    assert outcome.code == 0
    assert re.fullmatch(
        r"policy zero\n  passed   acts +\d+\.\d s\n  passed   deterministic +\d+\.\d s\n"
        r"2 passed, 0 failed, 0 left out, \d+\.\d s\n",
        outcome.out,
    )
    assert list(tmp_path.iterdir()) == []


def test_a_failed_check_is_told_of_with_its_reason_and_ends_with_1(mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    source = "from mygym.tasks.task import register_task\nregister_task('mine', 'GA', help='makes no sense')\n"
    (tmp_path / "envs" / "mine.py").write_text(source)
    outcome = mygym_command("check", "task", "mine")
    assert outcome.code == 1
    assert re.search(r"^  FAILED   grammatical .*grasp requires 'near'", outcome.out, re.M)
    assert "  left out environment" in outcome.out
    outcome = mygym_command("check", "task", "mine", "--json")
    assert outcome.code == 1
    rows = json.loads(outcome.out)
    assert [row["status"] for row in rows] == ["failed", *["left out"] * 6]
    assert rows[0].keys() == {"kind", "name", "check", "status", "seconds", "why"}


def test_check_all(mygym_command: Command) -> None:
    rows = json.loads(mygym_command("check", "policy", "--all", "--json").out)
    assert {row["name"] for row in rows} == set(registry("policy").names())


def test_check_with_a_robot(mygym_command: Command) -> None:
    rows = json.loads(mygym_command("check", "workspace", "stairs", "--robot", "panda", "--json").out)
    assert "step_3 100%" in next(row["why"] for row in rows if row["check"] == "panda within reach")
    for words, told in (("task push --robot kuka", "--robot"), ("workspace table --robot kuca", "did you mean 'kuka'")):
        outcome = mygym_command("check", *words.split())
        assert outcome.code == 2
        assert told in outcome.err


# an algorithm's hyperparameters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("algo", "framework"), COMBOS)
def test_help_of_an_algorithm_lists_what_can_be_set_with_type_default_and_text(
    algo: str, framework: str, mygym_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    outcome = mygym_command("train", "--algo", algo, "--framework", framework, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    lines = {line.split()[0]: line for line in outcome.out.partition("algo_params of")[2].splitlines() if line.split()}
    values = resolve_config(overrides={"algo": algo, "framework": framework}).config.algo_params
    assert set(values) <= {name.partition(".")[0] for name in lines} | {"buffer_size", "learning_starts"}
    for name, value in values.items():
        if isinstance(value, bool | float) or value is None:
            assert re.search(rf" {re.escape(json.dumps(value))}( |$)", lines[name]), lines[name]


def test_help_says_type_range_default_and_text(mygym_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    text = mygym_command("train", "--algo", "sac", "--help").out
    assert re.search(r"\n tau +a number, at least 0 and at most 1 +0\.05 +the soft update coefficient", text)
    assert re.search(r"\n policy_kwargs\.activation_fn +a name of `mygym list activation` +relu +Activation", text)
    assert re.search(r"\n policy_kwargs\.optimizer_kwargs\.fused +true or false or null +true", text)
    assert "training_params of" not in text
    runner = mygym_command("train", "--algo", "cem", "--help").out
    assert re.search(r"training_params of cem .*\n\n.*\n.*\n episodes +a whole number, at least 1 +\d ", runner)
    assert "hyperparameters of A too" in mygym_command("train", "--help").out


def test_only_an_algorithm_has_a_complete_config(mygym_command: Command) -> None:
    outcome = mygym_command("describe", "robot", "panda", "--yaml")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--yaml: 'robot' has no config of its own" in outcome.err


def test_list_has_frameworks_and_requirements(mygym_command: Command) -> None:
    rows = {row["name"]: row for row in json.loads(mygym_command("list", "algo", "--json").out)}
    assert rows["sac"]["frameworks"] == ["pytorch", "jax"]
    assert rows["ars"]["requires"] == ["flat observations"]
    assert rows["ppo"]["requires"] == ["flat observations (jax)"]
    assert rows["crossq"]["requires"] == ["flat observations (pytorch)"]
    words = mygym_command("list", "algo").out
    assert re.search(r"\n ars +pytorch +flat observations +augmented", words)


ARM = Path(__file__).parents[2] / "envs" / "robots" / "desk_arm.urdf"


@pytest.mark.parametrize(
    "line",
    ["describe robot {arm}", "new robot mine --urdf {arm}", "evaluate --policy oracle --robot {arm} --episodes 1"],
)
def test_what_is_inferred_from_a_urdf_is_told(line: str, mygym_command: Command) -> None:
    outcome = mygym_command(*line.format(arm=ARM).split())
    assert outcome.code == 0, outcome.err
    told = outcome.out + outcome.err
    for inferred in ("an arm of 6 joints, joint_1 to joint_6", "no gripper", "[0.0, 0.0, 0.02] m"):
        assert inferred in told
