"""A run's strategies at work: what they decide before each iteration, and what they are told of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from mygym.runs.evaluation import Evaluation


def in_words(outcome: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What strategies tell, as `curriculum: level 2, last level 6`."""
    found = []
    for name, told in outcome.items():
        words = [f"{key.replace('_', ' ')} {value}" for key, value in told.items()]
        found.append(f"{name}: {', '.join(words)}")
    return found


class StrategyCallback(BaseCallback):
    """Calls strategies where SB3 calls back.

    Args:
        strategies: The run's strategies (`RunPlan.strategies`).
        write: Writes a checkpoint of now.
    """

    def __init__(self, strategies: Sequence[Any], write: Callable[[], object]) -> None:
        super().__init__()
        self.strategies = strategies
        self.write = write

    def _on_training_start(self) -> None:
        self._tell(self.model._last_obs)

    def _on_rollout_start(self) -> None:
        self._step("rollout")

    def _on_rollout_end(self) -> None:
        self._step("gradient")

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                for one in self.strategies:
                    one.on_episode(info.get("variant", 0), bool(info["is_success"]), float(info["episode"]["r"]))
        if "new_obs" in self.locals:  # ars tells of evaluations
            self._tell(self.locals["new_obs"])
        return True

    def _tell(self, observations: Any) -> None:
        for one in self.strategies:
            one.on_step(observations)

    def _step(self, phase: str) -> None:
        """Let those decide that do before this phase; if one fails, a checkpoint is written first."""
        try:
            for one in self.strategies:
                if one.phase == phase:
                    one.step()
        except Exception:
            self.write()
            raise

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Tell them of an evaluation."""
        for one in self.strategies:
            one.on_evaluation(record)

    def outcome(self) -> dict[str, dict[str, Any]]:
        """What they have come to by now, by name, of those that tell."""
        return {one.name: dict(told) for one in self.strategies if (told := one.outcome())}

    def finish(self, judge: Callable[[], Evaluation]) -> None:
        """Let them have the last word; `judge` plays episodes with the model as it is."""
        for one in self.strategies:
            one.finish(judge)

    def state_dict(self) -> dict[str, Any]:
        """Theirs, by name."""
        return {one.name: one.state_dict() for one in self.strategies}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        for one in self.strategies:
            one.load_state_dict(state[one.name])
