"""Suite of algorithms: every registered algorithm passes, and each mistake fails its check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.kills import differences, find_run
from mygym.algos.stable_baselines import PPO, SAC
from mygym.checks import check
from mygym.checks.algorithms import algorithm_checks, fail, faulty
from mygym.checks.suite import LEARNS, perform
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.errors import ConfigError
from mygym.registry import register_algorithm, registry
from tests.components import COMBOS, slow_except, small

QUICK: dict[str, Any] = {"n_envs": 2, "task_params": {"horizon": 10}, "normalize": False}
STEPS = 120
"""SAC begins to learn after 100, and a state that is lost at a resume takes as many to show."""


def config(algo: str, framework: str) -> dict[str, Any]:
    params = small(algo, framework)
    rollouts = {"n_steps": 16} if "n_epochs" in params or algo in ("a2c", "trpo") else {}
    loop = {"training_params": {"rollout_steps": 10, "gradient_steps": 5}} if algo == "dagger" else {}
    return {**QUICK, **loop, "algo_params": {**params, **rollouts}, "tensorboard": True}


@pytest.mark.parametrize(("algo", "framework"), slow_except(COMBOS, ("ppo", "pytorch").__eq__))
def test_every_algorithm_passes(algo: str, framework: str, tmp_path: Path) -> None:
    checks = algorithm_checks(algo, framework, STEPS, tmp_path, config(algo, framework))
    # For a custom algorithm, which is loaded in another process too, see tests/cli/new/test_scaffolds.py.
    short = [check for check in checks if check.name != LEARNS]  # tests/registry/test_inheritance.py trains that long
    done = list(perform(registry("algorithm").get(algo), short))
    assert [outcome for outcome in done if outcome.status != "passed"] == []
    assert [outcome.check for outcome in done] == [
        "constructs",
        "honest requirements",
        "trains",
        "save and load",
        "result and config",
        "deterministic",
        "resumes",
        "survives a bad environment",
    ]
    # Stricter than the suite: not only the weights are equal, but all files of a run.
    stopped = tmp_path / ("stopped" if not (tmp_path / "longer").exists() else "longer_stopped")
    whole = tmp_path / ("first" if not (tmp_path / "longer").exists() else "longer")
    assert differences(find_run(whole), find_run(stopped)) == []


def test_a_fault_reaches_the_environments_of_a_batch() -> None:
    env = BatchVecEnv({"task": "reach", "engine": "mujoco"}, 2, "cpu")
    env.reset()
    actions = np.zeros((2, *env.action_space.shape), dtype=np.float32)
    with faulty(3, lambda returned: (returned[0], 7.0, *returned[2:])):
        before, after = env.step(actions)[1], env.step(actions)[1]
    assert (before != 7.0).all()
    assert after.tolist() == [7.0, 7.0]
    with faulty(1, fail), pytest.raises(ValueError, match="the environment's own mistake"):
        env.step(actions)
    assert (env.step(actions)[1] != 7.0).all()
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "framework"), COMBOS)
def test_every_algorithm_passes_with_its_defaults(algo: str, framework: str) -> None:
    """The same as `mygym check algo --all`: 2,000 steps and the default networks."""
    assert [outcome for outcome in check("algorithm", algo, framework) if outcome.status != "passed"] == []


# mistakes -----------------------------------------------------------------------------------------------------------


class Restless(PPO):
    """Draws from an unseeded generator."""

    def train(self) -> None:
        self.ent_coef = float(np.random.default_rng().random())
        super().train()


class Tracker:
    """Has changing state that no checkpoint can store."""

    def __init__(self) -> None:
        self.updates = 0


class Forgetful(PPO):
    """Depends on state that is in no checkpoint."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tracker = Tracker()

    def train(self) -> None:
        self.tracker.updates += 1
        self.ent_coef = 0.1 * self.tracker.updates
        super().train()


