"""Parity of the fused engine with Bullet: both get the same actions, and the tool points are compared."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from mygym.envs.fused_envs import FusedEnvs
from mygym.envs.robot_env import RobotEnv
from mygym.types import FloatArray

STEPS = 50
"""Control steps of a random episode."""


@dataclass(frozen=True)
class Parity:
    """Differences between the engines in episodes of the same actions."""

    actions: str
    """`random`, each component at full scale; or `expert`, of the scripted expert in Bullet."""
    episodes: int
    steps: int
    """Control steps of all episodes."""
    mean: float
    """mm: mean distance between the tool points after a step."""
    percentile: float
    """mm: distance that 95 % of the steps do not exceed."""
    success_pybullet: float | None
    """Share of episodes that the expert solves in Bullet; None for random actions."""
    success_fused: float | None
    """Share of episodes that the expert solves in the fused engine; None for random actions."""


def compare_engines(arguments: Mapping[str, Any], episodes: int, seed: int) -> tuple[Parity, Parity]:
    """Return the differences in random episodes, then in episodes of the expert; open loop from each reset.

    Args:
        arguments: Arguments of `RobotEnv`.
        episodes: Number of episodes of each kind.
        seed: Seed of actions and episodes.

    Raises:
        ConfigError: The fused engine cannot represent the arguments.
    """
    fused = FusedEnvs(arguments, episodes)
    fused.reset(range(seed, seed + episodes))
    rng = np.random.default_rng(seed)
    solved = 0
    with closing(RobotEnv(**arguments)) as env:
        size = env.world.action_size
        actions = [rng.uniform(-1.0, 1.0, (STEPS, size)) for _ in range(episodes)]
        errors = _tool_errors(fused, actions, [_played(env, sequence) for sequence in actions])
        random = Parity("random", episodes, len(errors), *_figures(errors), None, None)
        actions, positions = [], []
        for number in range(episodes):
            env.reset(seed=seed + number)
            taken: list[FloatArray] = []
            path: list[FloatArray] = []
            ended, info = False, {"is_success": False}
            while not ended:
                taken.append(env.expert_action().astype(float))
                _, _, terminated, truncated, info = env.step(taken[-1])
                path.append(env.world.state.ee_position[0].copy())
                ended = terminated or truncated
            solved += info["is_success"]
            actions.append(np.array(taken))
            positions.append(np.array(path))
    errors = _tool_errors(fused, actions, positions)
    rates = solved / episodes, _expert_success(fused, seed)
    return random, Parity("expert", episodes, len(errors), *_figures(errors), *rates)


def _played(env: RobotEnv, actions: FloatArray) -> FloatArray:
    """Return the tool points `(steps, 3)` m of Bullet for actions `(steps, A)` from a reset."""
    env.reset(seed=0)
    points = np.zeros((len(actions), 3))
    for step, action in enumerate(actions):
        env.world.step(action)
        points[step] = env.world.state.ee_position[0]
    return points


def _tool_errors(fused: FusedEnvs, actions: list[FloatArray], positions: list[FloatArray]) -> FloatArray:
    """Return the distances `(steps of all episodes,)` m between the tool points of the engines."""
    arm, arrays = fused.episodes.arm, fused.arrays
    arm.reset(fused.episodes.elapsed >= 0)
    errors = []
    for step in range(max(map(len, actions))):
        rows = [sequence[step] if step < len(sequence) else np.zeros(sequence.shape[1]) for sequence in actions]
        arm.step(arrays.floats(np.array(rows).T))
        for number, path in enumerate(positions):
            if step < len(path):
                errors.append(np.linalg.norm(arm.ee_position[:, number] - path[step]))
    return np.array(errors)


def _figures(errors: FloatArray) -> tuple[float, float]:
    """Return mean and 95th percentile in mm."""
    return 1000.0 * float(errors.mean()), 1000.0 * float(np.percentile(errors, 95))


def _expert_success(fused: FusedEnvs, seed: int) -> float:
    """Return the share of the first episodes of all environments that the expert solves in the engine."""
    fused.reset(range(seed, seed + fused.count))
    running = np.ones(fused.count, dtype=bool)
    solved = np.zeros(fused.count, dtype=bool)
    while running.any():
        step = fused.step(fused.expert_action())
        solved |= running & step.terminated
        running &= ~(step.terminated | step.truncated)
    return float(solved.mean())
