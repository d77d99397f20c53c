"""Scope of the fused engine: tasks, robots and workspaces that it represents, and refusals of all else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mygym.engines.arrays import Arrays, check_memory, free_memory
from mygym.engines.engine import FUSED
from mygym.engines.fused.arm import (
    CONTROLLERS,
    ArmModel,
    GripperModel,
    MotorModel,
    finger_shapes,
    fitted_accelerations,
)
from mygym.engines.fused.box import BoxModel
from mygym.engines.fused.world import BatchWorld, WorldModel
from mygym.envs.env_spec import EnvSpec
from mygym.envs.randomization import draw_table
from mygym.envs.robot_env import RobotEnv
from mygym.envs.task_world import apply_task_params
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.robotics.controllers import EndEffectorController, find_controller
from mygym.robotics.fixtures import FixtureSpec
from mygym.robotics.objects import GRIPPER_WIDTH, ObjectSpec, load_object
from mygym.robotics.workspace import Area, find_workspace
from mygym.tasks.lookup import find_task
from mygym.tasks.task import Task
from mygym.types import FloatArray

SLIPPERY = 0.5
"""Smallest factor of an object's friction at which fingers hold it in Bullet as in the engine."""

WHY = "cannot be represented by engine fused"
STAGES = ("approach", "grasp", "move", "rotate", "transform", "follow", "push", "drop", "withdraw")
"""Stages that the engine represents, with one box or, for `approach`, a point."""

TALLEST = 1.5
"""Height of a box by its narrower edge from which it may tip over."""

WELDED_FRICTION = 0.5
"""Friction of fingers that are part of the hand, Bullet's default: they are no links, so they have no other."""

BYTES = 3_200
"""Memory of an environment, bytes: twice the peak of a step with a box (`benchmarks/results/fused.md`)."""

GPU_BYTES = 16_000
"""The same on a GPU: the largest use of a process with 16,384 environments with a box, its fixed memory included."""

ROUNDING = 1e-6
"""m: height up to which the top of a table counts as 0."""

FIXTURES = {"table"}
"""Fixtures that the tool's bounds keep clear of."""


def check_supported(spec: EnvSpec) -> None:
    """Refuse an environment that the engine cannot represent, before anything is built.

    Raises:
        ConfigError: The message names the key, the value, and what the engine can represent.
        RegistryError: Unknown name.
    """
    task, *_ = apply_task_params(find_task(spec.task), spec.task_params)
    control = find_controller(spec.control).config
    if control.name not in CONTROLLERS:
        raise _refusal("control", control.name, CONTROLLERS)
    if control.gripper != "continuous":
        raise _refusal("control.gripper", control.gripper, "continuous")
    if control.max_force is not None:
        raise _refusal("control.max_force", control.max_force, "null: its motors are fitted at the full force")
    robot = registry("robot").get(spec.robot or task.robot)
    _check_task(task, robot.name)
    if robot.name not in fitted_accelerations():
        raise _refusal("robot", robot.name, sorted(fitted_accelerations()), "has no motors fitted for engine fused")
    workspace = find_workspace(spec.workspace or task.workspace)
    solid = {name for name, fixture in workspace.fixtures.items() if fixture.collides}
    if further := solid - FIXTURES:
        why = f"has {', '.join(sorted(further))}, which engine fused cannot represent"
        raise _refusal("workspace", workspace.name, ["table"], why)
    if task.roles and not _is_table(workspace.fixtures.get("table"), workspace.bounds):
        allowed = "one whose fixture `table` is a box under all of its bounds, with its top at height 0"
        raise _refusal("workspace", workspace.name, allowed, "has no such table, and engine fused has no other")
    joints = len(fitted_accelerations()[robot.name])
    table = draw_table(spec.randomize, len(task.roles), joints, BatchWorld.randomized_fields, FUSED)
    if task.needs_gripper and (lowest := table.get("object_friction", np.ones(1)).min()) < SLIPPERY:
        raise _refusal("randomize.object_friction", round(float(lowest), 3), f"factors of at least {SLIPPERY}")


def _is_table(fixture: FixtureSpec | None, bounds: Area) -> bool:
    """Return whether a fixture is the plane on which the engine's boxes stand: z = 0, all over the bounds."""
    if fixture is None or not fixture.collides or fixture.shape != "box" or any(fixture.euler) or not fixture.size:
        return False
    centre, half = np.array(fixture.position), np.array(fixture.size) / 2
    low, high = centre - half, centre + half
    covers = (low[:2] <= np.array(bounds.low)[:2]).all() and (high[:2] >= np.array(bounds.high)[:2]).all()
    return bool(covers and abs(high[2]) < ROUNDING)


