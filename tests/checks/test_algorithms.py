"""The conformance suite: every registered algorithm passes it, and each mistake makes the check fail that is for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.kills import differences, find_run
from mygym.algos.stable_baselines import PPO, SAC
from mygym.checks import check
from mygym.checks.algorithms import algorithm_checks
from mygym.checks.suite import perform
from mygym.registry import register_algorithm, registry
from tests.components import COMBOS, small

QUICK: dict[str, Any] = {"n_envs": 2, "task_params": {"horizon": 10}, "normalize": False}
STEPS = 120


def config(algo: str, framework: str) -> dict[str, Any]:
    params = small(algo, framework)
    rollouts = {"n_steps": 16} if "n_epochs" in params or algo in ("a2c", "trpo") else {}
    return {**QUICK, "algo_params": {**params, **rollouts}, "tensorboard": True}


EXAMINED = [(algo, "pytorch") for algo in ("ppo", "sac", "crossq", "ars", "recurrent_ppo", "dagger", "myalgo")]
EXAMINED += [("sac", "jax")]
"""On-policy, off-policy, with flat observations, searching, with memory, a runner, yours."""


@pytest.mark.parametrize(
    ("algo", "framework"), [it if it in EXAMINED else pytest.param(*it, marks=pytest.mark.slow) for it in COMBOS]
)
def test_every_algorithm_passes(algo: str, framework: str, tmp_path: Path) -> None:
    checks = algorithm_checks(algo, framework, STEPS, tmp_path, config(algo, framework))
    done = list(perform(registry("algorithm").get(algo), checks))
    assert [one for one in done if one.status != "passed"] == []
    assert [one.check for one in done] == [
        "constructs",
        "honest requirements",
        "trains",
        "save and load",
        "result and config",
        "deterministic",
        "resumes",
        "survives a bad environment",
    ]
    # More than the suite demands of others: not the weights alone are the same, but all that a run leaves.
    stopped = tmp_path / ("stopped" if not (tmp_path / "longer").exists() else "longer_stopped")
    whole = tmp_path / ("first" if not (tmp_path / "longer").exists() else "longer")
    assert differences(find_run(whole), find_run(stopped)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "framework"), COMBOS)
def test_every_algorithm_passes_as_it_ships(algo: str, framework: str) -> None:
    """What `mygym check algo --all` does: 2,000 steps, the defaults' networks."""
    assert [one for one in check("algorithm", algo, framework) if one.status != "passed"] == []


# mistakes -----------------------------------------------------------------------------------------------------------


class Restless(PPO):
    """Draws from a generator that nobody has seeded."""

    def train(self) -> None:
        self.ent_coef = float(np.random.default_rng().random())
        super().train()


class Tracker:
    """Changes, and has no state that a checkpoint could hold."""

    def __init__(self) -> None:
        self.updates = 0


class Forgetful(PPO):
    """Goes on from something that is in no checkpoint."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tracker = Tracker()

    def train(self) -> None:
        self.tracker.updates += 1
        self.ent_coef = 0.1 * self.tracker.updates
        super().train()


class Misloaded(PPO):
    """Loads other weights than it has saved."""

    @classmethod
    def load(cls, *args: Any, **kwargs: Any) -> Any:
        model = super().load(*args, **kwargs)
        with torch.no_grad():
            for weight in model.policy.parameters():
                weight.add_(0.1)
        return model


class Misnamed(PPO):
    """Loads an algorithm of another class."""

    @classmethod
    def load(cls, *args: Any, **kwargs: Any) -> Any:
        return PPO.load(*args, **kwargs)


class Idle(PPO):
    """Never learns."""

    def train(self) -> None:
        pass


class Halfway(SAC):
    """Ends before its time."""

    def learn(self, total_timesteps: int, *args: Any, **kwargs: Any) -> Any:
        return super().learn(total_timesteps // 2, *args, **kwargs)


class Swallowing(PPO):
    """Takes every error for a bad day."""

    def learn(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().learn(*args, **kwargs)
        except ValueError:
            return self


class Unplayful(SAC):
    """Has a replay buffer of its own, whatever it is given."""

    def __init__(self, *args: Any, replay_buffer_class: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class Secretive(PPO):
    """Keeps another value of a hyperparameter than it was given, so that its config repeats something else."""

    def __init__(self, *args: Any, pace: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pace = pace / 2

    def train(self) -> None:
        self.ent_coef = 0.1 * self.pace
        super().train()


MISTAKES: dict[str, tuple[type, dict[str, Any], str, str]] = {
    "not deterministic": (Restless, {}, "deterministic", "has other weights"),
    "loses state at a resume": (Forgetful, {}, "resumes", "do not hold tracker of Forgetful"),
    "loads other actions": (Misloaded, {}, "save and load", "Misloaded.load of model.zip gives other actions"),
    "loads another class": (Misnamed, {}, "save and load", "Misnamed.load gives a PPO"),
    "takes no dictionaries": (PPO, {"policy": "MlpPolicy"}, "honest requirements", "dict_observations=False"),
    "takes dictionaries only": (PPO, {"dict_observations": False}, "honest requirements", "dict_observations=True"),
    "does not relabel": (Unplayful, {}, "honest requirements", "its replay buffer is a DictReplayBuffer"),
    "does not learn": (Idle, {}, "trains", "no weight of the policy has changed"),
    "stops early": (Halfway, {}, "trains", "of 120 steps"),
    "hides errors": (Swallowing, {}, "survives a bad environment", "raises in step does not end the run"),
    "changes a hyperparameter": (Secretive, {}, "deterministic", "of config.yaml"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_the_check_that_is_for_it_and_no_other(mistake: str) -> None:
    cls, registration, which, words = MISTAKES[mistake]
    register_algorithm("mistaken", **{"policy": "MultiInputPolicy", **registration})(cls)
    params = {"buffer_size": 500} if issubclass(cls, SAC) else {"n_steps": 16, "batch_size": 16, "n_epochs": 1}
    config = {**QUICK, "algo_params": {**params, "policy_kwargs": {"net_arch": [8]}}}
    done = list(check("algorithm", "mistaken", steps=STEPS, config=config))
    assert [(one.check, words in one.why) for one in done if one.failed] == [(which, True)], done


def test_what_an_algorithm_raises_is_told_with_the_place() -> None:
    class Broken(PPO):
        def train(self) -> None:
            raise LookupError("a mistake of mine")

    register_algorithm("broken", policy="MultiInputPolicy")(Broken)
    config = {**QUICK, "algo_params": {"n_steps": 16, "batch_size": 16}}
    done = list(check("algorithm", "broken", steps=40, config=config))
    (failed,) = [one for one in done if one.failed]
    assert (failed.check, "LookupError: a mistake of mine" in failed.why) == ("trains", True)
    assert f"({__file__}:" in failed.why
    assert {one.why for one in done if one.status == "left out"} == {"needs: trains", "needs: deterministic"}


def test_rollouts_that_are_longer_than_the_training_are_stopped_between_two() -> None:
    """Else nothing would be resumed, and nothing could differ."""
    register_algorithm("forgetful", policy="MultiInputPolicy")(Forgetful)
    config = {**QUICK, "algo_params": {"n_steps": 100, "batch_size": 50, "n_epochs": 1}}
    done = {one.check: one for one in check("algorithm", "forgetful", steps=60, config=config)}
    assert done["resumes"].failed
    assert "tracker" in done["resumes"].why
