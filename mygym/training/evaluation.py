"""Evaluation of a policy over seeded episodes, in several environments side by side to batch the network calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mygym.config.schema import DEFAULT_ENGINE
from mygym.envs.multi_task_env import AnyEnv, MultiTaskEnv
from mygym.errors import DivergedError, RunError
from mygym.nested import map_arrays
from mygym.types import FloatArray

BATCH = 4
"""Number of environments of an evaluation; more environments would save network calls, but need 30 MB each."""

TRAINING, EVALUATION, FINAL, EXTRA, DEMONSTRATION, TEST, JUDGE = 0, 1, 2, 3, 5, 6, 7
"""Purposes of episode seeds, stored in the bits from `PURPOSE_BIT`, so that seeds of two purposes never coincide.

4 would coincide with training: the first episode of seed 2**32 + n is the second of seed n, see `EpisodeSeeds`.
EVALUATION seeds (validation) select the best model; TEST seeds are used at the same marks and select nothing. JUDGE
seeds are those of leaderboards: they do not depend on the run, so that all policies play the same episodes.
"""

PURPOSE_BIT = 30

NOT_HELD = "all stages were complete, but not for long enough"
"""Phrase of failures after the last stage."""


class Predicts(Protocol):
    """Protocol of SB3's `predict`."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[np.float32], Any]:
        """Return actions and the state of a recurrent policy."""
        ...


class EpisodesEnded(Exception):  # noqa: N818  (no error)
    """Raised by a policy when the operator ends the episodes."""


class EpisodeRestarted(Exception):  # noqa: N818  (no error)
    """Raised by a policy when the operator restarts the current episode."""


@dataclass(frozen=True)
class Episode:
    """Outcome of one episode."""

    seed: int
    success: bool
    total_reward: float
    length: int
    """Steps."""
    distance: float
    """Distance to the goal at the end, m."""
    final_stage: str
    """Name of the stage that was active at the end, or `done`; with several tasks it follows the task's name."""
    task: str = ""
    """Task of the episode, if the run has several tasks."""
    stages_done: int = 0
    """Number of stages that were complete at the end."""


@dataclass(frozen=True)
class Failure:
    """First failed episode of a stage."""

    stage: str
    """Name of the stage, or `done`."""
    phrase: str
    """Description of the stage in words."""
    seed: int
    actions: FloatArray = field(repr=False, compare=False)
    """`(steps, A)`; with the seed they reproduce the episode bit by bit."""


@dataclass(frozen=True)
class Evaluation:
    """Outcomes of a policy's episodes."""

    episodes: tuple[Episode, ...]
    failures: tuple[Failure, ...] = ()
    """The first failed episode of each stage with failures, in the order of the stages."""
    engine: str = DEFAULT_ENGINE
    """Engine in which the episodes were played."""

    @property
    def solved(self) -> int:
        """Number of episodes that ended in success."""
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
        """Number of episodes that ended in each stage, in the order of the stages; `done`: all stages complete."""
        in_order = sorted(self.episodes, key=lambda episode: (episode.task, episode.stages_done))
        return dict(Counter(episode.final_stage for episode in in_order))

    @property
    def success_by_task(self) -> dict[str, float]:
        """Success rate of each task; empty for a single task."""
        successes: dict[str, list[bool]] = {}
        for episode in self.episodes:
            if episode.task:
                successes.setdefault(episode.task, []).append(episode.success)
        return {task: sum(outcomes) / len(outcomes) for task, outcomes in sorted(successes.items())}

    def failed_in(self, stage: str) -> int:
        """Return the number of failed episodes that ended in `stage`.

        Args:
            stage: Name of a stage.
        """
        return sum(episode.final_stage == stage and not episode.success for episode in self.episodes)

    def summary(self) -> dict[str, Any]:
        """Return the figures of an entry in result.json's `evaluations`."""
        figures: dict[str, Any] = {
            "success_rate": self.success_rate,
            "mean_return": self.mean_return,
            "mean_length": self.mean_length,
            "mean_distance": self.mean_distance,
            "stage_reached": self.stage_reached,
        }
        return figures | ({"success_by_task": self.success_by_task} if self.success_by_task else {})


def episode_seeds(seed: int, purpose: int, count: int, number: int = 0, env: AnyEnv | None = None) -> list[int]:
    """Return episode seeds.

    Args:
        seed: Seed of the run.
        purpose: `TRAINING`, `EVALUATION`, `FINAL`, `EXTRA`, `TEST`, `DEMONSTRATION` or `JUDGE`.
        count: Number of seeds.
        number: Number of the evaluation among the evaluations of its purpose.
        env: With an environment of several tasks, the seeds select its tasks in turn.
    """
    words = np.random.SeedSequence([seed, purpose, number]).generate_state(count)
    seeds = [_with_purpose(int(word), purpose) for word in words]
    tasks = len(env.labels) if isinstance(env, MultiTaskEnv) else 1
    return [seed + (index - seed) % tasks for index, seed in enumerate(seeds)]


