"""Suites of tasks, stages, robots, workspaces, objects and policies: all built-in pass, mistakes are detected."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from mygym.checks import Outcome, check, robots, stages, tasks
from mygym.checks.robots import does_task, grasps
from mygym.checks.stages import setting
from mygym.checks.suite import CheckFailed, CheckLeftOut
from mygym.checks.tasks import make_card
from mygym.nested import merged
from mygym.registry import ASSETS, register_policy, registry
from mygym.robotics.workspace import load_workspace
from mygym.tasks.context import ArmCommand, StageContext
from mygym.tasks.lookup import find_task
from mygym.tasks.predicates import distance
from mygym.tasks.stage import register_stage
from mygym.tasks.stages.handling import APPROACH
from mygym.tasks.stages.motions import lifted
from mygym.tasks.stages.pushing import PUSH
from mygym.tasks.task import register_task
from tests.components import ROBOTS, slow_except
from tests.short_checks import shorten


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    return tmp_path


@pytest.fixture(autouse=True)
def _few_episodes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests with the marker `slow` perform the suites with all episodes."""
    if request.node.get_closest_marker("slow") is None:
        shorten(monkeypatch)
        monkeypatch.setattr(tasks, "make_card", lambda config: make_card(config, EPISODES_OF_A_CARD))


def failed(kind: str, name: str, **options: Any) -> list[Outcome]:
    return [outcome for outcome in check(kind, name, **options) if outcome.status != "passed"]


def first_failed(kind: str, name: str) -> Outcome:
    """Perform the checks up to the first failure, and return its outcome."""
    return next(outcome for outcome in check(kind, name) if outcome.failed)


def names_of(outcomes: list[Outcome]) -> list[str]:
    return [outcome.check for outcome in outcomes if outcome.failed]


EPISODES_OF_A_CARD = 20
"""So many that chance does not solve the share of `reach` that is a flaw."""

QUICK = {
    "robot": ("kuka_gripper",),
    "object": ("ball", "basket", "cube", "duck", "egg", "gear", "mug", "tape", "wrench"),
    "stage": ("withdraw",),  # after other stages; tests/experts plays all
    "task": ("reach",),  # see test_cards.py
    "policy": registry("policy").names(),
}
ALL = [(kind, name) for kind in QUICK for name in (ROBOTS if kind == "robot" else registry(kind).names())]


def test_the_quick_components_exist() -> None:
    assert all(set(names) <= set(registry(kind).names()) for kind, names in QUICK.items())


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, name in ALL if name in QUICK[kind]])
def test_built_in_components_pass(kind: str, name: str) -> None:
    assert names_of(failed(kind, name)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), ALL)
def test_built_in_components_pass_with_all_episodes(kind: str, name: str) -> None:
    assert names_of(failed(kind, name)) == []


WORKSPACES_QUICKLY = slow_except(registry("workspace").names(), ("table", "drawer", "maze").__contains__)
"""Of the built-in workspaces a plain one, one with a part that moves, and one with thin walls."""


@pytest.mark.parametrize("name", WORKSPACES_QUICKLY)
def test_built_in_workspaces_pass_with_the_default_robot(name: str) -> None:
    assert failed("workspace", name, robot="panda") == []


@pytest.mark.slow
@pytest.mark.parametrize("name", registry("workspace").names())
def test_built_in_workspaces_pass_with_the_robots_at_home_in_them(name: str) -> None:
    at_home = load_workspace(registry("workspace").get(name).load()).robots
    for robot in ROBOTS:
        assert not (robot in at_home or robot == "panda") or failed("workspace", name, robot=robot) == []


# robots -------------------------------------------------------------------------------------------------------------


def robot(folder: Path, name: str = "mine", urdf: str | None = None, **changes: Any) -> str:
    """Write a user's robot, a KUKA with changes, and return its name."""
    subfolder = folder / "envs" / "robots"
    subfolder.mkdir(parents=True, exist_ok=True)
    data = yaml.safe_load((ASSETS / "robots" / "kuka.yaml").read_text())
    data["urdf"] = str(ASSETS / "robots" / "kuka.urdf")
    data["mounts"][0]["urdf"] = str(ASSETS / "robots" / "tools" / "rod.urdf")
    if urdf is not None:
        meshes = re.sub(r'filename="meshes', f'filename="{ASSETS / "robots" / "meshes"}', urdf)
        (subfolder / f"{name}.urdf").write_text(meshes)
        data["urdf"] = f"{name}.urdf"
    (subfolder / f"{name}.yaml").write_text("# a custom robot\n" + yaml.safe_dump(data | changes))
    return name


