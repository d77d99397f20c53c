"""Measurements of the reward `shaped`, from episodes of the expert and of idle policies: can it teach a task?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym import api
from mygym.checks.suite import demand
from mygym.envs.multi_task_env import AnyEnv
from mygym.types import FloatArray

REWARD, GAMMA = "shaped", 0.95
"""The reward, and the discount with which idling is compared with progress."""

MAX_FLAT, MIN_CORRELATION = 0.05, 0.8
"""Largest share of random steps without a change of the reward; smallest correlation with the expert's progress."""

EPISODES = 10
"""Episodes of the expert, of each idle policy, and of the expert with each pause."""

CHANGE = 1e-6
"""Smallest change of the reward that counts as a gradient; its range is 1."""

PAUSES = (0.2, 0.5, 0.8)
"""Shares of the expert's episode after which it is compared with idling."""

Rewards = FloatArray
Actions = list[NDArray[np.float32]]


@dataclass(frozen=True)
class Teaching:
    """Measurements of the reward in the episodes of several policies."""

    flat: float
    """Share of random steps, before success, in which the reward does not change: after the reset or the last stage's
    start, whichever is larger."""
    correlation: float
    """Pearson correlation of the reward with minus the steps that the expert still needs, mean of the episodes."""
    expert: float
    """Mean return of the expert."""
    idle: float
    """Largest mean return of random and zero actions."""
    idling: tuple[str, ...]
    """States in which idling, without success, earns more than the expert."""

    def __str__(self) -> str:
        """Return the numbers in words."""
        return (
            f"{self.flat:.1%} of random steps without a change, correlation {self.correlation:.2f}, "
            f"return of the expert {self.expert:.1f}, of idling {self.idle:.1f}"
        )


def demand_teaching(config: Mapping[str, Any]) -> str:
    """Demand that the reward teaches the task of a config; return the measurements in words."""
    measured = measure(config)
    demand(measured.flat <= MAX_FLAT, f"the reward does not change in {measured.flat:.1%} of random steps")
    demand(
        measured.correlation >= MIN_CORRELATION,
        f"the reward has a correlation of {measured.correlation:.2f} with the steps that the expert still needs; "
        f"{MIN_CORRELATION} is required",
    )
    text = f"idling earns {measured.idle:.1f}, the expert {measured.expert:.1f}"
    demand(measured.expert > measured.idle, text)
    demand(not measured.idling, f"idling earns more than the expert's progress {'; '.join(measured.idling)}")
    return str(measured)


def measure(config: Mapping[str, Any]) -> Teaching:
    """Play episodes of the expert, with pauses and without, of zero actions, and of random actions from two starts."""
    rng = np.random.default_rng(0)
    experts: list[Rewards] = []
    idle: dict[str, list[float]] = {"random": [], "zero": []}
    flat: dict[int, list[bool]] = {}
    idling: list[str] = []
    with api.make_env({**config, "reward": REWARD}) as env:
        size, params = env.world.action_size, config.get("task_params", {})
        for seed in range(EPISODES):
            rewards, actions = _play(env, seed, lambda _: env.expert_action())
            experts.append(rewards)
            idling += _idling(env, seed, rewards, actions)
            for stages_done in sorted({0, len(env.task.stage_names) - 1}):
                start = env.in_same_world({**params, "stages_done": stages_done}, REWARD)
                random = _play(start, seed, lambda _: rng.uniform(-1.0, 1.0, size).astype(np.float32))[0]
                flat.setdefault(stages_done, []).extend(abs(np.diff(random))[random[1:] < 0.0] < CHANGE)
                if not stages_done:
                    idle["random"].append(random.sum())
            idle["zero"].append(_play(env, seed, lambda _: np.zeros(size, dtype=np.float32))[0].sum())
    correlations = [np.corrcoef(rewards, np.arange(len(rewards)))[0, 1] for rewards in experts]
    return Teaching(
        max(float(np.mean(unchanged or [False])) for unchanged in flat.values()),
        float(np.mean(correlations)),
        float(np.mean([rewards.sum() for rewards in experts])),
        max(float(np.mean(returns)) for returns in idle.values()),
        tuple(idling),
    )


def _idling(env: AnyEnv, seed: int, rewards: Rewards, actions: Actions) -> Iterator[str]:
    """Yield the states of an expert's episode in which an arm that stays, with its fingers, earns more from then on."""
    fingers = len(env.robot.arms) if env.task.uses_gripper and env.robot.gripper else 0
    for share in PAUSES:
        begin = max(1, int(share * len(rewards)))
        pause = np.zeros_like(actions[0])
        pause[len(pause) - fingers :] = actions[begin - 1][len(pause) - fingers :]
        idle = _play(env, seed, _followed_by(pause, actions[:begin]))[0]
        if idle[-1] < 0.0 and _discounted(idle[begin:]) > _discounted(rewards[begin:]):  # the object may move on
            earned = f"{_discounted(idle[begin:]):.2f} against {_discounted(rewards[begin:]):.2f}"
            yield f"from step {begin} of {len(rewards)}, seed {seed}: {earned}"


def _followed_by(pause: NDArray[np.float32], actions: Actions) -> Callable[[int], NDArray[np.float32]]:
    """Return a policy that performs `actions`, then `pause` in every step."""
    return lambda step: actions[step] if step < len(actions) else pause


def _play(env: AnyEnv, seed: int, act: Callable[[int], NDArray[np.float32]]) -> tuple[Rewards, Actions]:
    """Play an episode with the actions `act(step)`; return its rewards and actions."""
    env.reset(seed=seed)
    rewards: list[float] = []
    actions: Actions = []
    ended = False
    while not ended:
        actions.append(act(len(actions)))
        _, reward, terminated, truncated, _ = env.step(actions[-1])
        rewards.append(float(reward))
        ended = terminated or truncated
    return np.array(rewards), actions


def _discounted(rewards: Rewards) -> float:
    return float((rewards * GAMMA ** np.arange(len(rewards))).sum())
