"""An algorithm inherits from its nearest registered ancestor everything that its registration does not state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import stable_baselines3 as sb3
from stable_baselines3.common.policies import ActorCriticPolicy, MultiInputActorCriticPolicy
from stable_baselines3.sac.policies import MultiInputPolicy

import mygym
from mygym.api import print_notes
from mygym.config.hyperparameters import Schema
from mygym.planning.plan import plan_from_python
from mygym.planning.resolve import resolve_config
from mygym.registry import Algorithm, algorithm, implemented_combos, register_algorithm
from mygym.training.model_factory import explained
from tests.components import COMBOS, slow_except, small

FORMS: dict[str, Callable[[type, str], object]] = {
    "decorator": lambda cls, framework: register_algorithm("heir", framework)(cls),
    "dictionary": lambda cls, framework: implemented_combos.update({"heir": {framework: [cls, (), {}]}}),
    "dictionary with an environment": lambda cls, framework: implemented_combos.update(
        {"heir": {framework: [cls, ("env",), {}]}}
    ),
}
"""Forms of a registration that states nothing."""


def library_class(entry: Algorithm) -> type | None:
    """Return the class of another package that a built-in algorithm adapts."""
    cls = entry.combo()[0]
    bases = cls.__bases__ if cls.__module__.startswith("mygym.") else ()
    return next((base for base in bases if not base.__module__.startswith("mygym.") and hasattr(base, "learn")), None)


def subclass(cls: type) -> type:
    return type("Heir", (cls,), {"__doc__": "Heir."})


def settings(algo: str, framework: str) -> dict[str, Any]:
    """Return the values of a run's config that an algorithm shapes, in the form of the config."""
    values = resolve_config(overrides={"algo": algo, "framework": framework}).values()
    return {key: value for key, value in values.items() if key not in ("algo", "logdir")}


@pytest.mark.parametrize(
    ("algo", "framework", "form"),
    [*((*combo, "decorator") for combo in COMBOS), *(("sac", "pytorch", form) for form in FORMS)],
)
@pytest.mark.parametrize("of_library", [False, True], ids=["built-in class", "library's class"])
def test_a_subclass_has_all_values_of_its_parent(algo: str, framework: str, form: str, of_library: bool) -> None:
    parent = algorithm(algo, framework)
    cls = library_class(parent) if of_library else parent.combo()[0]
    if cls is None:
        pytest.skip("no other package has this algorithm")
    FORMS[form](subclass(cls), framework)
    heir, expected = algorithm("heir", framework), settings(algo if algo != "multippo" else "ppo", framework)
    if of_library:
        expected["algo_params"].pop("random_shift", None)  # a parameter of the class of this package
    assert heir.parent == (algo if algo != "multippo" else "ppo")
    assert settings("heir", framework) == expected
    for field in ("dict_observations", "goal_relabelling", "requires", "replaces_task_budget"):
        assert getattr(heir, field) == getattr(parent, field)


@pytest.mark.parametrize(
    ("algo", "framework"),
    slow_except(
        COMBOS,
        lambda combo: (
            combo
            in [
                ("ppo", "pytorch"),
                ("td3", "pytorch"),
                ("ars", "pytorch"),
                ("crossq", "pytorch"),
                ("cem", "pytorch"),
            ]  # for a subclass in JAX see tests/cli/new/test_learning_files.py
        ),
    ),
)
def test_a_subclass_of_the_librarys_class_trains(algo: str, framework: str, tmp_path: Any) -> None:
    parent = algorithm(algo, framework)
    FORMS["dictionary"](subclass(library_class(parent) or parent.combo()[0]), framework)
    result = mygym.train(
        {
            "algo": "heir",
            "framework": framework,
            "steps": 64,
            "n_envs": 2,
            "task_params": {"horizon": 10},
            "eval": {"episodes": 1, "final_episodes": 1},
            "video": {"episodes": 0},
            "algo_params": small(algo, framework),
            "logdir": str(tmp_path / "run"),
        }
    )
    assert result.status == "done"


