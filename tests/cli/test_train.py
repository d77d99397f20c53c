"""`mygym train`: help, `--explain`, `--dry-run` and training."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mygym.cli.command import CONFIG_FLAGS
from mygym.config import load_file
from mygym.envs.env_spec import EnvSpec
from mygym.envs.robot_env import RobotEnv
from mygym.planning.resolve import resolve_config
from mygym.registry import algorithm, entries
from tests.command import SHORT_RUN, Command
from tests.components import ALGORITHMS, COMBOS, KINDS, slow_except
from tests.conftest import ROOT


def test_train_has_every_flag_of_the_design(mygym_command: Command) -> None:
    text = mygym_command("train", "--help").out
    flags = "config algo framework strategy robot task workspace control engine steps seed n-envs logdir resume set"
    assert all(f"--{flag} " in text for flag in flags.split())
    assert "--explain" in text
    assert "--dry-run" in text


@pytest.mark.parametrize("flags", ["--explain --dry-run", "--gui --dry-run", "--seeds 2 --explain --gui"])
def test_flags_of_which_one_would_be_ignored_are_refused(flags: str, mygym_command: Command) -> None:
    outcome = mygym_command("train", *flags.split())
    assert outcome.code == 2
    assert all(flag in outcome.err for flag in flags.split()[-2:])


@pytest.mark.parametrize(("algo", "framework"), COMBOS)
def test_help_of_an_algorithm_lists_its_hyperparameters(
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


def test_help_has_type_range_default_and_text(mygym_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    text = mygym_command("train", "--algo", "sac", "--help").out
    assert re.search(r"\n tau +a number, at least 0 and at most 1 +0\.05 +the soft update coefficient", text)
    assert re.search(r"\n policy_kwargs\.activation_fn +a name of `mygym list activation` +relu +Activation", text)
    assert re.search(r"\n policy_kwargs\.optimizer_kwargs\.fused +true or false or null +true", text)
    assert "training_params of" not in text
    runner = mygym_command("train", "--algo", "cem", "--help").out
    assert re.search(r"training_params of cem .*\n\n.*\n.*\n episodes +a whole number, at least 1 +\d ", runner)
    bare = mygym_command("train", "--help").out
    assert "--help also lists the hyperparameters" in bare
    assert "algo_params of" not in bare


def test_help_has_the_values_of_the_run(mygym_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    text = mygym_command("train", "--task", "press", "--set", "algo_params.gamma=0.9", "--algo", "ppo", "--help").out
    assert re.search(r"\n n_steps +a whole number, at least 1 +64 ", text), "that of ppo for several stages, not 2048"
    assert re.search(r"\n gamma +a number, [^0-9]*0 and at most 1 +0\.9 ", text)
    assert "algo_params of ppo (pytorch)" in mygym_command("train", "--task", "push", "--help").out
    assert "algo_params of sac (pytorch)" in mygym_command("train", "--task", "reach", "--help").out
    joined = mygym_command("train", "--strategy", "demos+curriculum", "--task", "AGM", "--help").out
    assert "--set strategy_params.curriculum.NAME=VALUE" in joined
    assert re.search(r"\n episodes +a whole number or null +100 ", joined), "what demos decides, not null"


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


@pytest.mark.parametrize("more", [[], ["--algo", "ppo", "--set", "normalize=true"], ["--set", "env_processes=true"]])
def test_explain_builds_a_single_environment(
    more: list[str], mygym_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One environment takes 30 MB; 1024 of them would take minutes."""
    usual, built = RobotEnv._start, []

    def build(self: RobotEnv, spec: EnvSpec) -> None:
        built.append(self)
        usual(self, spec)

    monkeypatch.setattr(RobotEnv, "_start", build)
    outcome = mygym_command("train", "--n-envs", "1024", "--explain", *more)
    assert (outcome.code, outcome.err, len(built)) == (0, "", 1)
    assert re.search(r"^n_envs +1024 +flag", outcome.out, re.MULTILINE)


CONFIGS = slow_except(sorted((ROOT / "configs").glob("*.*")), lambda path: load_file(path).get("framework") != "jax")
"""The normal suite trains those of JAX, which compile for seconds, once: in `tests/docs/test_examples.py`."""


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_config_is_valid(path: Path, mygym_command: Command) -> None:
    assert mygym_command("train", "--config", str(path), "--explain").code == 0
    assert resolve_config(load_file(path)).config


def test_names_remain_text(mygym_command: Command) -> None:
    assert set(CONFIG_FLAGS) <= set(resolve_config().values())
    outcome = mygym_command("train", "--robot", "1", "--explain")
    assert "robot: '1'" in outcome.err


@pytest.mark.parametrize("algo", slow_except(ALGORITHMS, KINDS.__contains__))
def test_dry_run_builds_everything_and_writes_nothing(algo: str, mygym_command: Command, tmp_path: Path) -> None:
    outcome = mygym_command("train", "--algo", algo, "--n-envs", "1", "--dry-run")
    assert outcome.code == 0, outcome.err
    for text in (
        "observation: ",
        "observed: ee_position 3, ee_velocity 3",
        "action: Discrete(27)" if "discrete_actions" in algorithm(algo).requires else "action: Box(-1.0, 1.0, (3,)",
        "algorithm: ",
        "parameters",
        "env steps/s",
    ):
        assert text in outcome.out
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
def test_dry_run_raises_the_errors_of_a_run(flags: str, key: str, mygym_command: Command) -> None:
    outcome = mygym_command("train", *flags.split(), "--dry-run")
    assert (outcome.code, outcome.err.startswith(f"error: {key}: ")) == (2, True), outcome.err