class Misloaded(PPO):
    """Loads other weights than it saved."""

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
    """Ends too early."""

    def learn(self, total_timesteps: int, *args: Any, **kwargs: Any) -> Any:
        return super().learn(total_timesteps // 2, *args, **kwargs)


class Swallowing(PPO):
    """Catches every error."""

    def learn(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().learn(*args, **kwargs)
        except ValueError:
            return self


class Obscuring(PPO):
    """Replaces every error by a message without its cause."""

    def learn(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().learn(*args, **kwargs)
        except ValueError:
            raise RuntimeError("the training has failed") from None


class Unplayful(SAC):
    """Ignores the replay buffer class in its arguments."""

    def __init__(self, *args: Any, replay_buffer_class: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class Secretive(PPO):
    """Changes the value of a parameter of PPO, so that the config with the new value does not reproduce the run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ent_coef = self.ent_coef / 2 + 0.05


FLAT = {"policy": "MlpPolicy", "dict_observations": True}
TRAIN_AGAIN = ("deterministic", "resumes", "survives a bad environment")
"""Checks that train most; the normal suite performs them where they must fail, and for an algorithm of each kind."""

MISTAKES: dict[str, tuple[type, dict[str, Any], str, str]] = {
    "not deterministic": (Restless, {}, "deterministic", "has other weights"),
    "loses state at a resume": (Forgetful, {}, "resumes", "do not hold tracker of Forgetful"),
    "loads other actions": (Misloaded, {}, "save and load", "Misloaded.load of model.zip gives other actions"),
    "loads another class": (Misnamed, {}, "save and load", "Misnamed.load gives a PPO"),
    "takes no dictionaries": (PPO, FLAT, "honest requirements", "dict_observations=False"),
    "takes dictionaries only": (PPO, {"dict_observations": False}, "honest requirements", "dict_observations=True"),
    "does not relabel": (Unplayful, {}, "honest requirements", "its replay buffer is a DictReplayBuffer"),
    "does not learn": (Idle, {}, "trains", "no weight of the policy has changed"),
    "stops early": (Halfway, {}, "trains", f"of {STEPS} steps"),
    "hides errors": (Swallowing, {}, "survives a bad environment", "raises in step does not end the run"),
    "obscures errors": (Obscuring, {}, "survives a bad environment", "a message that hides its error"),
    "changes a hyperparameter": (Secretive, {}, "deterministic", "of config.yaml"),
}


@pytest.mark.parametrize("skipped", [TRAIN_AGAIN, pytest.param((), marks=pytest.mark.slow)], ids=["quick", "whole"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_only_its_check(mistake: str, skipped: tuple[str, ...]) -> None:
    cls, registration, name, text = MISTAKES[mistake]
    register_algorithm("mistaken", **{"policy": "MultiInputPolicy", **registration})(cls)
    params = {"buffer_size": 500} if issubclass(cls, SAC) else {"n_steps": 16, "batch_size": 16, "n_epochs": 1}
    config = {**QUICK, "n_envs": 1, "algo_params": {**params, "policy_kwargs": {"net_arch": [8]}}}
    skip = {LEARNS, *skipped} - {name, *(["deterministic"] if name == "resumes" else [])}
    steps = STEPS if issubclass(cls, SAC) or name == "resumes" else 64
    done = list(check("algorithm", "mistaken", steps=steps, config=config, skip=skip))
    assert [(outcome.check, text in outcome.why) for outcome in done if outcome.failed] == [(name, True)], done


def test_an_error_is_reported_with_file_and_line() -> None:
    class Broken(PPO):
        def train(self) -> None:
            raise LookupError("an example error")

    register_algorithm("broken", policy="MultiInputPolicy")(Broken)
    config = {**QUICK, "algo_params": {"n_steps": 16, "batch_size": 16}}
    done = list(check("algorithm", "broken", steps=40, config=config))
    (failed,) = [outcome for outcome in done if outcome.failed]
    assert (failed.check, "LookupError: an example error" in failed.why) == ("trains", True)
    assert f"({__file__}:" in failed.why
    assert {outcome.why for outcome in done if outcome.status == "left out"} == {
        "needs: trains",
        "needs: deterministic",
    }


def test_long_rollouts_are_interrupted_between_two_rollouts() -> None:
    """Otherwise the check would not resume the run, and could not detect a difference."""
    register_algorithm("forgetful", policy="MultiInputPolicy")(Forgetful)
    config = {**QUICK, "algo_params": {"n_steps": 40, "batch_size": 40, "n_epochs": 1}}
    skip = [LEARNS, "save and load", "result and config", "survives a bad environment"]
    done = {outcome.check: outcome for outcome in check("algorithm", "forgetful", steps=60, config=config, skip=skip)}
    assert done["resumes"].failed
    assert "tracker" in done["resumes"].why


class Sluggish(PPO):
    """PPO with a learning rate that is far too small."""

    def _update_learning_rate(self, optimizers: Any) -> None:
        for group in optimizers.param_groups:
            group["lr"] = 1e-7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "status", "text"),
    [(PPO, "passed", "reach in "), (Sluggish, "failed", "success on reach after ")],
)
def test_an_algorithm_is_compared_with_its_parent(base: type, status: str, text: str) -> None:
    register_algorithm("heir")(type("Heir", (base,), {"__doc__": "Heir."}))
    skipped = ["save and load", "result and config", "deterministic", "resumes", "survives a bad environment"]
    outcomes = {outcome.check: outcome for outcome in check("algorithm", "heir", steps=2_048, skip=skipped)}
    assert all(outcomes[name].status == "left out" for name in skipped)
    assert outcomes[LEARNS].status == status
    assert text in outcomes[LEARNS].why


def test_a_misspelt_check_to_skip_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"skip: 'train' .*did you mean 'trains'"):
        list(check("algorithm", "ppo", skip=["train"]))
