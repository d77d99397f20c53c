"""Callback that runs the strategies of a run during training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from mygym.training.evaluation import Evaluation


def outcome_texts(outcome: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a text for each strategy, such as `curriculum: level 2, last level 6`."""
    texts = []
    for name, values in outcome.items():
        words = [f"{key.replace('_', ' ')} {value}" for key, value in values.items()]
        texts.append(f"{name}: {', '.join(words)}")
    return texts


class StrategyCallback(BaseCallback):
    """Forwards SB3's callback events to the strategies.

    Args:
        strategies: The run's strategies, `RunPlan.strategies`.
        write: Writes a checkpoint of the current state.
    """

    def __init__(self, strategies: Sequence[Any], write: Callable[[], object]) -> None:
        super().__init__()
        self.strategies = strategies
        self.write = write

    def _on_training_start(self) -> None:
        self._forward(self.model._last_obs)

    def _on_rollout_start(self) -> None:
        self._begin_iteration("rollout")

    def _on_rollout_end(self) -> None:
        self._begin_iteration("gradient")

    def _on_step(self) -> bool:
        infos = self.locals.get("infos", ()) if self.strategies else ()  # some algorithms do not pass them
        for info in infos:
            if "episode" in info:
                for strategy in self.strategies:
                    strategy.on_episode(info.get("variant", 0), bool(info["is_success"]), float(info["episode"]["r"]))
        if "new_obs" in self.locals:  # absent in ARS, which calls back for evaluations
            self._forward(self.locals["new_obs"])
        return True

    def _forward(self, observations: Any) -> None:
        for strategy in self.strategies:
            strategy.on_step(observations)

    def _begin_iteration(self, phase: str) -> None:
        """Call the strategies that act before this phase; on failure, write a checkpoint first."""
        try:
            for strategy in self.strategies:
                if strategy.phase == phase:
                    strategy.begin_iteration()
        except Exception:
            self.write()
            raise

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Forward the record of an evaluation."""
        for strategy in self.strategies:
            strategy.on_evaluation(record)

    def outcome(self) -> dict[str, dict[str, Any]]:
        """Return the current outcomes by strategy name, for strategies that report an outcome."""
        return {strategy.name: dict(outcome) for strategy in self.strategies if (outcome := strategy.outcome())}

    def finish(self, evaluate: Callable[[], Evaluation]) -> None:
        """Call `finish` of the strategies, which may change the trained model.

        Args:
            evaluate: Evaluates the current model.
        """
        for strategy in self.strategies:
            strategy.finish(evaluate)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each strategy, by name."""
        return {strategy.name: strategy.state_dict() for strategy in self.strategies}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        for strategy in self.strategies:
            strategy.load_state_dict(state[strategy.name])