SLIDE = ("--task", "slide", "--robot", "kuka")  # not supported: Kuka stops before the goal

DRY_RUN, TRAINED = (
    ("train", "--dry-run", "--n-envs", "1"),
    ("train", *SHORT_RUN, "--n-envs", "1", "--set", "task_params.horizon=20"),
)

EVALUATED = ("evaluate", "--policy", "oracle", "--episodes", "1")


@pytest.mark.parametrize("command", [DRY_RUN, TRAINED, EVALUATED])
def test_an_unsupported_robot_is_noted_and_runs(command: tuple[str, ...], mygym_command: Command) -> None:
    outcome = mygym_command(*command, *SLIDE)
    assert outcome.code == 0, outcome.err
    notes = [line for line in outcome.err.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1
    assert notes[0].startswith("note: kuka does not do slide well enough in workspace table; supported robots: ")
    assert "panda" in notes[0]


@pytest.mark.parametrize(
    "command",
    [DRY_RUN, *(pytest.param(command, marks=pytest.mark.slow) for command in (TRAINED, EVALUATED))],
)
def test_a_supported_robot_gives_no_note(command: tuple[str, ...], mygym_command: Command) -> None:
    assert "note: " not in mygym_command(*command, "--task", "push", "--robot", "kuka").err


TO_PUSH = (
    "--strategy",
    "curriculum",
    "--set",
    "spaces=shared",
    "--set",
    'strategy_params.levels=[{}, {"task": "push"}]',
)


@pytest.mark.parametrize(("more", "noted"), [((), True), (TO_PUSH, False)], ids=["no object", "a level with one"])
def test_values_of_objects_without_effect_are_noted(more: tuple[str, ...], noted: bool, mygym_command: Command) -> None:
    of_objects = ("--set", "task_params.object=apple", "--set", "task_params.rotation=[-1, 1]")
    outcome = mygym_command(*DRY_RUN, "--task", "reach", *of_objects, *more)
    assert outcome.code == 0, outcome.err
    assert ("note: task_params.object, task_params.rotation: no effect" in outcome.err) == noted


def test_a_note_says_what_the_best_algorithm_of_the_task_needs(
    mygym_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "is_installed", {"jax": False}.get)
    outcome = mygym_command(*DRY_RUN, "--task", "press")
    assert outcome.err.splitlines()[0] == "note: ppo trains the task: xqc, the best, needs mygym[jax]"
    assert "the best" not in mygym_command(*DRY_RUN, "--task", "press", "--algo", "ppo").err


def test_the_last_note_has_the_success_of_each_task_and_the_outcome_of_the_strategies(mygym_command: Command) -> None:
    strategy = ("--strategy", "multitask+experts", "--set", "strategy_params.multitask.tasks=[reach, push]")
    by_sampler = ("--set", "strategy_params.experts={by: sampler, candidates: 2}")
    outcome = mygym_command("train", *SHORT_RUN, "--algo", "a2c", *strategy, *by_sampler)
    assert outcome.code == 0, outcome.err
    run = Path(outcome.out.splitlines()[-1].removeprefix("run: "))
    assert f"directory: {run}\n" in outcome.err.partition("success")[0], "for a run that is killed"
    result = json.loads((run / "result.json").read_text())
    by_task = ", ".join(f"{task} {rate:.0%}" for task, rate in result["success_by_task"].items())
    assert set(result["success_by_task"]) == {"reach", "push"}
    path = result["strategy"]["mixture"]["path"]
    assert f" s; {by_task}; mixture: path {path}\n" in outcome.err + outcome.out


@pytest.mark.slow
def test_a_policy_of_the_fused_engine_is_trained_on_in_pybullet(mygym_command: Command, tmp_path: Path) -> None:
    line = "train --engine fused --task reach --seed 3 --n-envs 16 --steps 512 --finetune-steps 1024"
    settings = "eval={episodes: 2, final_episodes: 2}", "video.episodes=0", "tensorboard=false"
    settings = *settings, "algo_params.policy_kwargs.net_arch=[24]"
    outcome = mygym_command(*line.split(), *(word for setting in settings for word in ("--set", setting)))
    assert outcome.code == 0, outcome.err
    fused, tuned = (tmp_path / words.removeprefix("run: ") for words in outcome.out.splitlines() if "run: " in words)
    first, second = (load_file(run / "config.yaml") for run in (fused, tuned))
    assert (first["engine"], second["engine"]) == ("fused", "pybullet")
    assert (second["steps"], second["seed"], second["reward"]) == (1024, 3, first["reward"])
    assert second["algo_params"]["policy_kwargs"]["net_arch"] == [24]
    assert second["algo_params"]["n_steps"] != first["algo_params"]["n_steps"]
    assert tmp_path / second["pretrained"]["path"] == fused  # tests/training/test_pretrained.py: its weights are loaded
