"""`export`: write a run's policy with its description to a file, and verify the file against the policy."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.config import config_hash
from mygym.envs.arguments import checked_arguments
from mygym.envs.multi_task_env import AnyEnv, MultiTaskEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RunError, bad_value
from mygym.exporting.exported_policy import FLAT, FORMATS, GOALS, VERSION, ExportedPolicy, inputs_of
from mygym.planning.plan import RunPlan
from mygym.registry import resolve
from mygym.robotics.kinematics import Chain
from mygym.robotics.robot_spec import ArmSpec
from mygym.tasks.observations import camera_of, find_component
from mygym.training import directory, env_factory
from mygym.training.evaluation import BATCH, EXTRA, episode_seeds, evaluate_policy
from mygym.training.files import write
from mygym.training.loading import load, plan_of_run
from mygym.training.result import Result, package_versions, versions


def describe(plan: RunPlan, result: Result | None, env: AnyEnv, weights: Path) -> dict[str, Any]:
    """Return the description of a run; `result` is None before the run has ended.

    With several tasks, it describes the active task of the evaluation environment `env`. `weights` is the file with the
    weights of the policy.
    """
    config = plan.config
    playing = env.playing if isinstance(env, MultiTaskEnv) else env
    task, control = playing.task, playing.world.control.config
    return {
        "version": VERSION,
        "algo": config.algo,
        "framework": config.framework,
        "seed": config.seed,
        "config_hash": config_hash(plan.resolved.values()),
        "steps": result.steps if result else None,
        "success_rate": result.success_rate if result else None,
        "task": {"name": plan.task_label, "stages": list(task.labels), "horizon_steps": task.horizon},
        "robot": _robot(playing),
        "home": {"joint_position": playing.world.home.tolist(), "unit": "rad; m where `kinematics.slides` is true"},
        "control": {
            "name": control.name,
            "parameters": dict(playing.world.control.params),
            "action_repeat": control.action_repeat,
            "gripper": control.gripper,
            "rate_hz": playing.world.control_hz / control.action_repeat,
            "commands": playing.world.controller.commands,
            "mode": playing.world.controller.mode,
            "bounds": [playing.world.controller.low.tolist(), playing.world.controller.high.tolist()],
            "tool_yaw": playing.world.controller.tool_yaw,
        },
        "observation": describe_observation(env, playing),
        "action": describe_action(playing),
        "env": env_factory.env_description(plan),
        "weights": {"file": weights.name, "sha256": hashlib.sha256(weights.read_bytes()).hexdigest()},
        "versions": {**versions(), **package_versions(("onnx", "onnxruntime"))},  # torch.export needs neither
    }


def _robot(env: RobotEnv) -> dict[str, Any]:
    robot = env.robot
    return {
        "name": robot.name,
        "urdf": Path(robot.urdf).name,
        "base_position": list(robot.base_position),
        "base_orientation": list(robot.base_orientation),
        "workspace": env.workspace.name,
        "arms": [
            _arm(arm, controller.chain) for arm, controller in zip(robot.arms, env.world.controllers, strict=True)
        ],
        "units": {
            "joints": "rad, rad/s, N m; m, m/s, N where `kinematics.slides` is true",
            "gripper": "m",
            "positions": "m",
            "orientations": "quaternion (x, y, z, w)",
        },
    }


def _arm(arm: ArmSpec, chain: Chain) -> dict[str, Any]:
    tool, gripper = arm.end_effector, arm.gripper
    return {
        "joints": [
            {name: getattr(joint, name) for name in ("name", "lower", "upper", "velocity", "effort")}
            for joint in arm.joints
        ],
        "end_effector": {"link": tool.link, "position": list(tool.position), "orientation": list(tool.orientation)},
        "gripper": gripper and {"joints": list(gripper.joints), "width": gripper.width},
        "kinematics": {field.name: getattr(chain, field.name).tolist() for field in fields(chain)},
    }


def describe_observation(env: AnyEnv, playing: RobotEnv) -> dict[str, Any]:
    """Return the arrays of an observation of `env`; `playing` is the environment of its active task.

    Returns:
        Key of the array → `shape`, `dtype`, and `components` with name, slice, unit, frame and bound.
    """
    subspaces = inputs_of(env.observation_space)
    goals = {name: _goal_components(playing) for name in GOALS if playing.builder.has_goals}
    vector = [_component(name, columns) for name, columns in playing.components.items()]
    if FLAT in subspaces:
        first: int = vector[-1]["slice"][1] if vector else 0
        for goal, sections in goals.items():
            if goal not in subspaces:
                vector += [_moved(section, goal, first) for section in sections]
                first += playing.builder.goal_space.size
        if first < (size := (subspaces[FLAT].shape or (0,))[0]):  # the code of the task
            vector.append({"name": "variant", "slice": [first, size]})
    contents = {FLAT: vector, **goals}
    return {
        name: {
            "shape": list(subspace.shape or ()),
            "dtype": str(subspace.dtype),
            "components": contents[name]
            if name in contents
            else [{"name": name, "unit": find_component(name).unit, "camera": camera_of(name)}],
        }
        for name, subspace in subspaces.items()
    }


def _component(name: str, columns: slice) -> dict[str, Any]:
    component = find_component(name)
    units = {"unit": component.unit, "frame": component.frame, "bound": component.bound}
    return {"name": name, "slice": [columns.start, columns.stop], **units}


def _goal_components(env: RobotEnv) -> list[dict[str, Any]]:
    return [
        {
            "name": section.name,
            "slice": [section.first, section.first + section.size],
            "flag": section.term is None,
            "tolerance": section.tolerance,
        }
        for section in env.builder.goal_space.sections
    ]


def _moved(component: Mapping[str, Any], goal: str, first: int) -> dict[str, Any]:
    start, stop = component["slice"]
    return {**component, "name": f"{goal}.{component['name']}", "slice": [start + first, stop + first]}


def describe_action(env: RobotEnv) -> dict[str, Any]:
    """Return the space of actions, and the range of each component of a command.

    These are `shape`, `dtype`, `components` with name, unit, and the values that -1 and 1 command, and the number of
    `values` of discrete components.
    """
    space, discrete = env.action_space, env.discrete
    ranges = [limits for controller in env.world.controllers for limits in controller.ranges]
    names = [name for name in env.world.control_names if not name.endswith("gripper")]
    components: list[dict[str, Any]] = [{"name": name} for name in names]
    if len(ranges) == len(names):
        components = [{"name": name, **limits._asdict()} for name, limits in zip(names, ranges, strict=True)]
    widths = [arm.gripper.width for arm in env.robot.arms if arm.gripper]
    grippers = [name for name in env.world.control_names if name.endswith("gripper")]
    components += [
        {"name": name, "unit": "m", "low": 0.0, "high": width} for name, width in zip(grippers, widths, strict=False)
    ]
    return {
        "shape": list(space.shape or ()),
        "dtype": str(space.dtype),
        "meaning": "-1 to 1 of each component is `low` to `high` in its unit; a gripper is closed at `low`",
        "components": components,
        "values": None if discrete is None else discrete.counts.tolist(),
    }


TOLERANCE = 1e-5
"""Largest difference between an action of the file and of the policy."""

ALONE, TOGETHER = 3, 12
"""Episodes in which a file is compared with its policy: one at a time, and `BATCH` at a time."""


@dataclass(frozen=True)
class Export:
    """A verified file."""

    path: Path
    difference: float
    """Largest difference between an action of the file and of the policy."""
    observations: int
    """Number of compared observations."""


class Comparison:
    """Policy that acts, and compares a file with itself on every observation."""

    def __init__(self, policy: Any, exported: ExportedPolicy) -> None:
        self.policy, self.exported = policy, exported
        self.difference, self.observations = 0.0, 0
        self._state: Any = None

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[Any], Any]:
        """Return the actions and the state of the policy; the file continues from its state of the last call."""
        actions, following = self.policy.predict(observation, state, episode_start, deterministic)
        of_file, self._state = self.exported.predict(
            observation, self._state if state is not None else None, episode_start
        )
        if actions.shape != of_file.shape or actions.dtype != of_file.dtype:
            self.difference = np.inf
        else:
            difference = np.abs(actions.astype(float) - of_file).max()
            self.difference = float(np.maximum(self.difference, difference))  # also NaN
        self.observations += len(actions)
        return actions, following


def default_path(folder: Path, format: str = "onnx") -> Path:
    """Return the path of the file of the run in `folder`."""
    return folder / f"policy{FORMATS[format]}"


@checked_arguments
def export(run: str | Path, path: str | Path | None = None, *, trust: bool = False) -> Export:
    """Write a run's policy as a file that does not need mygym, and verify it.

    An ONNX file (`.onnx`) needs no torch either, a file of `torch.export` (`.pt2`) does. The graph contains
    normaliser, network and action scaling; its inputs are the raw arrays of the observation by key, with a dynamic
    batch axis. The file is kept if its actions in seeded episodes of the run's environment are those of
    `Policy.predict`, within `TOLERANCE`.

    Args:
        run: Path of a run, or of a file that `load` accepts.
        path: The file, which is replaced if it exists; by default `policy.onnx` in the run directory.
        trust: See `load`.

    Returns:
        The path of the file, and the largest difference from the policy.

    Raises:
        ConfigError: `load` refuses the run, or the path has another suffix.
        RegistryError: A package of the extra `export` is missing.
        RunError: The policy cannot be loaded or expressed as a graph, or the file differs from it; nothing is kept.
    """
    folder, file = directory.find_policy(run)
    target = default_path(folder) if path is None else Path(path)
    if target.suffix not in FORMATS.values():
        raise ConfigError(bad_value("path", str(target), f"a file ending in {' or '.join(FORMATS.values())}"))
    for package in ("onnx", "onnxruntime", "onnxscript") if target.suffix == FORMATS["onnx"] else ():
        resolve(f"{package}:__version__", "export")
    plan = plan_of_run(folder)

    from mygym.exporting.graph import WRITERS, acting_graph

    policy = load(run, trust=trust)
    with contextlib.ExitStack() as stack:
        envs = env_factory.make_eval_envs(plan, stack, BATCH)
        description = describe(plan, Result.read(folder), envs[0], file)
        try:
            content = WRITERS[target.suffix](acting_graph(policy), description)
        except Exception as error:  # of torch, without a common class
            name, why = type(policy.model.policy).__name__, " ".join(str(error).split())
            raise RunError(f"{folder}: {name} cannot be exported: {type(error).__name__}: {why:.300}") from error
        verified: list[Export] = []

        def save(temporary: Path) -> None:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(content)
            verified.append(_verify(temporary, target, policy, envs, plan.config.seed))

        write(target, save)
    return verified[0]


def _verify(file: Path, target: Path, policy: Any, envs: Sequence[AnyEnv], seed: int) -> Export:
    """Compare a file with a policy in seeded episodes; raise `RunError` if they differ."""
    comparison = Comparison(policy, ExportedPolicy(file, trust=True))  # this process has just written it
    seeds = episode_seeds(seed, EXTRA, ALONE + TOGETHER, env=envs[0])
    evaluate_policy(comparison, envs[:1], seeds[:ALONE])
    evaluate_policy(comparison, envs, seeds[ALONE:])
    if not comparison.difference <= TOLERANCE:
        differs = f"its actions differ from those of the policy by up to {comparison.difference:.2g}"
        raise RunError(f"{target}: is not kept: {differs}; allowed: at most {TOLERANCE:g}")
    return Export(target, comparison.difference, comparison.observations)