PANDA = ASSETS / "robots" / "panda.urdf"
KUKA = (ASSETS / "robots" / "kuka.urdf").read_text()


def test_a_robot_that_collides_with_the_table(folder: Path) -> None:
    ball = '<collision><origin xyz="0 0 0"/><geometry><sphere radius="0.4"/></geometry></collision>'
    link = '<link name="lbr_iiwa_link_7">'
    findings = {
        outcome.check: outcome for outcome in failed("robot", robot(folder, urdf=KUKA.replace(link, link + ball)))
    }
    assert findings["home"].failed
    assert "lbr_iiwa_link_7 is inside table" in findings["home"].why


def test_a_robot_that_is_too_far_away(folder: Path) -> None:
    findings = {outcome.check: outcome for outcome in failed("robot", robot(folder, base_position=[-1.6, 0.0, 0.0]))}
    assert [name for name in findings if name.startswith("reaches")] == [
        f"reaches by {control}" for control in registry("controller").names()
    ]
    advice = re.search(
        r"with base_position: (\[.*?\]) and home: (\[.*?\]) it reaches 100% of the corners$",
        findings["inverse kinematics"].why,
    )
    assert advice, findings["inverse kinematics"].why
    assert -0.8 < yaml.safe_load(advice[1])[0] < -0.2
    assert len(yaml.safe_load(advice[2])) == 7


def test_a_robot_with_a_palm_among_its_fingers_grasps_nothing(folder: Path) -> None:
    data = yaml.safe_load((ASSETS / "robots" / "panda.yaml").read_text())
    links = data["gripper"]["links"]
    data |= {"urdf": (ASSETS / "robots" / "panda.urdf").read_text(), "mounts": []}
    assert grasps(robot(folder, **data)) == f"3 × cube with {links[0]}, {links[1]}"
    data["gripper"]["links"] = ["panda_hand", *links]
    wrong = robot(folder, "palm", **data)
    with pytest.raises(CheckFailed, match=r"panda_hand never touches cube.*solves 0"):
        grasps(wrong)


def test_a_narrow_hand_grasps_an_object_that_fits(folder: Path) -> None:
    data = yaml.safe_load((ASSETS / "robots" / "panda.yaml").read_text())
    data["gripper"] |= {"width": 0.034, "open": [0.017, 0.017]}
    (folder / "mine.yaml").write_text(yaml.safe_dump(data | {"urdf": str(PANDA)}))
    line = grasps("mine.yaml")
    assert line.startswith("3 × spacer with panda_leftfinger, panda_rightfinger")
    assert all(word in line for word in ("3.4 cm", "4 cm", "--set task_params.object=spacer"))
    data["gripper"]["width"] = 0.009
    (folder / "mine.yaml").write_text(yaml.safe_dump(data | {"urdf": str(PANDA)}))
    assert "every other object" in grasps("mine.yaml")


CAUSES: dict[str, tuple[dict[str, Any], str]] = {
    "one way": ({"gripper": {"open": [0.04, 0.0], "closed": [0.0, 0.04]}}, r"gap never closes.* 0\.0 cm closer"),
    "narrow": ({"gripper": {"open": [0.01, 0.01]}}, r"opening is too narrow: the open fingers are 2\.0 cm apart"),
    "wide": ({"gripper": {"closed": [0.025, 0.025]}}, r"gap never closes: the closed fingers are 5\.0 cm apart"),
    "slippery": ({"gripper": {"force": 0.2}}, r"cube slips"),
    "beside": ({"end_effector": {"position": [0.06, 0.0, 0.105]}}, r"the tool misses|do not touch"),
}
"""Mistake in the description of a Panda → cause of its failed grasps."""


@pytest.mark.parametrize("mistake", CAUSES)
def test_a_failed_grasp_has_its_cause(mistake: str, folder: Path) -> None:
    changes, cause = CAUSES[mistake]
    data = yaml.safe_load((ASSETS / "robots" / "panda.yaml").read_text())
    data = merged(data, changes) | {"urdf": str(PANDA)}
    (folder / "mine.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(CheckFailed, match=cause):
        grasps("mine.yaml")


def test_tasks_that_a_robot_cannot_do_are_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots, "checked_tasks", lambda: ["hand_over", "push", "stack"])
    outcomes = {outcome.check: outcome for outcome in check("robot", "kuka") if outcome.check.startswith("task ")}
    assert list(outcomes) == ["task hand_over", "task push", "task stack"]
    assert outcomes["task push"].status == "passed"
    assert (outcomes["task stack"].status, outcomes["task stack"].why) == (
        "left out",
        "has no gripper, which stack needs",
    )
    assert outcomes["task hand_over"].why == "has 1 arm, and hand_over needs 2"


