"""Ranges hold for parameters of the libraries and of mygym; other classes have only the bounds of type hints."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from annotated_types import Gt, Le
from stable_baselines3 import PPO, SAC

import mygym
from mygym.algos.imitation import DAgger
from mygym.config.hyperparameters import hyperparameter_rows
from mygym.config.parameter_checks import check_parameters
from mygym.errors import ConfigError
from mygym.planning.resolve import resolve_config
from mygym.registry import algorithm, implemented_combos, register_algorithm
from mygym.registry.signatures import parameters
from mygym.strategies import Strategy, register_strategy
from mygym.sweeps.settings import check_space, make_sweep
from mygym.training.runner import Curves, Loop, Runner

QUICK = {
    "steps": 32,
    "n_envs": 1,
    "tensorboard": False,
    "video": {"episodes": 0},
    "eval": {"episodes": 1, "final_episodes": 1},
}


class OddPPO(PPO):
    """PPO whose parameters have names of other classes, and defaults out of the ranges of these classes."""

    def __init__(
        self,
        policy: Any,
        env: Any,
        beta: float = 2.0,
        epsilon: float = 1.5,
        population: int = 0,
        episodes: float = 0.5,
        tau: float = 5.0,
        buffer_size: str = "large",
        n_delta: int = -3,
        train_freq: str = "episode",
        infinite: float = float("inf"),
        eps: float = None,  # type: ignore[assignment]  # noqa: RUF013  (as users write it)
        positive: Annotated[float, Gt(0)] = -1.0,
        activation_fn: str = "soft",
        net_arch: dict[str, Any] = {"encoder": [0]},  # noqa: B006
        **kwargs: Any,
    ) -> None:
        super().__init__(policy, env, **kwargs)
        assert (buffer_size, activation_fn) in (("large", "soft"), ("small", "hard"))  # no other value arrives
        self.beta, self.positive = beta, positive


class OddSAC(SAC):
    """SAC with a temperature, as AWR's."""

    def __init__(self, policy: Any, env: Any, beta: float = 2.0, **kwargs: Any) -> None:
        super().__init__(policy, env, **kwargs)


class OddRunner(Runner):
    """Runner whose constructor and whose training take names of other classes."""

    def __init__(self, policy: Any, env: Any, beta: float = 2.0, n_steps: int | None = None, **kwargs: Any) -> None:
        super().__init__(policy, env, **kwargs)
        self.beta = beta

    def training(self, loop: Loop, *, episodes: float = 0.5, gradient_steps: int = -5) -> Curves:
        """Train nothing."""
        while loop.next_iteration():
            loop.step([self.action_space.sample() for _ in range(self.n_envs)])
        return loop.curves()


class OddStrategy(Strategy):
    """Strategy with a name of other classes."""

    def __init__(self, *, beta: float = 2.0, rate: float = None) -> None:  # type: ignore[assignment]  # noqa: RUF013
        self.beta = beta


@pytest.fixture(autouse=True)
def registered() -> None:
    """Register the classes for a test."""
    register_algorithm("odd_ppo")(OddPPO)
    register_algorithm("odd_sac")(OddSAC)
    register_algorithm("odd_runner", policy="MultiInputPolicy")(OddRunner)
    register_strategy("odd_strategy")(OddStrategy)
    implemented_combos["odd_dictionary"] = {"pytorch": [OddPPO, ("MultiInputPolicy", "env"), {"beta": 2.5}]}


TEXTS = {"activation_fn": "hard", "buffer_size": "small"}

PLACES: dict[str, dict[str, Any]] = {
    "a subclass of PPO": {"algo": "odd_ppo", "algo_params": {"beta": 2.5, "population": -1, "eps": -1.0}},
    "an off-policy subclass": {"algo": "odd_sac", "algo_params": {"beta": 2.5}},
    "the constructor of a runner": {"algo": "odd_runner", "algo_params": {"beta": 2.5}},
    "the training of a runner": {"algo": "odd_runner", "training_params": {"episodes": 0.25, "gradient_steps": -7}},
    "the dictionary form": {"algo": "odd_dictionary", "algo_params": {"tau": -1.0}},
    "a schedule": {"algo": "odd_ppo", "algo_params": {"beta": {"schedule": "linear", "from": 3.0, "to": -1.0}}},
    "a strategy": {"strategy": "odd_strategy", "strategy_params": {"beta": 2.5}},
    "the name of a network as text": {
        "algo": "odd_ppo",
        "algo_params": {**TEXTS, "net_arch": {"encoder": [-1]}},
    },
}