def test_stated_values_win_and_the_rest_is_inherited() -> None:
    @register_algorithm("heir", defaults={"n_steps": 64}, run_defaults={"n_envs": 2})
    class Heir(sb3.PPO):
        """Heir."""

    resolved = resolve_config(overrides={"algo": "heir"})
    assert resolved.config.algo_params["n_steps"] == 64
    assert resolved.origins["algo_params.n_steps"] == "algorithm heir"
    assert resolved.config.n_envs == 2
    assert resolved.origins["n_envs"] == "algorithm heir"
    ppo = algorithm("ppo")
    assert resolved.config.algo_params["learning_rate"] == ppo.defaults["learning_rate"]
    assert resolved.origins["algo_params.learning_rate"] == "algorithm heir, from ppo"
    assert resolved.origins["reward"] == "algorithm heir, from ppo"
    assert implemented_combos["heir"]["pytorch"][2] == {**ppo.defaults, "n_steps": 64}


@pytest.mark.parametrize(
    ("task", "engine"), [("stack", "pybullet"), ("reach", "fused"), ("push", "mujoco"), ("pick_and_place", "mujoco")]
)
def test_values_for_a_task_and_an_engine_are_inherited_below_those_stated(task: str, engine: str) -> None:
    @register_algorithm("heir", defaults={"batch_size": 64})
    class Heir(sb3.PPO):
        """Heir."""

    of_ppo, of_heir = (
        resolve_config(overrides={"algo": algo, "task": task, "engine": engine}).values() for algo in ("ppo", "heir")
    )
    assert of_ppo["algo_params"].pop("batch_size") != of_heir["algo_params"].pop("batch_size") == 64
    assert {**of_heir, "algo": "ppo"} == of_ppo


def test_constructors_keep_the_defaults_that_they_declare() -> None:
    class Policy(MultiInputActorCriticPolicy):
        def __init__(self, *args: Any, net_arch: Any = (8,), **kwargs: Any) -> None:
            super().__init__(*args, net_arch=list(net_arch), **kwargs)

    @register_algorithm("heir", policy=Policy, defaults={"policy_kwargs": {"ortho_init": False}})
    class Heir(sb3.SAC):
        def __init__(self, policy: Any, env: Any, tau: float = 0.5, seed: int | None = None, **kwargs: Any) -> None:
            super().__init__(policy, env, tau=tau, seed=seed, **kwargs)

    heir, sac = algorithm("heir"), algorithm("sac")
    assert "tau" not in heir.defaults
    assert heir.defaults["learning_rate"] == sac.defaults["learning_rate"]
    assert heir.defaults["policy_kwargs"] == {
        **{key: value for key, value in sac.defaults["policy_kwargs"].items() if key == "optimizer_kwargs"},
        "ortho_init": False,
    }

    @register_algorithm("closed")
    class Closed(sb3.PPO):
        def __init__(self, policy: Any, env: Any, gamma: float = 0.5) -> None:
            super().__init__(policy, env, gamma=gamma)

    assert algorithm("closed").defaults == {}
    assert algorithm("closed").run_defaults == algorithm("ppo").run_defaults


def test_a_policy_that_the_constructor_declares_is_used() -> None:
    class Wide(MultiInputPolicy):
        pass

    class Own(sb3.SAC):
        def __init__(self, policy: Any = Wide, env: Any = None, **kwargs: Any) -> None:
            super().__init__(policy, env, **kwargs)

    class Ours(Own):
        pass

    for cls in (Own, Ours):
        register_algorithm(cls.__name__.lower())(cls)
        assert algorithm(cls.__name__.lower(), "pytorch").policy is Wide
    register_algorithm("stated", policy="MlpPolicy")(Own)
    assert algorithm("stated", "pytorch").policy == "MlpPolicy"