def test_a_task_that_the_expert_does_not_solve(folder: Path) -> None:
    """It is a mistake of a robot that the workspace lists, and a limit of a user's robot."""
    register_task("hasty", "AGM", help="has no time", horizon=8)
    with pytest.raises(CheckFailed, match="solves 0 of 3"):
        does_task("panda", "hasty")
    (folder / "mine.yaml").write_text((ASSETS / "robots" / "panda.yaml").read_text().replace("panda.urdf", str(PANDA)))
    with pytest.raises(CheckLeftOut, match="solves 0 of 3"):
        does_task("mine.yaml", "hasty")


def test_a_robot_that_does_not_load(folder: Path) -> None:
    findings = failed("robot", robot(folder, end_effector={"link": "rodd"}))
    assert names_of(findings) == ["loads"]
    assert "did you mean 'rod'" in findings[0].why
    assert {outcome.why for outcome in findings[1:]} == {"needs: loads"}


# workspaces ---------------------------------------------------------------------------------------------------------


POST = {"size": [0.04, 0.04, 0.4], "position": [0.2, 0.0, 0.2]}


def workspace(folder: Path, fixtures: dict[str, Any] | None = None, **areas: Any) -> str:
    """Write a user's workspace, a table with changes for a Panda, and return its name."""
    subfolder = folder / "envs" / "workspaces"
    subfolder.mkdir(parents=True, exist_ok=True)
    data = yaml.safe_load((ASSETS / "workspaces" / "table.yaml").read_text())
    data["areas"] = {name: box for name, box in (data["areas"] | areas).items() if box}
    data["fixtures"] |= fixtures or {}
    data["robots"] = {"panda": None}
    (subfolder / "mine.yaml").write_text("# my workspace\n" + yaml.safe_dump(data))
    return "mine"


AREAS = {
    "out of bounds": ({"surface": {"low": [-0.1, -0.9, 0], "high": [0.1, 0.1, 0]}}, "areas", "not within bounds"),
    "in the table": ({"reach": {"low": [-0.1, -0.1, -0.02], "high": [0.1, 0.1, 0.1]}}, "areas", "not within tool"),
    "missing": ({"reach": None}, "areas", "areas.reach is missing"),
    "in a fixture": ({"air": {"low": [-0.1, -0.1, 0.1], "high": [0.25, 0.1, 0.3]}}, "areas", "the fixture post"),
    "out of reach": (
        {"reach": {"low": [0.15, 0.15, 0.40], "high": [0.25, 0.35, 0.45]}},
        "panda within reach",
        "panda does not reach ",
    ),
}


@pytest.mark.parametrize("mistake", AREAS)
def test_a_workspace_whose_areas_are_wrong(mistake: str, folder: Path) -> None:
    areas, which, words = AREAS[mistake]
    findings = first_failed("workspace", workspace(folder, {"post": POST}, **areas))
    assert findings.check == which
    assert words in findings.why


SLIDE: dict[str, Any] = {
    "type": "slide", "axis": [0, 1, 0], "range": [0.0, 0.2], "mass": 1.0, "friction": 2.0, "force": 5.0,
    "handle": [0, 0, 0], "parts": [{"shape": "box", "size": [0.1, 0.1, 0.1]}],
}  # fmt: skip
FIXTURES: dict[str, tuple[dict[str, Any], str, str]] = {
    "in each other": ({"size": [0.1, 0.1, 0.1], "position": [0.2, 0.0, 0.3]}, "fixtures", "thing is inside post"),
    "too weak": ({"position": [0, 0.4, 0.1], "joints": {"a": SLIDE | {"damping": 200.0}}}, "fixtures", "thing.a stops"),
    "in the way": (
        {"position": [0.2, 0.3, 0.1], "joints": {"a": SLIDE | {"axis": [0, -1, 0], "range": [0.0, 0.6]}}},
        "fixtures",
        "thing.a stops at",
    ),
    "rolls on": (
        {"position": [0, 0.4, 0.1], "joints": {"a": SLIDE | {"axis": [0, 1, 1], "friction": 0.01, "force": 20.0}}},
        "fixtures",
        "was released at",
    ),
}


