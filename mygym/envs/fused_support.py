"""Scope of the fused engine: tasks, robots and workspaces that it represents, and refusals of all else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mygym.envs.placement import START_MARGIN
from mygym.envs.robot_env import RobotEnv
from mygym.envs.task_world import find_task_with
from mygym.errors import ConfigError, bad_value
from mygym.fused.arm import ArmModel
from mygym.fused.arrays import Arrays, free_memory
from mygym.fused.controller import CONTROLLERS
from mygym.fused.episodes import BatchTask
from mygym.fused.motors import MotorModel, fitted_accelerations
from mygym.models.controllers import EndEffectorDelta, find_controller
from mygym.models.workspace import load_workspace
from mygym.registry import registry
from mygym.tasks.grammar import as_typed
from mygym.tasks.task import Task
from mygym.types import FloatArray

WHY = "cannot be represented by engine fused"
STAGES = ("approach",)
"""Stages of the only composition that the engine has, to a point and without an object: `reach`."""

BYTES = 2_000
"""Memory of an environment, measured with 20,000 to 200,000 environments: 0.8 to 1.9 kB."""

FIXTURES = {"table"}
"""Fixtures that the tool's bounds keep clear of."""


def check_supported(arguments: Mapping[str, Any]) -> None:
    """Refuse what the engine cannot represent, before anything is built.

    Args:
        arguments: Arguments of `RobotEnv`; absent ones have their defaults.

    Raises:
        ConfigError: The message names the key, the value, and what the engine can represent.
        RegistryError: Unknown name.
    """
    task, *_ = find_task_with(arguments.get("task", "reach"), arguments.get("task_params") or {})
    _check_task(task)
    control = find_controller(arguments.get("control", "ee_delta")).config
    if control.name not in CONTROLLERS:
        raise _refusal("control", control.name, CONTROLLERS)
    if control.action_repeat != 1:
        raise _refusal("control.action_repeat", control.action_repeat, "1")
    if control.max_force is not None:
        raise _refusal("control.max_force", control.max_force, "null: its motors are fitted at the full force")
    robot = registry("robot").get(arguments.get("robot") or task.robot)
    if robot.name not in fitted_accelerations():
        raise _refusal("robot", robot.name, sorted(fitted_accelerations()), "has no motors fitted for engine fused")
    workspace = load_workspace(registry("workspace").get(arguments.get("workspace") or task.workspace).load())
    solid = {name for name, fixture in workspace.fixtures.items() if fixture.collides}
    if further := solid - FIXTURES:
        why = f"has {', '.join(sorted(further))}, which engine fused cannot represent"
        raise _refusal("workspace", workspace.name, ["table"], why)
    if arguments.get("spaces", "own") != "own":
        raise _refusal("spaces", arguments["spaces"], "own")
    if arguments.get("randomize"):
        raise _refusal("randomize", sorted(arguments["randomize"]), "{}: nothing is randomized")


def _check_task(task: Task) -> None:
    """Refuse a task that is not `approach` to a point.

    Raises:
        ConfigError: The message names the property of the task.
    """
    allowed = "reach (A), which approaches a point"
    if len(task.subtasks) > 1:
        raise _refusal(
            "task", task.name, allowed, f"has {len(task.subtasks)} sub-tasks, which engine fused does not support"
        )
    further = [name for name in task.stage_names if name not in STAGES]
    if further:
        raise _refusal("task", task.name, allowed, f"has the stage {further[0]}, which engine fused does not support")
    subtask = task.subtasks[0]
    if task.roles or subtask.part or subtask.path or subtask.onto or subtask.via or task.arms > 1:
        name = task.name if isinstance(task.name, str) else as_typed(subtask.stages)
        raise _refusal("task", name, allowed, "acts on an object or a part, which engine fused does not support")
    if len(task.goal_areas(0)) != 1:
        raise _refusal("task", task.name, "a task whose goals are from one area")
    if task.distractors:
        raise _refusal("task_params.distractors", [item.object for item in task.distractors], "none")
    if task.stages_done:
        raise _refusal("task_params.stages_done", task.stages_done, "0")


def check_memory(count: int, arrays: Arrays) -> None:
    """Refuse more environments than fit into the free memory.

    Raises:
        ConfigError: The message has the number that fits.
    """
    free = free_memory(arrays)
    if count * BYTES > free:
        why = f"needs {count * BYTES / 1e9:.1f} GB of memory, of which {free / 1e9:.1f} GB are free"
        raise ConfigError(bad_value("num_envs", count, f"at most {free // BYTES:,}", why))


def _refusal(key: str, value: Any, allowed: Any, why: str = WHY) -> ConfigError:
    return ConfigError(bad_value(key, value, allowed, why))


def arm_model(env: RobotEnv, acceleration: FloatArray) -> ArmModel:
    """Return the model of an environment's arm for the engine.

    Args:
        env: An environment of a robot with one arm, with the controller `ee_delta`.
        acceleration: `(J,)` or `(J, N)` rad/s²: largest accelerations of the joints.
    """
    world = env.world
    controller = world.controller
    assert isinstance(controller, EndEffectorDelta)
    deceleration = world.robot.motor.acceleration
    motors = MotorModel(controller.limits.velocity, acceleration, deceleration, world.solver.substeps)
    return ArmModel(controller, motors, world.home)


def batch_task(env: RobotEnv) -> BatchTask:
    """Return the task of an environment for the engine."""
    (area,) = env.task.goal_areas(0)
    tolerance = env.task.stage_bindings[0].thresholds.tolerance
    return BatchTask(env.task, env.areas[area], tolerance + START_MARGIN)
