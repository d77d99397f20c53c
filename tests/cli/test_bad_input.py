"""Invalid input: exit code 2, one message with key, value, allowed values and the nearest name, and no file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mygym.cli.main import main
from tests.command import Command, Outcome
from tests.components import slow_except

UNREACHABLE = "task_params.areas.reach={low: [1.5, 0, 0.1], high: [1.7, 0.1, 0.2]}"

ONTO = '{"stages":"AGMDW","object":"%s","onto":"%s"}'

TWO_LINKS = """<robot name="two"><link name="base"/><link name="tip"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="turn" type="revolute">
<parent link="base"/><child link="tip"/><axis xyz="0 0 1"/><limit lower="-1" upper="1"/></joint></robot>"""

UNKNOWN_LINK = """
urdf: two.urdf
base_position: [0, 0, 0]
base_orientation: [0, 0, 0, 1]
joints: [{name: turn, home: 0, lower: -1, upper: 1, velocity: 1, effort: 1}]
end_effector: {link: tipp}
"""

TAKE_A_VALUE = [
    *(f"train --{flag}" for flag in ("config", "workspace", "logdir", "resume", "robot", "task", "set", "import")),
    *("evaluate --policy", "evaluate --policy zero --video", "demos --out", "replay demos --video", "search RUN --out"),
]
MISTAKES = [
    ("new algo none", ["--class", "'None'", "keyword of Python"]),
    ("new task yes", ["name", "'yes'", "is not text in YAML"]),
    ("new algoo custom", ["new", "'algoo'", "did you mean 'algo'"]),
    ("new algo sac", ["name", "'sac'", "is a registered algorithm already"]),
    ("new algo two-words", ["name", "'two-words'", "letters, digits and _"]),
    ("new algo class", ["name", "'class'", "Python"]),
    ("new algo custom --base pppo", ["algo", "'pppo'", "did you mean 'ppo'"]),
    ("new algo custom --class 9", ["--class", "'9'"]),
    ("new task custom --class Custom", ["--class", "'Custom'", "is not for task"]),
    ("new task custom --urdf a.urdf", ["--urdf", "robot"]),
    ("new robot custom --urdf a.urdf", ["urdf", "a.urdf", "is not a file"]),
    ("new algo", ["NAME"]),
    ("serve --logdir /proc/runs", ["--logdir", "'/proc/runs'", "cannot be written"]),
    ("serve two.urdf", ["--logdir", "'two.urdf'", "not a folder"]),
    ("runs gone --logdir gone", ["--logdir", "DIR"]),
    ("plot gone --logdir gone -o new.svg", ["--logdir", "DIR"]),
    ("report gone -o new.html", ["folder: 'gone' is not a folder", "allowed: "]),
    ("plot gone -o new.svg", ["folder: 'gone' is not a folder", "allowed: "]),
    (
        "train --strategy lora --set strategy_params.rank=5000 --explain",
        ["strategy_params.rank: 5000", "or equal to 1024"],
    ),
    (
        "train --strategy bottleneck --set strategy_params.size=5000 --explain",
        ["strategy_params.size: 5000", "or equal to 1024"],
    ),
    ("serve . --host 0.0.0.0", ["--host", "'0.0.0.0'", "needs --token"]),
    ("serve . --host 192.0.2.1 --token 0123456789abc", ["--host", "192.0.2.1", "an address of this machine"]),
    ("serve . --port 70000", ["--port", "'70000'", "0 to 65535"]),
    ("serve . --token short", ["--token", "12 ASCII characters"]),
    ("serve . --slots 0", ["--slots", "'0'"]),
    ("dataset visoin push --out new", ["dataset", "'visoin'", "did you mean 'vision'"]),
    ("dataset vision --out new", ["dataset", "give a TASK"]),
    ("dataset vision push --out new --camera wrst", ["camera", "'wrst'", "did you mean 'wrist'"]),
    ("dataset vision push --out new --category cub", ["categories", "'cub'", "did you mean 'cube'"]),
    ("dataset vision push --out new --images 0", ["--images", "'0'"]),
    ("dataset vision push --out new --splits 0.5", ["--splits", "'0.5'", "a mapping"]),
    ('dataset vision push --out new --splits {"train":0.5}', ["splits", "0.5", "sum is 1"]),
    ("check algo sacc", ["algo", "'sacc'", "did you mean 'sac'"]),
    ("check schedule linear", ["check", "'schedule'", "has no checks"]),
    ("check algo", ["--all"]),
    ("check algo sac --all", ["--all"]),
    ("check algo sac --steps 0", ["--steps", "'0'"]),
    ("check algo sac --framework tensorflow", ["framework", "'tensorflow'"]),
    ("check robot panda --steps 5", ["--steps", "is not trained"]),
    ("train --robot pandaa", ["robot", "'pandaa'", "kuka", "did you mean 'panda'"]),
    ("train --robot gone.urdf", ["robot", "'gone.urdf'", "is not a file"]),
    ("view robot", ["view robot", "`mygym list robot`"]),
    ("describe robot broken.urdf", ["broken.urdf", "not a URDF file"]),
    ("describe workspace notes.txt", ["workspace", "notes.txt"]),
    ("train --robot broken.urdf", ["broken.urdf", "not a URDF file"]),
    ("train --robot block.urdf", ["robot", "block.urdf", "a URDF with moving joints"]),
    ("train --robot lost.yaml", ["lost.yaml", "end_effector.link", "'tipp'", "did you mean 'tip'"]),
    ("train --task raech", ["task", "'raech'", "push", "did you mean 'reach'"]),
    ("train --task GA", ["task", "'GA'", "grasp requires 'near'"]),
    ("train --task AX", ["task", "'AX'", "'X'"]),
    ("train --task=", ["task", "''", "is empty"]),
    ("train --task [approach,pusch]", ["task", "'pusch'", "did you mean 'push'"]),
    ("train --task [approach,open]", ["task", "'open'", "does not name the part to open"]),
    ("train --task [", ["task", "'['"]),
    ("train --algo sacc", ["algo", "'sacc'", "ppo", "did you mean 'sac'"]),
    ("train --framework pytorhc", ["framework", "'pytorhc'", "did you mean 'pytorch'"]),
    ("train --framework jax --algo a2c", ["framework", "'jax'", "a2c", "pytorch"]),
    ("train --framework jax --set device=cuda", ["device", "'cuda'", "jax"]),
    ("train --framework jax --set algo_params.policy_kwargs.net_arc=[8] --n-envs 1", ["algo_params", "net_arc"]),
    ("train --framework jax --algo ppo --set algo_params.clip_range_vf=0.2", ["algo_params.clip_range_vf", "0.2"]),
    ("train --workspace tabel", ["workspace", "'tabel'", "did you mean 'table'"]),
    ("train --control ee_dleta", ["control", "'ee_dleta'", "joint_position", "did you mean 'ee_delta'"]),
    ("train --reward spares", ["reward", "'spares'", "did you mean 'sparse'"]),
    ("train --strategy curiculum", ["strategy", "'curiculum'", "did you mean 'curriculum'"]),
    ("train --engine puybullet", ["engine", "'puybullet'", "fused", "did you mean 'pybullet'"]),
    ("train --engine fused --task throw", ["task", "'throw'", "stage toss", "engine fused", "follow, push"]),
    ("train --engine fused --task stack", ["task", "'stack'", "another object below", "engine fused"]),
    ("train --engine fused --task push --robot kuka", ["robot", "'kuka'", "fingers", "panda"]),
    ("train --task reach --finetune-steps 10", ["--finetune-steps", "10", "such as fused, not pybullet"]),
    ("train --engine fused --finetune-steps 0", ["--finetune-steps", "'0'", "a whole number, at least 1"]),
    ("train --engine fused --control joint_delta", ["control", "'joint_delta'", "engine fused", "ee_delta"]),
    ("train --engine fused --workspace drawer", ["workspace", "'drawer'", "cabinet", "engine fused", "table"]),
    ("train --engine fused --robot panda_pair", ["robot", "'panda_pair'", "motors fitted", "kuka, kuka_gripper"]),
    ("train --engine fused --set env_processes=2", ["env_processes", "2", "engine fused", "false"]),
    (
        "train --engine fused --task push --set randomize.object_mass=[1,2]",
        ["randomize", "object_mass", "engine fused"],
    ),
    ("train --engine fused --set control.action_repeat=2", ["control.action_repeat", "2", "engine fused", "1"]),
    ("train --engine fused --set task_params.distractors=[cube]", ["task_params.distractors", "engine fused"]),
    ("train --learners 0", ["learners", "0", "1"]),
    ("train --learners 2", ["learners", "2", "algo sac of pytorch", "ppo"]),
    ("train --algo crossq --framework jax --learners 2", ["learners", "2", "crossq of jax", "pytorch"]),
    ("train --algo ppo --learners 3", ["n_envs", "8", "a multiple of learners, 3"]),
    ("train --algo ppo --learners 2 --set algo_params.batch_size=65", ["algo_params.batch_size", "65", "learners, 2"]),
    ("train --algo ppo --learners 2 --set algo_params.target_kl=0.1", ["algo_params.target_kl", "0.1", "null"]),
    ("train --algo ppo --learners 2 --strategy curriculum", ["learners", "2", "strategy curriculum", "standard"]),
    ("train --algo multippo --learners 2", ["learners", "2", "strategy mixture"]),
    ("demos reach --learners 2 --out d", ["--learners"]),
    ("train --algo ppo --learners 2 --set env_processes=2", ["env_processes", "2", "several learners", "false"]),
    ("train --algo ppo --set overlap=true", ["overlap", "True", "algo ppo of pytorch", "off-policy"]),
    (
        "train --algo sac --framework jax --set overlap=true",
        ["algo_params.train_freq", "4", "overlap", "1 (and fewer gradient_steps)"],
    ),
    ("train --engine fused --algo sac --set overlap=true", ["overlap", "True", "engine fused", "false"]),
    ("train --n-envs 2000", ["n_envs", "2000", "less than or equal to 1024", "engine: fused"]),
    ("parity --task poke", ["task", "'poke'", "stage poke", "engine fused"]),
    ("parity --robot pnda", ["robot", "'pnda'", "did you mean 'panda'"]),
    ("parity --episodes 0", ["--episodes", "0", "at least 1"]),
    ("parity runs/x --task push", ["'--task'", "cannot be combined with a run", "--episodes"]),
    ("parity runs/x", ["run:", "'runs/x'", "not a run directory"]),
    ("evaluate --policy zero --engine mujco", ["engine", "'mujco'", "did you mean 'mujoco'"]),
    ("evaluate --policy zero --engine fused", ["engine", "'fused'", "many worlds at once", "mujoco"]),
    ("certify", ["mygym certify", "RUN"]),
    ("certify runs/x", ["run:", "'runs/x'", "not a run directory"]),
    ("certify runs/x --engines pybullet", ["--engines", "2"]),
    ("certify runs/x --engines pybullet pybullet", ["--engines", "'pybullet pybullet'", "two different engines"]),
    ("certify runs/x --engines pybullet mujco", ["engine", "'mujco'", "did you mean 'mujoco'"]),
    ("certify runs/x --engines fused pybullet", ["engine", "'fused'", "many worlds at once", "mujoco"]),
    ("certify runs/x --episodes 0", ["--episodes", "'0'", "at least 1"]),
    ("certify runs/x --tolerance much", ["--tolerance", "'much'", "percent points"]),
    ("train --engine bullet", ["engine", "'bullet'", "pybullet"]),
    ("export", ["RUN"]),
    ("export runs/x", ["run:", "'runs/x'", "not a run directory"]),
    ("export runs/x --format onxx", ["--format", "'onxx'", "did you mean 'onnx'"]),
    ("export runs/x -o notes.txt", ["--out", "'notes.txt'", "a file ending in .onnx"]),
    ("run", ["FILE"]),
    ("run gone.onnx", ["file", "'gone.onnx'", "does not exist", "mygym export"]),
    ("run notes.txt", ["file", "'notes.txt'", "is not an exported policy", "mygym export", ".onnx or .pt2"]),
    ("export runs/x --format zo", ["--format", "'zo'", "did you mean 'zoo'"]),
    ("run gone.onnx --episodes 0", ["--episodes", "'0'", "at least 1"]),
    ("run gone.onnx --seed x", ["seed", "'x'"]),
    ("train --resume runs/x", ["run:", "'runs/x'", "not a run directory"]),
    ("train --steps many", ["steps", "'many'", "whole number"]),
    ("train --steps 1.5", ["steps", "1.5", "whole number"]),
    ("train --steps 0", ["steps", "0", "1"]),
    ("train --n-envs 0", ["n_envs", "0", "1"]),
    ("train --seed -1", ["seed", "-1", "0"]),
    ("train --seed=-1", ["seed", "-1", "0"]),
    ("train --robott panda", ["--robott", "did you mean '--robot'"]),
    ("train --steps", ["--steps"]),
    ("train panda", ["panda"]),
    ("train --set robbot=panda", ["robbot", "did you mean 'robot'"]),
    ("train --set eval.evry=5", ["eval.evry", "did you mean 'every'"]),
    ("train --set eval", ["--set", "'eval'", "key=value"]),
    ("train --set eval=5", ["eval", "5"]),
    ("train --set her=perhaps", ["her", "'perhaps'", "true or false"]),
    ("train --set algo_params.learning_rat=1", ["algo_params.learning_rat", "did you mean 'learning_rate'"]),
    ("train --set algo_params.learning_rate=fast", ["algo_params.learning_rate", "'fast'", "number"]),
    ("train --set algo_params.gamma=1.5", ["algo_params.gamma", "1.5", "at most 1"]),
    ("train --set algo_params.batch_size=0", ["algo_params.batch_size", "0", "at least 1"]),
    ("train --set algo_params.batch_size=.nan", ["algo_params.batch_size"]),
    ("train --set algo_params=7", ["algo_params", "7", "a mapping"]),
    ("train --set task_params.object=cuube --task push", ["task_params.object: 'cuube'", "did you mean 'cube' or"]),
    ("train --set task_params.object=cuube", ["task_params.object: 'cuube'", "`mygym list object`"]),
    ("train --set task_params.objects.base=cuube --task stack", ["task_params.objects.base: 'cuube'"]),
    ("train --set task_params.distractors=[cuube]", ["task_params.distractors.0: 'cuube'"]),
    ("train --set task_params.colors.cub=[1,0,0,1] --task push", ["task_params.colors: 'cub'", "did you mean 'cube'"]),
    ("train --set task_params.areas=[1]", ["task_params.areas: [1]", "a mapping"]),
    ("train --set task_params.areas.reach=7", ["task_params.areas.reach: 7", "allowed: a mapping, {key: value}"]),
    ("train --set task_params.areas.reach.low=7", ["task_params.areas.reach.low: 7", "a list"]),
    ("train --set task_params.areas.reach.low=[1,2]", ["task_params.areas.reach.low: [1, 2]", "a list of 3"]),
    ("train --set observations=[]", ["observations: []", "a list of at least 1"]),
    ("train --set task_params.distractors=[{speed:0.1}]", ["task_params.distractors.0"]),
    ("train --task {stages:AGM}", ["task", "a list"]),
    ("train --task agmdw", ["'agmdw'", "letters are capitals: 'AGMDW'"]),
    ("train --task [{stages:[]}]", ["task.0"]),
    ("train --set task_params.tolerance=-1", ["task_params.tolerance", "-1", "greater than 0"]),
    ("train --set video.camera=mian", ["camera", "'mian'", "did you mean 'main'"]),
    ("train --set device=tpu", ["device", "'tpu'"]),
    ("train --task pick_and_place --robot kuka", ["robot", "'kuka'", "gripper"]),
    (
        f"train --task [{ONTO % ('cube', 'die')},{ONTO % ('die', 'cube')}]",
        ["task.1.object", "'die'", "has cube on it"],
    ),
    ('train --task push --set task_params.areas.surface={"low":[0,0,0.2],"high":[0,0,0.2]}', ["areas.surface", "air"]),
    ("train --task push --set task_params.hold=100", ["task_params.hold", "100", "less than the horizon"]),
    ("train --task stack --set task_params.objects.base=ball", ["task_params.objects.base", "'ball'", "flat top"]),
    ("train --task AGM --set task_params.object=plate", ["task_params.object", "'plate'", "too wide"]),
    ("train --task AGM --set randomize.object_size=[1,3]", ["randomize.object_size", "3", "too wide"]),
    ("train --algo ppo --set her=true", ["her", "ppo", "sac"]),
    ("train --config missing.yaml", ["config", "'missing.yaml'", "does not exist"]),
    ("train --config broken.yaml", ["config", "broken.yaml", "line 1"]),
    ("train --config broken.json", ["config", "broken.json"]),
    ("train --config typo.yaml", ["robbot", "did you mean 'robot'"]),
    ("train --config twice.yaml", ["seed", "twice"]),
    ("train --config notes.txt", ["config", "'notes.txt'", ".yaml"]),
    ("train --config folder.yaml", ["config", "folder.yaml"]),
    *((f"train --steps {text}", ["steps", text]) for text in ("010", "0x10", "0b11", "1:40")),
    *((f"{line}=", [line.rpartition(" ")[2], "is empty"]) for line in TAKE_A_VALUE),
    ('train --set logdir=""', ["logdir", "''"]),
    ('train --set workspace=""', ["workspace", "''"]),
    ("train --set device=cpu:99", ["device", "'cpu:99'"]),
    ("train --set algo_params.batch_size=1000000000", ["algo_params.batch_size", "1000000000", "at most 1e+07"]),
    ("train --set algo_params.ent_coef=autox", ["algo_params.ent_coef", "'autox'", "auto_0.1"]),
    ("train --set algo_params.target_entropy=autox", ["algo_params.target_entropy", "'autox'", "a number or auto"]),
    ("train --strategy multitask --set strategy_params.tasks=[reach,reach]", ["tasks.1", "'reach'", "is repeated"]),
    ('train --set logdir="a\\nb"', ["logdir", "a path of printable characters"]),
    *(
        (f"{line} --episodes {count}", ["episodes", str(count), "from 1 to 100000"])
        for line in ("evaluate --policy zero", "card reach", "demos reach --out new")
        for count in (10**9, 2**63 - 1)
    ),
    ("train --seed 0b11", ["seed", "0b11"]),
    ("evaluate --policy zero --episodes 010", ["--episodes", "010"]),
    ("train --logdir notes.txt", ["logdir", "'notes.txt'"]),
    ("train --logdir notes.txt/runs", ["logdir", "'notes.txt/runs'"]),
    ("train --set strict=true", ["strict", "eval.every"]),
    ("demos", ["--out"]),
    ("demos --out new", ["give a TASK"]),
    ("demos --policy runs/none --out new", ["--policy", "'runs/none'", "not a saved policy"]),
    ("demos raech --out new", ["task", "'raech'", "did you mean 'reach'"]),
    ("demos reach --robot pandaa --out new", ["robot", "'pandaa'", "did you mean 'panda'"]),
    ("demos reach --out new --episodes 0", ["--episodes", "'0'", "at least 1"]),
    ("demos reach --out new --noise -1", ["noise", "-1", "at least 0"]),
    ("demos reach --out new --noise much", ["noise", "'much'"]),
    ("demos reach --out new --partial 0", ["partial", "0", "at most 1"]),
    ("demos reach --out new --partial half", ["--partial", "'half'"]),
    ("demos reach --out new --policy orcale", ["policy", "'orcale'", "did you mean 'oracle'"]),
    ("demos reach --out new --policy keybord", ["policy", "the path of a run", "did you mean 'keyboard'"]),
    ("evaluate --policy slider", ["policy", "'slider'", "keyboard", "did you mean 'sliders'"]),
    ("demos reach --out new --steps 5", ["--steps", "is not an option"]),
    ("replay", ["DATASET"]),
    ("replay a_run", ["dataset", "'a_run'", "is not a dataset"]),
    ("replay nowhere --episode one", ["--episode", "'one'", "whole number"]),
    ("replay nowhere --video film.avi", ["--video", "'film.avi'", ".mp4 or .gif"]),
    ("evaluate", ["run", "--policy"]),
    ("evaluate nowhere", ["run", "'nowhere'", "is not a run directory"]),
    ("evaluate nowhere --policy oracle", ["run", "--policy"]),
    ("evaluate --policy orcale", ["policy", "'orcale'", "zero", "did you mean 'oracle'"]),
    ("evaluate --policy oracle --task raech", ["task", "'raech'", "did you mean 'reach'"]),
    ("evaluate --policy oracle --robot pandaa", ["robot", "'pandaa'", "did you mean 'panda'"]),
    ("evaluate --policy oracle --episodes 0", ["--episodes", "'0'", "at least 1"]),
    ("evaluate --policy oracle --episodes few", ["--episodes", "'few'", "whole number"]),
    ("evaluate --policy oracle --seed -3", ["seed", "-3"]),
    ("evaluate a_run --seed abc", ["seed", "abc"]),
    ("evaluate --policy zero --video notes.txt/film.mp4 --episodes 1", ["video", "notes.txt/film.mp4"]),
    ("evaluate --policy zero --video notes.txt --episodes 1", ["video", "'notes.txt'", ".mp4"]),
    ("evaluate --policy oracle --task pick_and_place --robot kuka", ["robot", "'kuka'", "gripper"]),
    ("evaluate --policy zero --failure-videos notes.txt --episodes 1", ["--failure-videos", "'notes.txt'", "a folder"]),
    ("card", ["TASK"]),
    ("card --set seed=1", ["TASK", "--config"]),
    ("card reach --set workspace=5", ["workspace: 5", "text"]),
    ("card reach --config typo.yaml", ["robbot", "did you mean 'robot'"]),
    ("card raech", ["task", "'raech'", "did you mean 'reach'"]),
    ("card GA", ["task", "'GA'", "grasp requires 'near'"]),
    ("card [approach,pusch]", ["task", "'pusch'", "did you mean 'push'"]),
    ("card reach --robot pandaa", ["robot", "'pandaa'", "did you mean 'panda'"]),
    ("card reach --workspace tabel", ["workspace", "'tabel'", "did you mean 'table'"]),
    ("card reach --control ee_dleta", ["control", "'ee_dleta'", "did you mean 'ee_delta'"]),
    ("card pick_and_place --robot kuka", ["robot", "'kuka'", "gripper"]),
    ("card reach --episodes 0", ["--episodes", "'0'", "at least 1"]),
    ("card reach --robott panda", ["--robott", "did you mean '--robot'"]),
    ("list robots", ["kind", "'robots'", "did you mean 'robot'"]),
    ("list --jsn", ["--jsn", "did you mean '--json'"]),
    ("describe robot pandaa", ["robot", "'pandaa'", "did you mean 'panda'"]),
    ("describe robbot panda", ["kind", "'robbot'", "did you mean 'robot'"]),
    ("describe task GA", ["task", "'GA'", "grasp requires 'near'"]),
    ("describe task", ["NAME"]),
    ("trian", ["command", "'trian'", "did you mean 'train'"]),
]


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("robot: [panda")
    (tmp_path / "broken.urdf").write_text("<robot")
    (tmp_path / "block.urdf").write_text('<robot name="block"><link name="base"/></robot>')
    (tmp_path / "lost.yaml").write_text(UNKNOWN_LINK)
    (tmp_path / "two.urdf").write_text(TWO_LINKS)
    (tmp_path / "broken.json").write_text('{"robot": ')
    (tmp_path / "typo.yaml").write_text("robbot: panda")
    (tmp_path / "twice.yaml").write_text("seed: 1\nseed: 2")
    (tmp_path / "notes.txt").write_text("user text")
    (tmp_path / "folder.yaml").mkdir()


FILES = {"broken.yaml", "broken.json", "typo.yaml", "twice.yaml", "notes.txt", "folder.yaml"} | {
    "broken.urdf",
    "block.urdf",
    "lost.yaml",
    "two.urdf",
}


def check(outcome: Outcome, words: list[str], folder: Path) -> None:
    assert outcome.code == 2, outcome
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.out == ""
    for word in words:
        assert word in outcome.err
    assert {path.name for path in folder.iterdir()} == FILES
    assert (folder / "notes.txt").read_text() == "user text"


@pytest.mark.parametrize(("line", "words"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_an_error_is_one_message_and_no_file(
    line: str, words: list[str], mygym_command: Command, tmp_path: Path
) -> None:
    check(mygym_command(*line.split()), words, tmp_path)


@pytest.mark.parametrize("robot", ["panda", "kuka"])
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_unreachable_goals_are_errors(robot: str, more: list[str], mygym_command: Command, tmp_path: Path) -> None:
    outcome = mygym_command("train", "--robot", robot, "--set", UNREACHABLE, *more)
    check(outcome, ["task_params.areas.reach", "1.5", robot, "reach"], tmp_path)


@pytest.mark.parametrize(("command", "name"), [("list", "KIND"), ("evaluate", "RUN")])
def test_an_empty_argument_is_refused(command: str, name: str, mygym_command: Command, tmp_path: Path) -> None:
    outcome = mygym_command(command, "")
    assert outcome.code == 2
    assert f"error: {name}: '' is empty; allowed: a value" in outcome.err


@pytest.mark.parametrize("key", ["robot", "task", "algo", "control", "workspace", "framework", "steps", "seed"])
def test_any_value_of_a_flag_ends_with_0_or_2(key: str, mygym_command: Command) -> None:
    for value in ["", " ", "null", "[]", "{}", "3", "true", "a b"]:
        outcome = mygym_command("train", "--explain", "--set", f"{key}={value}")
        assert outcome.code in (0, 2)
        assert "Traceback" not in outcome.err
        assert (outcome.code == 0) == (outcome.err == "")


WORDS = st.sampled_from(
    ["--robot", "--task", "--algo", "--set", "--config", "--steps", "panda", "reach", "GA", "sac", "x=1", "seed=2"]
) | st.text(max_size=6)


@settings(max_examples=60)
@given(words=st.lists(WORDS, max_size=5))
def test_any_arguments_end_with_0_or_2_and_one_message(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", "--explain", *words])
    out, err = capsys.readouterr()
    assert ended.value.code in (0, 2)
    if ended.value.code == 2:
        assert err.startswith("error: ")
        assert len(err.splitlines()) == 1
        assert out == ""


@pytest.mark.parametrize(
    "line",
    [
        "--robot pandaa",
        pytest.param("--task GA", marks=pytest.mark.slow),
        # Imports PyTorch; `test_unreachable_goals_are_errors` refuses it in this process.
        pytest.param(f"--set {UNREACHABLE.replace(' ', '')}", marks=pytest.mark.slow),
    ],
)
def test_train_py_ends_with_2(line: str, python, tmp_path: Path) -> None:
    from tests.conftest import ROOT

    done = python("-W", "error::RuntimeWarning", str(ROOT / "train.py"), *line.split())
    check(Outcome(done.returncode, done.stdout, done.stderr), [], tmp_path)


@pytest.mark.parametrize("line", slow_except(["train --explain", "describe task reach"], "train --explain".__eq__))
def test_a_user_file_with_a_built_in_name_is_one_message(line: str, python, tmp_path: Path) -> None:
    """Tasks are looked up when the package is imported."""
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "custom.py").write_text(
        'from mygym.tasks.task import register_task\nregister_task("reach", ["approach"])\n'
    )
    done = python("-m", "mygym", *line.split())
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "custom.py:2: task 'reach' is registered twice: " in done.stderr