@pytest.mark.parametrize("mistake", FIXTURES)
def test_a_workspace_whose_fixtures_are_wrong(mistake: str, folder: Path) -> None:
    fixture, which, words = FIXTURES[mistake]
    findings = first_failed("workspace", workspace(folder, {"post": POST, "thing": fixture}))
    assert findings.check == which
    assert words in findings.why


def test_a_workspace_with_an_unknown_robot_and_an_empty_picture(folder: Path) -> None:
    workspace(folder)
    path = folder / "envs" / "workspaces" / "mine.yaml"
    data = yaml.safe_load(path.read_text())
    data["cameras"]["sky"] = {"target": [0, 0, 5], "distance": 1, "yaw": 0, "pitch": 60}
    path.write_text(yaml.safe_dump(data))
    assert first_failed("workspace", "mine").check == "pictures"
    path.write_text(yaml.safe_dump(data | {"robots": {"pandaa": None}}))
    findings = failed("workspace", "mine")
    assert names_of(findings) == ["loads"]
    assert "did you mean 'panda'" in findings[0].why


def test_a_single_robot_is_tried_and_its_shares_are_reported(folder: Path) -> None:
    outcomes = {outcome.check: outcome for outcome in check("workspace", "football", robot="kuka")}
    assert [name for name in outcomes if "panda" in name] == []
    assert (
        outcomes["kuka within reach"].why == "reach 100%, object 100%, surface 100%, air 100%, goal 0%, ball_start 100%"
    )


# objects ------------------------------------------------------------------------------------------------------------

BALL = {"shape": "sphere", "size": [0.02], "mass": 0.05, "friction": 0.5, "rolling_friction": 0.001}
OBJECTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "lighter than foam": ({"mass": 0.0001}, "mass and inertia", "a density of 2.98"),
    "heavier than lead": ({"mass": 0.5}, "mass and inertia", "11400"),
    "cannot stand": (
        {"shape": None, "size": [], "parts": [{"shape": "cylinder", "size": [0.01, 0.08], "euler": [30, 0, 0]}]},
        "rests",
        "leans over",
    ),
    "cannot be seen": (
        {"shape": None, "size": [], "parts": [{"shape": "sphere", "size": [0.02], "visible": False}]},
        "picture",
        "0.0% of its picture",
    ),
    "does not load": ({"size": [0.02, 0.03]}, "loads", "thinner than the radius"),
}


@pytest.mark.parametrize("mistake", OBJECTS)
def test_an_object_with_a_mistake(mistake: str, folder: Path) -> None:
    changes, which, words = OBJECTS[mistake]
    subfolder = folder / "envs" / "objects"
    subfolder.mkdir(parents=True)
    data = {key: value for key, value in (BALL | changes).items() if value not in (None, [])}
    (subfolder / "mine.yaml").write_text("# my object\n" + yaml.safe_dump(data))
    findings = failed("object", "mine")
    assert names_of(findings) == [which]
    assert words in findings[0].why


def test_an_object_whose_urdf_has_the_inertia_of_a_larger_body(folder: Path) -> None:
    shape = '<collision><geometry><sphere radius="0.02"/></geometry></collision>'
    inertia = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    link = f'<link name="a"><inertial><mass value="0.05"/>{inertia}</inertial>{shape}</link>'
    (folder / "ball.urdf").write_text(f'<robot name="ball">{link}</robot>')
    findings = failed("object", "ball.urdf")
    assert names_of(findings) == ["mass and inertia"]
    assert "needs a larger body" in findings[0].why


# tasks and stages ---------------------------------------------------------------------------------------------------


def test_an_invalid_composition() -> None:
    register_task("nonsense", "GA", help="grasps without an approach")
    findings = failed("task", "nonsense")
    assert names_of(findings) == ["grammatical"]
    assert "grasp requires 'near'" in findings[0].why


def test_a_task_that_the_expert_cannot_solve() -> None:
    register_task("hasty", "AGM", help="has no time", horizon=8)
    findings = failed("task", "hasty")
    assert names_of(findings) == ["expert solves it", "worth solving"]
    assert f"0 of {EPISODES_OF_A_CARD}" in findings[0].why


