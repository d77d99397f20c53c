"""Evaluation: seeded episodes in environments of their own, several side by side to call the network in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mygym.envs.multi_task_env import AnyEnv, MultiTaskEnv

BATCH = 4
"""Environments that an evaluation steps side by side: more would save network calls and cost 30 MB each."""

TRAINING, EVALUATION, FINAL, EXTRA, TEST, DEMONSTRATION = range(6)
"""What seeds are for: the bits above the lowest 30, so that no episode of one purpose is ever one of another.

EVALUATION chooses the best model (validation seeds), TEST judges at the same marks and chooses nothing.
"""


class Predicts(Protocol):
    """SB3's way of acting."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[np.float32], Any]:
        """Actions, and the memory of a recurrent policy."""
        ...


@dataclass(frozen=True)
class Episode:
    """What happened in one episode."""

    seed: int
    success: bool
    total_reward: float
    length: int
    distance: float
    """m to the goal at the end."""
    ended_in: str
    """Name of the stage that was active at the end, or `done`; after the task's, where there are several."""
    task: str = ""
    """What was played, where there are several tasks."""


@dataclass(frozen=True)
class Failure:
    """A stage in which episodes ended without success, with the first of them."""

    stage: str
    """Its name, or `done`."""
    phrase: str
    """What the stage does, in words."""
    seed: int
    actions: NDArray[np.float64] = field(repr=False, compare=False)
    """`(steps, A)`: with the seed they are the episode, to the bit, whatever policy chose them."""


NOT_HELD = "all stages were complete, but not for long enough"
"""What episodes lack that end without success after the last stage."""


@dataclass(frozen=True)
class Evaluation:
    """Episodes of one policy."""

    episodes: tuple[Episode, ...]
    failures: tuple[Failure, ...] = ()
    """One for each stage in which any failed, in the order of the stages."""

    @property
    def solved(self) -> int:
        """How many episodes ended in success."""
        return sum(episode.success for episode in self.episodes)

    @property
    def success_rate(self) -> float:
        """Share of episodes that ended in success."""
        return self.solved / len(self.episodes)

    @property
    def mean_return(self) -> float:
        """Mean sum of rewards."""
        return float(np.mean([episode.total_reward for episode in self.episodes]))

    @property
    def mean_length(self) -> float:
        """Mean number of steps."""
        return float(np.mean([episode.length for episode in self.episodes]))

    @property
    def mean_distance(self) -> float:
        """Mean distance to the goal at the end, m."""
        return float(np.mean([episode.distance for episode in self.episodes]))

    @property
    def stage_reached(self) -> dict[str, int]:
        """Stage name → how many episodes ended in it; `done` for all stages complete."""
        return dict(Counter(episode.ended_in for episode in self.episodes))

    @property
    def success_by_task(self) -> dict[str, float]:
        """Task → share of its episodes that ended in success; empty where there is only one."""
        played = dict.fromkeys(episode.task for episode in self.episodes if episode.task)
        outcomes = {task: [one.success for one in self.episodes if one.task == task] for task in played}
        return {task: sum(ends) / len(ends) for task, ends in sorted(outcomes.items())}

    def failed_in(self, stage: str) -> int:
        """How many episodes ended in a stage without success."""
        return sum(episode.ended_in == stage and not episode.success for episode in self.episodes)

    def summary(self) -> dict[str, Any]:
        """The figures that result.json lists for each evaluation."""
        figures: dict[str, Any] = {
            "success_rate": self.success_rate,
            "mean_return": self.mean_return,
            "mean_length": self.mean_length,
            "mean_distance": self.mean_distance,
        }
        return figures | ({"success_by_task": self.success_by_task} if self.success_by_task else {})


def episode_seeds(seed: int, purpose: int, count: int, number: int = 0) -> list[int]:
    """`count` episode seeds for the `number`-th evaluation of a purpose in the run of `seed`."""
    words = np.random.SeedSequence([seed, purpose, number]).generate_state(count)
    return [(int(word) >> 2) | (purpose << 30) for word in words]


def in_turn(seeds: Sequence[int], env: AnyEnv) -> list[int]:
    """`seeds`, raised by as little as lets the tasks of `env` take turns: by its seed an episode's task is decided."""
    count = len(env.labels) if isinstance(env, MultiTaskEnv) else 1
    return [seed + (index - seed) % count for index, seed in enumerate(seeds)]


def evaluate_policy(
    policy: Predicts,
    envs: Sequence[AnyEnv],
    seeds: Sequence[int],
    watch: Callable[[int, AnyEnv], None] | None = None,
    deterministic: bool = True,
) -> Evaluation:
    """Run one episode for each seed.

    Args:
        policy: Gets batches of observations with leading axis `len(envs)`.
        envs: Environments that nothing else uses; as many run side by side.
        seeds: One for each episode.
        watch: Called after each reset and step with the episode's index and its environment, e.g. to film it.
        deterministic: Whether the policy acts without noise.
    """
    episodes: list[Episode | None] = [None] * len(seeds)
    waiting = iter(range(len(seeds)))
    running: list[int | None] = [None] * len(envs)
    starts = np.ones(len(envs), dtype=bool)
    rewards = np.zeros(len(envs))
    lengths = np.zeros(len(envs), dtype=int)
    observations: list[Any] = [None] * len(envs)
    first: dict[str, int] = {}
    failures: dict[str, tuple[int, int, Failure]] = {}

    def begin(slot: int) -> None:
        index = next(waiting, None)
        running[slot] = index
        if index is not None or observations[slot] is None:
            observations[slot], _ = envs[slot].reset(seed=seeds[index if index is not None else 0])
        starts[slot], rewards[slot], lengths[slot] = True, 0.0, 0
        if watch is not None and index is not None:
            watch(index, envs[slot])

    for slot in range(len(envs)):
        begin(slot)
    memory = None
    while any(index is not None for index in running):
        actions, memory = policy.predict(stacked(observations), memory, starts.copy(), deterministic=deterministic)
        starts[:] = False
        for slot, index in enumerate(running):
            if index is None:
                continue
            env = envs[slot]
            observations[slot], reward, terminated, truncated, info = env.step(actions[slot])
            rewards[slot] += reward
            lengths[slot] += 1
            if watch is not None:
                watch(index, env)
            if terminated or truncated:
                number, played = info["stage"], env.label if isinstance(env, MultiTaskEnv) else ""
                stage = (*env.task.labels, "done")[number]
                stage = f"{played}: {stage}" if played else stage
                episodes[index] = Episode(
                    seed=seeds[index],
                    success=bool(info["is_success"]),
                    total_reward=float(rewards[slot]),
                    length=int(lengths[slot]),
                    distance=env.goal_distance(),
                    ended_in=stage,
                    task=played,
                )
                if not info["is_success"] and index < first.get(stage, len(seeds)):  # they end in any order
                    first[stage], actions_taken = index, env.state_dict()["actions"]
                    phrase = (*env.task.phrases, NOT_HELD)[number]
                    failure = Failure(stage, phrase, seeds[index], actions_taken)
                    failures[stage] = (info.get("variant", 0), number, failure)
                begin(slot)
    return Evaluation(
        tuple(episode for episode in episodes if episode is not None),
        tuple(failure for *_, failure in sorted(failures.values(), key=lambda one: one[:2])),
    )


def stacked(observations: Sequence[Any]) -> Any:
    """Observations with a leading axis; of dictionaries a dictionary."""
    if isinstance(observations[0], dict):
        return {key: np.stack([observation[key] for observation in observations]) for key in observations[0]}
    return np.stack(observations)