def test_nearest_ancestor_along_the_mro() -> None:
    @register_algorithm("middle", defaults={"gamma": 0.5}, run_defaults={"reward": "sparse"})
    class Middle(sb3.PPO):
        """Middle."""

    @register_algorithm("heir")
    class Heir(Middle):
        """Heir."""

    assert algorithm("heir").parent == "middle"
    config = resolve_config(overrides={"algo": "heir"}).config
    assert (config.algo_params["gamma"], config.reward) == (0.5, "sparse")
    assert config.algo_params["learning_rate"] == algorithm("ppo").defaults["learning_rate"]


def test_nothing_is_inherited_if_the_registration_refuses_it() -> None:
    @register_algorithm("alone", inherit=False)
    class Alone(sb3.PPO):
        """Alone."""

    entry = algorithm("alone")
    assert (entry.parent, entry.defaults, entry.run_defaults) == ("", {}, {})
    resolved = resolve_config(overrides={"algo": "alone"})
    assert not [origin for origin in resolved.origins.values() if "from ppo" in origin]


def test_an_algorithm_that_replaces_its_parent() -> None:
    @register_algorithm("ppo", override=True)
    class Replacement(sb3.PPO):
        """Replacement."""

    assert algorithm("ppo").parent == "ppo"
    assert algorithm("ppo").defaults["n_steps"] == 128
    assert "strategy" not in algorithm("ppo").run_defaults


@pytest.mark.parametrize(
    ("policy", "takes"),
    [
        ("MlpPolicy", False),
        ("MultiInputPolicy", True),
        (ActorCriticPolicy, False),
        (MultiInputActorCriticPolicy, True),
        (type("Custom", (MultiInputActorCriticPolicy,), {}), True),
    ],
)
def test_the_policy_decides_on_the_observations(policy: Any, takes: bool) -> None:
    implemented_combos["heir"] = {"pytorch": [subclass(sb3.PPO), (policy, "env"), {}]}
    assert algorithm("heir").dict_observations == takes
    assert Schema(algorithm("heir"), {}).policy == policy


def test_a_note_names_the_parent(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    register_algorithm("heir")(subclass(sb3.PPO))
    config: dict[str, Any] = {"algo": "heir", "steps": 16, "n_envs": 1}
    config |= {"algo_params": {"n_steps": 16, "batch_size": 16}}
    config |= {"eval": {"episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}}
    mygym.train({**config, "logdir": str(tmp_path / "run")})
    assert "note: heir inherits its unset values from ppo" in capsys.readouterr().err


def test_a_note_names_the_values_that_a_constructor_sets(capsys: pytest.CaptureFixture[str]) -> None:
    class Short(sb3.SAC):
        def __init__(self, policy: Any, env: Any, learning_rate: float = 1e-4, **kwargs: Any) -> None:
            super().__init__(policy, env, learning_rate, **{**kwargs, "gamma": 0.5})

    register_algorithm("short")(Short)
    plan = plan_from_python({"algo": "short", "n_envs": 1})
    explained(plan, lambda plan, env, model: print_notes(plan, model))
    assert [line for line in capsys.readouterr().err.splitlines() if " sets " in line] == [
        "note: Short sets gamma to 0.5, not to 0.95"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "framework"), [combo for combo in COMBOS if combo[0] not in ("multippo", "ars")]
)  # whose tables are those of ppo, and hours long
@pytest.mark.parametrize("form", ["decorator", "dictionary"])
def test_a_subclass_learns_as_fast_as_its_parent(algo: str, framework: str, form: str, tmp_path: Any) -> None:
    parent = algorithm(algo, framework)
    FORMS[form](subclass(library_class(parent) or parent.combo()[0]), framework)
    config = {"framework": framework, "stop_at_success": 0.9, "eval": {"every": 2_000}, "video": {"episodes": 0}}
    config |= {"tensorboard": False, "logdir": str(tmp_path)}
    limit = int(1.5 * mygym.train({**config, "algo": algo}).steps) + 2_000
    heir = mygym.train({**config, "algo": "heir"})
    assert heir.steps <= limit
    assert mygym.evaluate(heir.path, episodes=50, seed=3).success_rate >= 0.8