def _check_task(task: Task, robot: str) -> None:
    """Refuse a task that is not about points, or about one box on the table.

    Raises:
        ConfigError: The message names the property of the task.
    """
    allowed = "tasks of the stages " + ", ".join(STAGES)
    why = "which engine fused does not support"
    further = [name for name in task.stage_names if name not in STAGES]
    if further:
        raise _refusal("task", task.name, allowed, f"has the stage {further[0]}, {why}")
    if task.arms > 1 or any(subtask.part for subtask in task.subtasks):
        raise _refusal("task", task.name, allowed, f"acts on a part or needs two arms, {why}")
    if any(subtask.path or subtask.onto or subtask.via for subtask in task.subtasks):
        raise _refusal("task", task.name, allowed, f"has a path, or another object below its goal, {why}")
    if any(any(subtask.grip) for subtask in task.subtasks):
        raise _refusal(
            "task", task.name, "a task whose objects are gripped at their centre", f"has a grip point, {why}"
        )
    if len(task.roles) > 1:
        raise _refusal("task", task.name, allowed, f"has {len(task.roles)} objects, {why}")
    if task.distractors:
        raise _refusal("task_params.distractors", [item.object for item in task.distractors], "none")
    if not task.roles:
        if task.starts:
            raise _refusal("task_params.starts", dict(task.starts), "none, for a task without an object")
        return
    if robot not in finger_shapes():
        raise _refusal("robot", robot, sorted(finger_shapes()), "has no fingers measured for engine fused")
    _check_object(load_object(registry("object").get(task.assets(task.roles[0])[0], "task_params.object").load()))


def _check_object(spec: ObjectSpec) -> None:
    """Refuse an object that is not an upright box that the fingers reach around.

    Raises:
        ConfigError: The message names the property of the object.
    """
    allowed = f"a box of at most {GRIPPER_WIDTH} m and no higher than {TALLEST:g} times its narrower edge, such as cube"
    solid = [geom for geom in spec.geoms if geom.collides]
    is_box = len(solid) == 1 and solid[0].shape == "box" and not any(solid[0].euler) and not any(solid[0].position)
    if not is_box:
        raise _refusal("task_params.object", spec.name, allowed, "is not a single box, and engine fused has no other")
    if max(spec.size[:2]) > GRIPPER_WIDTH or spec.size[2] > TALLEST * spec.grasp_width:
        raise _refusal("task_params.object", spec.name, allowed, "may tip over, which engine fused does not represent")


def check_room(count: int, arrays: Arrays) -> None:
    """Refuse more environments than fit into the free memory.

    Raises:
        ConfigError: The message has the number that fits.
    """
    check_memory("num_envs", count, count * (GPU_BYTES if arrays.is_on_gpu else BYTES), free_memory(arrays))


def _refusal(key: str, value: Any, allowed: Any, why: str = WHY) -> ConfigError:
    return ConfigError(bad_value(key, value, allowed, why))


def arm_model(env: RobotEnv, acceleration: FloatArray) -> ArmModel:
    """Return the model of the arm of an environment, which has one of `CONTROLLERS`.

    The largest accelerations of the joints are `(J,)` rad/s², or `(J, N)` for values of each arm.
    """
    world = env.world
    controller = world.controller
    assert isinstance(controller, EndEffectorController)
    deceleration = world.robot.motor.acceleration
    motors = MotorModel(controller.limits.velocity, acceleration, deceleration)
    return ArmModel(controller, motors, world.home)


def world_model(env: RobotEnv) -> WorldModel:
    """Return the model of the arm of an environment that `check_supported` accepts, and of its gripper and object."""
    robot = registry("robot").get(env.env_spec.robot or env.task.robot).name
    arm, world = arm_model(env, np.array(fitted_accelerations()[robot])), env.world
    fingers = world.robot.gripper
    if fingers is None or not (env.task.roles or world.has_gripper):
        return WorldModel(arm)
    # All fingers move together: the width changes by the sum of their speeds.
    speed = fingers.width * fingers.velocity / abs(fingers.open[0] - fingers.closed[0])
    shape = finger_shapes()[robot]
    gripper = GripperModel(shape, world.has_gripper, fingers.width, speed, world.robot.motor.position_gain)
    if not env.task.roles:
        return WorldModel(arm, gripper)
    spec, table = world.objects[0], env.workspace.fixtures["table"].friction
    friction = spec.friction * (shape.friction if world.has_gripper else WELDED_FRICTION)
    return WorldModel(arm, gripper, BoxModel(spec.size, spec.friction * table, friction))


def fused_worlds(env: RobotEnv, arrays: Arrays) -> Callable[[int], BatchWorld]:
    """Return a function of `N` that returns `N` worlds of an environment that `check_supported` accepts.

    The environment's world needs a reset afterwards.
    """
    model = world_model(env)
    return lambda count: BatchWorld(model, count, arrays)
