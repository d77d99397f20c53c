"""Learning curves as types: train, validation and test figures at each mark of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Score:
    """How well some episodes went."""

    success_rate: float
    """Share of episodes that ended in success."""
    mean_return: float
    """Mean sum of rewards."""


@dataclass(frozen=True)
class Mark:
    """A run's figures when its env steps had passed a fixed number."""

    steps: int
    """Env steps trained by then."""
    train: Score | None
    """Training episodes that ended since the last mark, exploration included; None if there were none."""
    validation: Score
    """Episodes of the seeds that choose the best model and may stop the run."""
    test: Score | None
    """Episodes of seeds that choose nothing; None without `eval.test_episodes`."""


@dataclass(frozen=True)
class Curves:
    """What training came to: its marks, in order of their steps."""

    marks: tuple[Mark, ...] = ()

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Self:
        """The curves of a run's evaluations, as `Result.evaluations` or result.json has them."""
        return cls(
            tuple(
                Mark(record["steps"], _score(record, "train_"), _score(record, ""), _score(record, "test_"))
                for record in records
            )
        )


def _score(record: Mapping[str, Any], prefix: str) -> Any:
    rate, total = (record.get(f"{prefix}{key}") for key in ("success_rate", "mean_return"))
    return None if rate is None or total is None else Score(rate, total)


class Tally:
    """Counts the training episodes that end between two marks."""

    def __init__(self) -> None:
        self.episodes, self.successes, self.total_return = 0, 0, 0.0

    def add(self, episode: Mapping[str, Any]) -> None:
        """Count an episode, a row of monitor.csv."""
        self.episodes += 1
        self.successes += bool(episode["is_success"])
        self.total_return += float(episode["r"])

    def take(self) -> dict[str, float | None]:
        """The figures since the last call, as an evaluation's record has them: null where no episode has ended."""
        count = self.episodes
        rate, mean = (self.successes / count, self.total_return / count) if count else (None, None)
        self.episodes, self.successes, self.total_return = 0, 0, 0.0
        return {"train_success_rate": rate, "train_mean_return": mean}

    def state_dict(self) -> dict[str, float]:
        """What has been counted."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """The inverse of `state_dict`."""
        self.episodes, self.successes = int(state["episodes"]), int(state["successes"])
        self.total_return = float(state["total_return"])
