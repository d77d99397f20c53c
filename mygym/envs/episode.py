"""The current episode of an environment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.envs.domain_randomizer import DomainRandomizer
from mygym.envs.placement import draw_choice, draw_goals, draw_poses
from mygym.envs.task_world import TaskWorld
from mygym.tasks.episode import EpisodeContext, act, advance, is_success
from mygym.tasks.rewards import Memory, potential
from mygym.tasks.stage import CLOSED
from mygym.tasks.state import Progress, State
from mygym.types import FloatArray

LIMIT = 0.99
"""Size of an action component, in [0, 1], from which it counts as saturated."""

MOVED = 1e-3
"""Change of a part's joint position, m or rad, from which the part counts as touched."""


class Episode:
    """Goals, task progress and failure of the current episode, advanced together with the world.

    Args:
        task_world: Task, world and areas.
        randomizer: Domain randomization.
        lead_in_steps: Largest number of control steps in which the scripted expert completes the first stages.
    """

    def __init__(self, task_world: TaskWorld, randomizer: DomainRandomizer, lead_in_steps: int) -> None:
        self.task, self.world, self._areas = task_world.task, task_world.world, task_world.areas
        self._randomizer, self._lead_in_steps = randomizer, lead_in_steps
        self.goals = np.zeros((1, self.task.goal_count, 3))
        """`(1, G, 3)` m: goal points of the task."""
        self.progress = Progress.at_reset(self.world.state)
        self.memory: Memory = {}
        """Inputs of the reward before the next step."""
        self._lead_in = 0.0
        """Stages that the scripted expert completes before this episode."""
        self.stages_done = 0
        """Largest number of stages done in this episode."""
        self.failed = False
        """Whether an object of the task has left the workspace."""
        self.touched = False
        """Whether the robot has pressed on an object of the task, or moved a part of it, in this episode."""
        self.saturated = 0.0
        """Sum over the actions of the share of components at a limit."""
        self._parts = [stage.part for stage in self.task.stage_bindings if stage.part is not None]
        self._part_start = self.world.state.part_position[0, self._parts]
        """`(p,)` m or rad: positions of the task's parts at the reset."""
        self.actions: list[NDArray[Any]] = []
        """Actions since the reset, as the environment received them."""
        self.elapsed_steps = 0
        """Control steps since the reset."""

    @property
    def context(self) -> EpisodeContext:
        """Input of observation components and rewards."""
        return EpisodeContext(self.task, self.progress, self.world.state, self.goals)

    def begin(self, rng: np.random.Generator) -> None:
        """Reset the world and draw randomization, objects and goals."""
        bodies = self.world.object_bodies
        choice = draw_choice(rng, self.task, bodies.alternatives)
        if self._randomizer.is_on or choice:
            self._randomizer.begin(rng, self.world, choice)
        self.world.reset(draw_poses(rng, self.task, bodies.specs, self._areas, bodies.present))
        if self._randomizer.is_on:
            self._randomizer.start(self.world)
        state = self.world.state
        self.goals[0] = draw_goals(rng, self.task, self.world, self._areas)
        self._lead_in = self._draw_start(rng) if self.task.starts else self.task.stages_done
        self.progress = Progress.at_reset(state)
        self.stages_done = 0
        self.failed = False
        self.touched, self.saturated = False, 0.0
        self._part_start = state.part_position[0, self._parts]
        self.actions = []
        self.elapsed_steps = 0

    def _draw_start(self, rng: np.random.Generator) -> float:
        """Draw a start; return the stages that the scripted expert completes before the episode."""
        number = rng.random()
        for name, share in self.task.starts.items():
            if number < share:
                low, high = self.task.start_stages[name]
                return max(self.task.stages_done, low if low == high else rng.uniform(low, high))
            number -= share
        return self.task.stages_done

    def play_lead_in(self) -> None:
        """Let the scripted expert complete the first stages, see `Task.stages_done` and `Task.starts`.

        A share of a stage is a share of the potential that was missing when the stage began.
        """
        stages = math.floor(self._lead_in)
        share, end = self._lead_in - stages, stages + 1.0 - len(self.task.stage_bindings)
        begin: float | None = None
        for _ in range(self._lead_in_steps):
            stage, reached = int(self.progress.stage[0]), float(potential(self.context)[0])
            if stage >= stages:
                begin = reached if begin is None else begin
                if stage > stages or reached >= begin + share * (end - begin):
                    break
            self._advance_once(self.expert_action().astype(np.float64))
        self.elapsed_steps = 0

    def advance(self, command: FloatArray) -> None:
        """Advance world and progress with an action `(A,)`, which is repeated unless the episode ends."""
        self.saturated += np.count_nonzero(np.abs(command) >= LIMIT) / command.size
        self._advance_once(command)
        for _ in range(self.world.control.config.action_repeat - 1):
            if self.failed or self.elapsed_steps >= self.task.horizon or is_success(self.task, self.progress)[0]:
                break
            self._advance_once(command)

    def _advance_once(self, command: FloatArray) -> None:
        """Advance world and progress by one control step."""
        self.elapsed_steps += 1
        self.world.step(self._randomizer.act(command) if self._randomizer.is_on else command)
        state = self.world.state
        self.progress = advance(self.task, self.progress, state, self.goals)
        self.stages_done = max(self.stages_done, int(self.progress.stage[0]))
        self.touched = self.touched or self._touches(state)
        self.failed = any(map(self.has_left, state.object_position[0, : len(self.task.roles)].tolist()))
        if self._randomizer.is_on:
            self._randomizer.draw_noise()

    def expert_action(self) -> NDArray[np.float32]:
        """Return the action `(A,)` of the active stage's scripted expert."""
        motion = act(self.task, self.progress, self.world.state, self.goals)
        action = self.world.action_towards(
            motion.target[0],
            # With shared spaces the fingers can move and the tool can turn in every task. If a task needs neither, keep
            # the fingers closed, and the tool as it is.
            _scalar(motion.gripper) if self.task.uses_gripper else CLOSED,
            _scalar(motion.yaw_change) if self.task.needs_tool_yaw and motion.yaw_change is not None else 0.0,
            None if motion.second_target is None else motion.second_target[0],
            _scalar(motion.second_gripper),
        )
        return action.astype(np.float32)

    def info(self) -> dict[str, Any]:
        """Return the `info` of a step."""
        return {
            "is_success": bool(is_success(self.task, self.progress)[0]),
            "stage": int(self.progress.stage[0]),
            "stages_done": self.stages_done,
            "failed": self.failed,
            "touched": self.touched,
            "saturation": round(self.saturated / max(len(self.actions), 1), 4),
            "elapsed_steps": self.elapsed_steps,
        }

    def _touches(self, state: State) -> bool:
        """Return whether the robot presses on an object of the task, or has moved a part of it."""
        if self._parts and np.abs(state.part_position[0, self._parts] - self._part_start).max() > MOVED:
            return True
        return bool(state.touch[0, : len(self.task.roles)].any())

    def has_left(self, position: list[float]) -> bool:
        """Return whether a position `(3,)` m is outside the workspace."""
        low, high = self.world.workspace.bounds.low, self.world.workspace.bounds.high
        return not all(a <= x <= b for a, x, b in zip(low, position, high, strict=True))

    def visible_goal(self) -> FloatArray | None:
        """Return the goal `(3,)` m of the active sub-task; None if the goal is not a point."""
        bound = self.task.stage_bindings[min(int(self.progress.stage[0]), len(self.task.stage_bindings) - 1)]
        return None if bound.part is not None else self.goals[0, bound.goal_slot]

    def move_goal(self, position: FloatArray) -> None:
        """Move the goal of the active sub-task, which must be a point, to `(3,)` m."""
        goal = self.visible_goal()
        assert goal is not None
        goal[:] = position


def _scalar(value: Any) -> float:
    """Return a number, or the first of a batch."""
    return float(value) if isinstance(value, int | float) else float(value[0])
