"""Scope of the fused engine: tasks, robots and workspaces that it represents, and refusals of all else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from mygym.engines.arrays import Arrays, free_memory
from mygym.engines.fused.arm import (
    CONTROLLERS,
    SUBSTEPS,
    ArmModel,
    GripperModel,
    MotorModel,
    finger_shapes,
    fitted_accelerations,
)
from mygym.engines.fused.box import BoxModel
from mygym.engines.fused.world import BatchWorld, WorldModel
from mygym.envs.env_spec import EnvSpec
from mygym.envs.episode_seeds import make_generator, named_stream
from mygym.envs.episodes import BatchEpisodes
from mygym.envs.randomization import FIELDS, BatchRandomization, Table
from mygym.envs.randomizers import Draw, find_randomizer, ranges
from mygym.envs.robot_env import RobotEnv
from mygym.envs.starts import StartTable, TableStarts, make_pools
from mygym.envs.task_world import TaskWorld, apply_task_params
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.robotics.controllers import EndEffectorDelta, find_controller
from mygym.robotics.episode_randomization import EpisodeRandomization
from mygym.robotics.objects import GRIPPER_WIDTH, ObjectSpec, load_object
from mygym.robotics.workspace import load_workspace
from mygym.tasks.lookup import find_task
from mygym.tasks.observations import camera_components
from mygym.tasks.task import Task
from mygym.types import FloatArray

ROWS = 1024
"""Draws; their seeds are constant, so that runs can be repeated."""

FIRST_SEED = 1 << 41
"""Seed of the first draw: no environment of a run has it."""

SLIPPERY = 0.5
"""Smallest factor of an object's friction at which fingers hold it in Bullet as in the engine."""


def draw_table(config: Mapping[str, Any], objects: int, joints: int) -> Table:
    """Return draws of the fields that the randomizers of a config set.

    Args:
        config: The config's `randomize`.
        objects: Number of objects, at most 1.
        joints: `J`.

    Raises:
        ConfigError: Unknown randomizer, an invalid range, or a field that the engine does not represent.
    """
    table = {}
    for name, limits in ranges(config).items():
        function = find_randomizer(name).function
        drawn = []
        for row in range(ROWS):
            rng = named_stream(make_generator(np.random.SeedSequence(FIRST_SEED + row)), name)
            drawn.append(function(EpisodeRandomization(), Draw(limits, rng, objects, joints)))
        for field in _changed_fields(drawn):
            if field not in FIELDS:
                allowed = "randomizers of " + ", ".join(FIELDS)
                raise ConfigError(
                    bad_value("randomize", name, allowed, f"sets {field}, which engine fused does not have")
                )
            table[field] = _values(drawn, field)
    return table


def _changed_fields(drawn: list[EpisodeRandomization]) -> list[str]:
    """Return the fields with values other than the defaults in any draw."""
    default = EpisodeRandomization()
    names = [field.name for field in fields(EpisodeRandomization)]
    return [name for name in names if any(getattr(each, name) != getattr(default, name) for each in drawn)]


def _values(drawn: list[EpisodeRandomization], field: str) -> FloatArray:
    """Return the values `(K,)` of a field, `(J, K)` of `joint_gain`."""
    values = np.array([getattr(each, field) for each in drawn], dtype=float).T
    return values if field == "joint_gain" else values.reshape(-1)


WHY = "cannot be represented by engine fused"
STAGES = ("approach", "grasp", "move", "push", "drop", "withdraw")
"""Stages that the engine represents, with one box or, for `approach`, a point."""

TALLEST = 1.5
"""Height of a box by its narrower edge from which it may tip over."""

WELDED_FRICTION = 0.5
"""Friction of fingers that are part of the hand, Bullet's default: they are no links, so they have no other."""

BYTES = 3_200
"""Memory of an environment, bytes: twice the peak of a step with a box (`benchmarks/results/fused.md`)."""

GPU_BYTES = 16_000
"""The same on a GPU: the largest use of a process with 16,384 environments with a box, its fixed memory included."""

FIXTURES = {"table"}
"""Fixtures that the tool's bounds keep clear of."""


