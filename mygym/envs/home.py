"""Check of the start of a robot that the user sets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mygym.errors import ConfigError, bad_value
from mygym.models.workspace import Area as Box
from mygym.sim.inspection import collisions, robot_overlaps
from mygym.sim.world import World
from mygym.tasks.sampling import Area

KEY = "robot_params.home"


def check_home(world: World, areas: Mapping[str, Area]) -> None:
    """Check that the robot starts free, with the tool where controllers command it, and away from objects.

    Reset the world before its next step.

    Args:
        world: Robot at home, workspace and objects.
        areas: Areas from which the task draws, by name.

    Raises:
        ConfigError: The robot collides, the tool is out of its bounds, or the arm is where objects start.
    """
    home = [round(position, 4) for position in world.home.tolist()]
    low, high = world.workspace.tool_bounds.low, world.workspace.tool_bounds.high
    tool = world.state.ee_position[0]
    if not all(a <= x <= b for a, x, b in zip(low, tool.tolist(), high, strict=True)):
        why = f"puts the tool at {tool.round(3).tolist()}, outside its bounds"
        raise ConfigError(bad_value(KEY, home, f"a posture with the tool within {list(low)} to {list(high)}", why))
    world.reset(np.tile((0.0, 0.0, -10.0, 0.0, 0.0, 0.0, 1.0), (len(world.objects), 1)))  # objects out of the way
    if messages := collisions(world):
        raise ConfigError(bad_value(KEY, home, "a posture without collisions", f"collides: {messages[0]}"))
    for name in (name for name in areas if world.objects and (name == "object" or name.endswith("_start"))):
        first, last = areas[name]
        specs = [spec for slot in world.object_bodies.alternatives for spec in slot]
        margin = max(float(np.hypot(*spec.size[:2])) / 2 for spec in specs)
        height = max(spec.size[2] for spec in specs)
        (x, y, z), (far_x, far_y, far_z) = first.tolist(), last.tolist()
        box = Box((x - margin, y - margin, z), (far_x + margin, far_y + margin, far_z + height))
        if robot_overlaps(world, box):
            why = f"puts the arm where objects start, in the area {name}"
            raise ConfigError(bad_value(KEY, home, "a posture above or beside that area", why))