@pytest.mark.parametrize("place", PLACES)
def test_a_class_of_the_user_has_no_range_of_another_class(place: str) -> None:
    values = resolve_config(overrides=PLACES[place]).values()
    assert all(
        values[key] == {**values[key], **given} for key, given in PLACES[place].items() if key.endswith("params")
    )
    assert resolve_config(values).values() == values  # as `--config RUN/config.yaml` does


def test_a_sweep_searches_beyond_the_range_of_another_class() -> None:
    check_space(make_sweep({"algo": "odd_ppo", "algo_params": {"beta": {"loguniform": [0.1, 10]}}}))


@pytest.mark.parametrize(
    ("algo", "values", "words"),
    [
        ("odd_ppo", {"clip_range": -1.0}, ["algo_params.clip_range: -1.0", "above 0"]),  # inherited from SB3
        ("odd_ppo", {"positive": -2.0}, ["algo_params.positive: -2.0", "greater than 0"]),  # its own bound
        ("odd_ppo", {"positive": {"schedule": "linear", "from": 1.0, "to": -2.0}}, ["positive", "greater than 0"]),
        ("odd_ppo", {"beta": "high"}, ["algo_params.beta: 'high'", "a number"]),
        ("odd_ppo", {"beta": float("inf")}, ["algo_params.beta: inf"]),
        ("heir_of_dagger", {"beta": 2.5}, ["algo_params.beta: 2.5", "at most 1"]),
    ],
)
def test_inherited_bounds_and_those_of_type_hints_hold(algo: str, values: dict[str, Any], words: list[str]) -> None:
    register_algorithm("heir_of_dagger")(type("Heir", (DAgger,), {"__doc__": "Heir."}))
    with pytest.raises(ConfigError) as error:
        resolve_config(overrides={"algo": algo, "algo_params": values})
    assert all(word in str(error.value) for word in words), error.value


def test_a_default_is_never_refused_but_a_boolean_is_no_number() -> None:
    def function(*, count: int = None, share: Annotated[float, Le(1)] = 2, on: bool = True) -> None:  # type: ignore[assignment]  # noqa: RUF013
        """Do nothing."""

    known = parameters(function)
    check_parameters("section", "function", known, {"count": None, "share": 2, "on": True})
    for wrong in ({"count": 1.5}, {"share": 3}, {"on": 1}):
        with pytest.raises(ConfigError, match="section"):
            check_parameters("section", "function", known, wrong)


def test_the_table_of_hyperparameters_has_ranges_of_their_classes_alone() -> None:
    rows = hyperparameter_rows(algorithm("odd_ppo"))
    assert {row["name"]: row["default"] for row in rows}["infinite"] == "inf"  # which a config cannot hold
    types = {row["name"]: row["type"] for row in rows}
    assert types["beta"] == "a number"
    assert types["gamma"] == "a number, at least 0 and at most 1"


def test_a_run_that_trained_is_evaluated_resumed_loaded_and_repeated(tmp_path: Path) -> None:
    params = {"n_steps": 16, "batch_size": 16, "policy_kwargs": {"net_arch": [8]}, **TEXTS}
    result = mygym.train({"algo": "odd_ppo", "algo_params": params, "logdir": str(tmp_path / "first"), **QUICK})
    assert result.status == "done"
    stored = yaml.safe_load((result.path / "config.yaml").read_text())
    assert stored["algo_params"] == {**stored["algo_params"], **TEXTS, "beta": 2.0, "population": 0, "eps": None}
    assert len(mygym.evaluate(result.path, episodes=1).episodes) == 1
    mygym.load(result.path)
    assert mygym.train({"steps": 48}, resume=result.path).steps == 48
    again = mygym.train({**stored, "logdir": str(tmp_path / "again")})
    assert again.status == "done"
    assert again.path.name == result.path.name
    assert again.path.parent.name == result.path.parent.name  # the hash of the config


