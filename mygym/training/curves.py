"""Learning curves: training, validation and test figures at each mark of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class Score:
    """Success rate and mean return of a set of episodes."""

    success_rate: float
    """Share of episodes that ended in success."""
    mean_return: float
    """Mean sum of rewards."""


@dataclass(frozen=True)
class Mark:
    """Figures of a run at one evaluation."""

    steps: int
    """Env steps trained so far."""
    train: Score | None
    """Training episodes since the last mark, exploration included; None if no episode has ended."""
    validation: Score
    """Episodes that select the best model and may stop the run."""
    test: Score | None
    """Episodes that select nothing; None without `eval.test_episodes`."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Means of the figures that the runner has recorded since the last mark, see `Loop.record`."""


@dataclass(frozen=True)
class Curves:
    """Learning curves of a run: its marks in order of their steps."""

    marks: tuple[Mark, ...] = ()

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Self:
        """Return the curves of a run's evaluations, from `Result.evaluations` or result.json.

        Args:
            records: An entry for each evaluation, in the order of steps.
        """
        return cls(
            tuple(
                Mark(
                    record["steps"],
                    _score(record, "train_"),
                    _score(record, ""),
                    _score(record, "test_"),
                    record.get("figures", {}),
                )
                for record in records
            )
        )


def _score(record: Mapping[str, Any], prefix: str) -> Any:
    rate, total = (record.get(f"{prefix}{key}") for key in ("success_rate", "mean_return"))
    return None if rate is None or total is None else Score(rate, total)


class Figures:
    """Means of a runner's figures between two marks."""

    def __init__(self) -> None:
        self.sums: dict[str, list[float]] = {}
        """Name → sum and number of the values."""

    def add(self, name: str, value: float) -> None:
        """Add a value."""
        total, count = self.sums.get(name, (0.0, 0.0))
        self.sums[name] = [total + value, count + 1.0]

    def means(self) -> dict[str, float]:
        """Return the means since the last call of `clear`."""
        return {name: total / count for name, (total, count) in self.sums.items()}

    def clear(self) -> None:
        """Forget the values."""
        self.sums = {}

    def state_dict(self) -> dict[str, list[float]]:
        """Return sums and numbers."""
        return {name: list(pair) for name, pair in self.sums.items()}

    def load_state_dict(self, state: Mapping[str, Sequence[float]]) -> None:
        """Restore a state of `state_dict`."""
        self.sums = {name: [float(number) for number in pair] for name, pair in state.items()}


class EpisodeCounter:
    """Counts the training episodes between two marks."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the episodes."""
        self.episodes, self.successes, self.total_return = 0, 0, 0.0

    def add(self, episode: Mapping[str, Any]) -> None:
        """Count an episode, given as a row of monitor.csv."""
        self.episodes += 1
        self.successes += bool(episode["is_success"])
        self.total_return += float(episode["r"])

    def means(self) -> dict[str, float | None]:
        """Return the figures of an evaluation's record; None if no episode has ended."""
        count = self.episodes
        rate, mean = (self.successes / count, self.total_return / count) if count else (None, None)
        return {"train_success_rate": rate, "train_mean_return": mean}

    def state_dict(self) -> dict[str, float]:
        """Return the counts."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Restore a state of `state_dict`."""
        self.episodes, self.successes = int(state["episodes"]), int(state["successes"])
        self.total_return = float(state["total_return"])