def check_supported(spec: EnvSpec) -> None:
    """Refuse an environment that the engine cannot represent, before anything is built.

    Args:
        spec: The environment.

    Raises:
        ConfigError: The message names the key, the value, and what the engine can represent.
        RegistryError: Unknown name.
    """
    task, *_ = apply_task_params(find_task(spec.task), spec.task_params)
    control = find_controller(spec.control).config
    if control.name not in CONTROLLERS:
        raise _refusal("control", control.name, CONTROLLERS)
    if control.action_repeat != 1:
        raise _refusal("control.action_repeat", control.action_repeat, "1")
    if control.max_force is not None:
        raise _refusal("control.max_force", control.max_force, "null: its motors are fitted at the full force")
    robot = registry("robot").get(spec.robot or task.robot)
    _check_task(task, robot.name)
    if robot.name not in fitted_accelerations():
        raise _refusal("robot", robot.name, sorted(fitted_accelerations()), "has no motors fitted for engine fused")
    workspace = load_workspace(registry("workspace").get(spec.workspace or task.workspace).load())
    solid = {name for name, fixture in workspace.fixtures.items() if fixture.collides}
    if further := solid - FIXTURES:
        why = f"has {', '.join(sorted(further))}, which engine fused cannot represent"
        raise _refusal("workspace", workspace.name, ["table"], why)
    if seen := camera_components(spec.observations or ()):
        why = "needs images, which engine fused does not render"
        raise _refusal("observations", seen[0], "components without a camera", why)
    for key in ("detector", "encoder"):
        if file := getattr(spec.image_params, key):
            raise _refusal(f"image_params.{key}", file, "null: engine fused renders no images")
    if spec.spaces != "own":
        why = "has actions that turn the tool, which engine fused cannot"
        raise _refusal("spaces", spec.spaces, "own", why)
    randomization_table(spec.randomize, task, robot.name)


def randomization_table(config: Mapping[str, Any], task: Task, robot: str) -> Table:
    """Return draws of the randomizers of a config.

    Args:
        config: The config's `randomize`.
        task: The task.
        robot: Registered name of the robot.

    Raises:
        ConfigError: An invalid range, or a randomizer that the engine cannot represent.
    """
    table = draw_table(config, len(task.roles), len(fitted_accelerations()[robot]))
    if task.needs_gripper and (lowest := table.get("object_friction", np.ones(1)).min()) < SLIPPERY:
        raise _refusal("randomize.object_friction", round(float(lowest), 3), f"factors of at least {SLIPPERY}")
    return table


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
    if task.needs_tool_yaw:
        raise _refusal("task", task.name, "a task in which objects start with a yaw of 0", f"turns the tool, {why}")
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
    if task.varies_objects:
        raise _refusal("task_params.objects", task.assets(task.roles[0]), "one object")
    _check_object(load_object(task.assets(task.roles[0])[0]))


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


def check_memory(count: int, arrays: Arrays) -> None:
    """Refuse more environments than fit into the free memory.

    Raises:
        ConfigError: The message has the number that fits.
    """
    free, size = free_memory(arrays), GPU_BYTES if arrays.is_on_gpu else BYTES
    if count * size > free:
        why = f"needs {count * size / 1e9:.1f} GB of memory, of which {free / 1e9:.1f} GB are free"
        raise ConfigError(bad_value("num_envs", count, f"at most {free // size:,}", why))


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
    motors = MotorModel(controller.limits.velocity, acceleration, deceleration, SUBSTEPS)
    return ArmModel(controller, motors, world.home)


def world_model(env: RobotEnv, acceleration: FloatArray, robot: str) -> WorldModel:
    """Return the model of an environment's arm, and of its gripper and object if it has one.

    Args:
        env: An environment that `check_supported` accepts.
        acceleration: See `arm_model`.
        robot: Registered name of the robot.
    """
    arm, world = arm_model(env, acceleration), env.world
    if not env.task.roles:
        return WorldModel(arm)
    spec, fingers = world.objects[0], world.robot.gripper
    assert fingers is not None
    # All fingers move together: the width changes by the sum of their speeds.
    speed = fingers.width * fingers.velocity / abs(fingers.open[0] - fingers.closed[0])
    shape = finger_shapes()[robot]
    gripper = GripperModel(shape, world.has_gripper, fingers.width, speed, world.robot.motor.position_gain)
    table = env.workspace.fixtures["table"].friction
    friction = spec.friction * (shape.friction if world.has_gripper else WELDED_FRICTION)
    return WorldModel(arm, gripper, BoxModel(spec.size, spec.friction * table, friction))


def make_episodes(env: RobotEnv, count: int, arrays: Arrays, robot: str) -> BatchEpisodes:
    """Return a batch of the episodes of an environment.

    Args:
        env: An environment that `check_supported` accepts; its world needs a reset afterwards.
        count: `N`.
        arrays: Array library.
        robot: Registered name of the robot.
    """
    task, bounds = env.task, env.workspace.bounds
    model = world_model(env, np.array(fitted_accelerations()[robot]), robot)
    table = StartTable.draw(TaskWorld(task, env.world, env.areas))
    randomized = randomization_table(env.env_spec.randomize, task, robot)

    def batch(changed: Task, number: int) -> BatchEpisodes:
        return BatchEpisodes(changed, BatchWorld(model, number, arrays), TableStarts(table, arrays), bounds)

    pools = make_pools(batch, task, find_task(env.env_spec.task).horizon)
    worlds = BatchWorld(model, count, arrays)
    disturbances = BatchRandomization(randomized, worlds) if randomized else None
    return BatchEpisodes(task, worlds, TableStarts(table, arrays, disturbances, pools), bounds, disturbances)
