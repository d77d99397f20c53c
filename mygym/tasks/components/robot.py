"""Observation components of the robot."""

from __future__ import annotations

from mygym.tasks.components.batches import flattened, positive_w
from mygym.tasks.episode_context import EpisodeContext
from mygym.tasks.observations import register_observation
from mygym.types import Array


@register_observation("ee_position", 5, unit="m", frame="world")
def ee_position(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world frame: the end-effector point."""
    return context.state.ee_position


@register_observation("ee_velocity", 20, unit="m/s", frame="world")
def ee_velocity(context: EpisodeContext) -> Array:
    """`(N, 3)` m/s, world frame: velocity of the end-effector point."""
    return context.state.ee_velocity


@register_observation("ee_orientation", 1, unit="quaternion (x, y, z, w)", frame="world")
def ee_orientation(context: EpisodeContext) -> Array:
    """`(N, 4)` unit quaternion `(x, y, z, w)` of the end-effector frame, world frame, with w ≥ 0."""
    return positive_w(context.state.ee_orientation)


@register_observation("tool_yaw", 4, unit="rad", frame="tool, relative to home")
def tool_yaw(context: EpisodeContext) -> Array:
    """`(N, 1)` rad: yaw of the tool about the vertical, relative to home."""
    return context.state.tool_yaw[:, None]


@register_observation("joint_position", 10, unit="rad")
def joint_position(context: EpisodeContext) -> Array:
    """`(N, J)` rad: joint positions of all arms."""
    return context.state.joint_position


@register_observation("joint_velocity", 50, unit="rad/s")
def joint_velocity(context: EpisodeContext) -> Array:
    """`(N, J)` rad/s: joint velocities of all arms."""
    return context.state.joint_velocity


@register_observation("command_offset", 1, unit="m, or rad of joints", frame="world")
def command_offset(context: EpisodeContext) -> Array:
    """`(N, L)` m or rad: commanded minus measured position; delta actions change the commanded position."""
    return context.state.command_offset


@register_observation("tool_yaw_offset", 1, unit="rad")
def tool_yaw_offset(context: EpisodeContext) -> Array:
    """`(N, 1)` rad: commanded minus measured tool yaw."""
    return context.state.tool_yaw_offset[:, None]


@register_observation("gripper_width", 1, unit="m")
def gripper_width(context: EpisodeContext) -> Array:
    """`(N, 1)` m: distance between the fingers."""
    return context.state.gripper_width[:, None]


@register_observation("second_ee_position", 5, of="other arms", unit="m", frame="world")
def second_ee_position(context: EpisodeContext) -> Array:
    """`(N, 3 (A - 1))` m, world frame: end-effector points of the arms after the first."""
    return flattened(context.state.second_ee_position)


@register_observation("second_ee_velocity", 20, of="other arms", unit="m/s", frame="world")
def second_ee_velocity(context: EpisodeContext) -> Array:
    """`(N, 3 (A - 1))` m/s, world frame: velocities of the end-effector points of the arms after the first."""
    return flattened(context.state.second_ee_velocity)


@register_observation("second_ee_orientation", 1, of="other arms", unit="quaternion (x, y, z, w)", frame="world")
def second_ee_orientation(context: EpisodeContext) -> Array:
    """`(N, 4 (A - 1))` unit quaternions `(x, y, z, w)`, world frame, with w ≥ 0, of the arms after the first."""
    return flattened(positive_w(context.state.second_ee_orientation))


@register_observation("second_gripper_width", 1, of="other arms", unit="m")
def second_gripper_width(context: EpisodeContext) -> Array:
    """`(N, A - 1)` m: distance between the fingers of the arms after the first."""
    return context.state.second_gripper_width