def next_seed(seed: int, number: int) -> int:
    """Return another seed with the purpose of a seed."""
    (word,) = np.random.SeedSequence([seed, number]).generate_state(1)
    return _with_purpose(int(word), seed >> PURPOSE_BIT)


def _with_purpose(word: int, purpose: int) -> int:
    return word >> (32 - PURPOSE_BIT) | purpose << PURPOSE_BIT


def evaluate_policy(
    policy: Predicts, envs: Sequence[AnyEnv], seeds: Sequence[int], on_step: Callable[[int, AnyEnv], None] | None = None
) -> Evaluation:
    """Run one episode for each seed, or fewer episodes if an operator ends them.

    Args:
        policy: Policy that receives batches of observations with leading axis `len(envs)`.
        envs: Environments that nothing else uses; their number is the number of simultaneous episodes.
        seeds: Seeds of the episodes.
        on_step: Called after each reset and step with the episode's index and its environment, e.g. to record a video.
    """
    episodes: list[Episode | None] = [None] * len(seeds)
    waiting = iter(range(len(seeds)))
    running: list[int | None] = [None] * len(envs)
    starts = np.ones(len(envs), dtype=bool)
    rewards = np.zeros(len(envs))
    lengths = np.zeros(len(envs), dtype=int)
    observations: list[Any] = [None] * len(envs)
    first_failed: dict[str, int] = {}
    failures: dict[str, tuple[int, int, Failure]] = {}

    def begin(slot: int, index: int | None) -> None:
        running[slot] = index
        if index is not None or observations[slot] is None:
            observations[slot], _ = envs[slot].reset(seed=seeds[index if index is not None else 0])
        starts[slot], rewards[slot], lengths[slot] = True, 0.0, 0
        if on_step is not None and index is not None:
            on_step(index, envs[slot])

    for slot in range(len(envs)):
        begin(slot, next(waiting, None))
    memory = None
    predict = getattr(policy, "predict_rows", policy.predict)
    while any(index is not None for index in running):
        batch = stack_observations(observations)
        try:
            actions, memory = predict(batch, memory, starts.copy(), deterministic=True)
        except EpisodeRestarted:
            for slot, index in enumerate(running):
                begin(slot, index)
            continue
        except EpisodesEnded:
            break
        starts[:] = False
        for slot, index in enumerate(running):
            if index is None:
                continue
            env = envs[slot]
            observations[slot], reward, terminated, truncated, info = env.step(actions[slot])
            rewards[slot] += reward
            lengths[slot] += 1
            if on_step is not None:
                on_step(index, env)
            if terminated or truncated:
                number, task = info["stage"], env.label if isinstance(env, MultiTaskEnv) else ""
                stage = (*env.task.labels, "done")[number]
                stage = f"{task}: {stage}" if task else stage
                episodes[index] = Episode(
                    seed=seeds[index],
                    success=bool(info["is_success"]),
                    total_reward=float(rewards[slot]),
                    length=int(lengths[slot]),
                    distance=env.goal_distance(),
                    final_stage=stage,
                    task=task,
                    stages_done=number,
                )
                if not info["is_success"] and index < first_failed.get(stage, len(seeds)):  # episodes end in any order
                    first_failed[stage], actions_taken = index, env.state_dict()["actions"]
                    phrase = (*env.task.phrases, NOT_HELD)[number]
                    failure = Failure(stage, phrase, seeds[index], actions_taken)
                    failures[stage] = (info.get("variant", 0), number, failure)
                begin(slot, next(waiting, None))
    in_stage_order = sorted(failures.values(), key=lambda entry: entry[:2])
    return Evaluation(
        tuple(episode for episode in episodes if episode is not None),
        tuple(failure for *_, failure in in_stage_order),
        envs[0].env_spec.engine,
    )


def evaluate_or_fail(name: str, policy: Predicts, envs: Sequence[AnyEnv], seeds: Sequence[int]) -> Evaluation:
    """Evaluate a policy as `evaluate_policy` does; the message of an error begins with `name`.

    Raises:
        RunError: Its actions are not finite, or no episode was played to the end.
    """
    try:
        evaluation = evaluate_policy(policy, envs, seeds)
    except (DivergedError, ValueError) as error:  # torch's distributions raise the latter
        raise RunError(f"{name}: cannot be evaluated: {' '.join(str(error).split())}") from error
    if not evaluation.episodes:
        raise RunError(f"{name}: no episode was played to the end")
    return evaluation


def stack_observations(observations: Sequence[Any]) -> Any:
    """Return observations stacked along a new leading axis; for dictionaries, a dictionary of stacked arrays."""
    return map_arrays(lambda *rows: np.stack(rows), *observations)