STAGES: dict[str, tuple[Any, str, str]] = {
    "unknown predicate": (replace(PUSH, name="mine", gives=("shoved",)), "known predicates", "shoved"),
    "gives nothing": (replace(PUSH, name="mine", gives=()), "known predicates", "gives no predicate"),
    "composes with nothing": (replace(PUSH, name="mine", requires=("held", "clear")), "composes", "held, clear"),
    "potential beyond 1": (
        replace(PUSH, name="mine", potential=lambda context: 2.0 + context.state.time),
        "pure functions",
        "potential is 2",
    ),
    "potential without batch": (
        replace(PUSH, name="mine", potential=lambda context: np.float64(0.5)),
        "pure functions",
        "of shape ()",
        "expert completes it",  # the environment refuses the potential
    ),
    "looks at the batch": (
        replace(PUSH, name="mine", potential=lambda context: context.state.time * 0 + context.state.time.mean() / 10),
        "pure functions",
        "other values for a batch",
    ),
}


@pytest.mark.parametrize("mistake", STAGES)
def test_a_stage_with_a_mistake(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_STAGES", 4)  # the number of compositions grows exponentially
    stage, which, words, *also = STAGES[mistake]
    register_stage("mine", stage)
    findings = failed("stage", "mine")
    assert names_of(findings) == [which, *also]
    assert words in findings[0].why


def test_a_stage_whose_task_draws_objects() -> None:
    register_stage("mine", replace(PUSH, name="mine"))
    register_task("sweep", ["approach", "mine"], objects={"cube": ("cube", "ball")})
    assert failed("stage", "mine") == []


def test_a_stage_that_changes_its_arguments() -> None:
    def potential(context: StageContext) -> Any:
        context.ee_position[:] += 0.01
        return APPROACH.potential(context)

    register_stage("mine", replace(PUSH, name="mine", potential=potential))
    findings = failed("stage", "mine")
    assert "pure functions" in names_of(findings)
    assert "changes the arrays" in findings[0].why


def test_a_stage_is_checked_in_the_shortest_built_in_task_with_it() -> None:
    register_task("nonsense", ["grasp", "throw"], help="is invalid, which does not affect the stage")
    register_task("toss", ["approach", "grasp", "throw"], help="shorter than the built-in tasks, but user-defined")
    config = setting("throw")
    [subtask] = config["task"]
    assert (config["workspace"], subtask["object"], subtask["area"]) == ("darts", "ball", "board")
    assert config["task_params"]["tolerance"] == find_task("hit_board").tolerance
    assert find_task(config["task"]).stage_names == ("approach", "grasp", "throw")
    assert setting("rotate")["task"][-1] == "rotate"  # no named task has this stage: the shortest composition


def test_a_stage_whose_expert_does_nothing() -> None:
    register_stage(
        "mine", replace(PUSH, name="mine", expert=lambda context, start_pose: ArmCommand(context.ee_position, 0.0))
    )
    assert names_of(failed("stage", "mine")) == ["expert completes it"]


POTENTIALS: dict[str, tuple[Any, str]] = {
    "flat": (lambda context: 0.0 * context.state.time, "does not change"),
    "hovering is rewarded": (
        lambda context: 1.0 / (1.0 + 5.0 * distance(context.ee_position, lifted(context.object_position, 0.08))),
        "correlation",
    ),
}


@pytest.mark.parametrize("mistake", slow_except(POTENTIALS, "flat".__eq__))
def test_a_stage_that_does_not_teach(mistake: str) -> None:
    potential, words = POTENTIALS[mistake]
    register_stage("mine", replace(PUSH, name="mine", potential=potential))
    findings = failed("stage", "mine")
    assert names_of(findings) == ["teaches"]
    assert words in findings[0].why


# policies -----------------------------------------------------------------------------------------------------------


class Acting:
    """Policy that returns the actions of `act`."""

    def __init__(self, envs: Any, seed: int) -> None:
        self.shape = (len(envs), *envs[0].action_space.shape)

    def act(self) -> Any:
        return np.zeros(self.shape, dtype=np.float32)

    def predict(self, observation: Any, *_: Any, **__: Any) -> Any:
        return self.act(), None


POLICIES = {
    "of another shape": (lambda self: np.zeros(3, dtype=np.float32), "acts", "shape (3,)"),
    "out of bounds": (lambda self: np.full(self.shape, 2.0, dtype=np.float32), "acts", "not in Box"),
    "not deterministic": (
        lambda self: np.random.default_rng().uniform(-1, 1, self.shape).astype(np.float32),
        "deterministic",
        "other episodes",
    ),
}


@pytest.mark.parametrize("mistake", POLICIES)
def test_a_policy_with_a_mistake(mistake: str) -> None:
    act, which, words = POLICIES[mistake]
    register_policy("mine", help="acts")(type("Mine", (Acting,), {"act": act}))
    findings = failed("policy", "mine")
    assert names_of(findings) == [which]
    assert words in findings[0].why