# Constructors without **kwargs ---------------------------------------------------------------------------------------


class Closed(PPO):
    """PPO whose constructor takes nothing of a run."""

    def __init__(self, policy: Any, env: Any, lr_boost: float = 2) -> None:
        super().__init__(policy, env)


class Heir(Closed):
    """Class whose arguments end at the constructor of its parent."""

    def __init__(self, policy: Any, env: Any, more: int = 1, **kwargs: Any) -> None:
        super().__init__(policy, env, **kwargs)


@pytest.mark.parametrize("cls", [Closed, Heir])
def test_a_constructor_without_kwargs_is_refused_before_a_run(cls: type) -> None:
    register_algorithm("closed")(cls)
    with pytest.raises(ConfigError) as error:
        resolve_config(overrides={"algo": "closed"})
    line = inspect.getsourcelines(Closed.__init__)[1]
    for word in (f"{__file__}:{line}", "Closed", "seed", "**kwargs"):
        assert word in str(error.value)


# Policies and features extractors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"algo": "ppo", "algo_params": {"policy": "MlpPolicy"}}, ["policy: 'MlpPolicy'", "'MultiInputPolicy'"]),
        ({"algo": "sac", "algo_params": {"policy": "MlpPolicy"}}, ["policy: 'MlpPolicy'", "'MultiInputPolicy'"]),
        ({"algo": "mlp_sac", "algo_params": {"policy": "MultiInputPolicy"}}, ["'MultiInputPolicy'", "'MlpPolicy'"]),
        (
            {"algo": "ppo", "algo_params": {"policy_kwargs": {"features_extractor_class": "flatten"}}},
            ["features_extractor_class: 'flatten'", "combined"],
        ),
    ],
)
def test_a_network_for_other_observations_is_refused(config: dict[str, Any], words: list[str]) -> None:
    implemented_combos["mlp_sac"] = {"pytorch": [SAC, ("MlpPolicy", "env"), {}]}
    with pytest.raises(ConfigError) as error:
        resolve_config(overrides=config)
    assert all(word in str(error.value) for word in words), error.value


def test_a_registration_in_jax_may_name_mlp_policy() -> None:
    sbx = pytest.importorskip("sbx")
    for name in ("SAC", "PPO"):
        implemented_combos["flat"] = {"jax": [getattr(sbx, name), ("MlpPolicy", "env"), {}]}
        assert not algorithm("flat", "jax").dict_observations
    with pytest.raises(ConfigError, match=r"policy: 'MlpPolicy'.*did you mean 'MultiInputPolicy'"):
        resolve_config(overrides={"algo": "sac", "framework": "jax", "algo_params": {"policy": "MlpPolicy"}})


# Words of other programs, and keys of other sections -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"algo_params": {"learning_rate": "lin_3e-4"}}, ["{schedule: linear, from: 3e-4, to: 0}"]),
        ({"algo_params": {"policy_kwargs": "dict(net_arch=[64, 64])"}}, ["policy_kwargs", "{net_arch: [64, 64]}"]),
        ({"algo_params": {"replay_buffer_class": "Mine"}}, ["null", "defaults={'replay_buffer_class': Mine}"]),
        ({"training_params": {"lr": 1e-3}}, ["training_params.lr", "'algo_params.learning_rate'"]),
        ({"algo": "cem", "training_params": {"population": 3}}, ["'algo_params.population'"]),
        ({"algo": "cem", "algo_params": {"episodes": 3}}, ["'training_params.episodes'"]),
        ({"algo_params": {"net_arch": [64]}}, ["'algo_params.policy_kwargs.net_arch'"]),
        ({"algo_params": {"policy_kwargs": {"lr": 1e-3}}}, ["'algo_params.learning_rate'"]),
        ({"algo_params": {"horizon": 9}}, ["'task_params.horizon'"]),
        ({"algo_params": {"n_envs": 9}}, ["did you mean the key 'n_envs'?"]),
        ({"strategy": "demos", "strategy_params": {"n_envs": 9}}, ["did you mean the key 'n_envs'?"]),
    ],
)
def test_a_message_names_the_form_or_the_section_of_a_value(config: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        resolve_config(overrides={"algo": "sac", **config})
    assert all(word in str(error.value) for word in words), error.value
