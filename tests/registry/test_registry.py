"""The registry: names, errors, both forms of registering algorithms, look-up time and imports."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import stable_baselines3
import torch
from gymnasium.wrappers import FlattenObservation
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import CombinedExtractor
from stable_baselines3.common.utils import ConstantSchedule
from torch import nn

import mygym
from mygym.algos.stable_baselines import PPO, SAC
from mygym.config import load_file
from mygym.config.schedules import register_schedule
from mygym.envs.ids import env_id
from mygym.envs.randomizers import register_randomizer
from mygym.errors import ConfigError, RegistryError, UnknownNameError
from mygym.planning.callbacks import register_callback
from mygym.registry import (
    BUILTIN_MODULES,
    REGISTRIES,
    Algorithm,
    add_algorithm,
    algorithm,
    decorator,
    implemented_combos,
    isolated,
    register_activation,
    register_algorithm,
    register_features_extractor,
    register_optimizer,
    register_policy,
    registry,
    with_env,
)
from mygym.strategies import Strategy, register_strategy
from mygym.tasks.observations import register_observation
from mygym.tasks.rewards import register_reward
from mygym.tasks.stage import register_stage
from mygym.tasks.stages.pushing import SETTLE
from mygym.tasks.task import register_task
from mygym.training.runner import Runner
from tests.components import ALGORITHMS, COMBOS, slow_except

SHORT = {
    "steps": 64,
    "eval": {"episodes": 1, "final_episodes": 2},
    "video": {"episodes": 0},
    "tensorboard": False,
    "n_envs": 1,
    "task_params": {"horizon": 10},
    "reward": "dense",
}


KINDS = sorted(kind for kind in REGISTRIES if registry(kind).names())


def test_every_entry_loads_and_has_help_and_origin() -> None:
    for kind in KINDS:
        for entry in registry(kind):
            assert entry.load() is not None
            assert entry.help.strip(), entry.name
            assert "\n" not in entry.help
            assert entry.origin


def test_unknown_name_is_refused_with_the_nearest_name() -> None:
    for kind in KINDS:
        name = max(registry(kind).names(), key=len)
        with pytest.raises(RegistryError, match=f"did you mean '{name}'") as error:
            registry(kind).get(f"{name}z")
        assert f"{name}z" in str(error.value)
        few = len(registry(kind).names()) < 60
        assert all(known in str(error.value) for known in (registry(kind).names() if few else [f"`mygym list {kind}`"]))


@pytest.mark.parametrize(
    ("kind", "name", "nearest"),
    [
        ("sampler", "FairSampler", "fair"),
        ("strategy", "MultiTaskStrategy", "multitask"),
        ("strategy", "IA3", "ia3"),
        ("stage", "HandOver", "hand_over"),
        ("task", "ReachEnv", "reach"),
        ("algorithm", "PPORunner", "ppo_runner"),
        ("callback", "EarlyStop", "patience"),  # the class of the callback
    ],
)
def test_the_name_of_a_class_has_the_registered_name_as_the_nearest(kind: str, name: str, nearest: str) -> None:
    register_callback("patience")(type("EarlyStop", (BaseCallback,), {}))
    with pytest.raises(RegistryError, match=rf"'{name}' .*did you mean '{nearest}'\?"):
        registry(kind).get(name)


def test_unknown_kind_is_refused_with_the_nearest_kind() -> None:
    with pytest.raises(RegistryError, match="did you mean 'robot'"):
        registry("robots")


def test_alias_and_name_have_the_same_entry() -> None:
    assert registry("controller").get("step") is registry("controller").get("ee_delta")
    assert registry("controller").get("joints") is registry("controller").get("joint_position")


def test_registering_twice_names_both_origins() -> None:
    registry("object").register("brick", object(), "a brick", origin="here.py:1")
    with pytest.raises(RegistryError, match=r"here\.py:1 and there\.py:2"):
        registry("object").register("brick", object(), "another brick", origin="there.py:2")


def test_origin_is_the_line_of_the_registration() -> None:
    registry("object").register("brick", object(), "a brick")
    assert registry("object").get("brick").origin.startswith(f"{__file__}:")


def test_override_replaces_a_component() -> None:
    registry("object").register("brick", 1, origin="here.py:1")
    registry("object").register("brick", 2, origin="there.py:2", override=True)
    assert registry("object").get("brick").load() == 2


def test_an_alias_that_is_taken_is_refused() -> None:
    registry("object").register("brick", 1, origin="here.py:1", aliases=["clinker"])
    assert registry("object").get("clinker").name == "brick"
    with pytest.raises(RegistryError, match="object 'clinker' is registered twice"):
        registry("object").register("other", 2, origin="there.py:2", aliases=["clinker"])


def test_registrations_are_reported_and_components_can_be_removed() -> None:
    names: list[str] = []
    registry("object").watch(lambda entry: names.append(entry.name))
    assert "cube" in names
    registry("object").register("brick", object())
    assert names[-1] == "brick"
    registry("object").remove("brick")
    assert "brick" not in registry("object")


def test_isolated_undoes_registrations() -> None:
    with isolated():
        registry("object").register("brick", object())
        assert "brick" in registry("object")
    assert "brick" not in registry("object")


def test_isolated_keeps_built_in_components_that_its_block_looks_up_first(python) -> None:
    code = """
from mygym.registry import isolated, registry
with isolated():
    print(registry("robot").get("panda").name, registry("reward").get("dense").name)
print("panda" in registry("robot").names(), "dense" in registry("reward").names())
"""
    assert python("-c", code).stdout.split() == ["panda", "dense", "True", "True"]


def test_a_second_look_up_reads_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments look up components in each episode."""
    entry = registry("task").get("reach")
    for name in ("stat", "scandir", "listdir"):
        monkeypatch.setattr(os, name, lambda *_, name=name, **__: pytest.fail(f"calls os.{name}"))
    assert registry("task").get("reach") is entry


RANGE = (0.0, 1.0)
REGISTERING: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "algorithm": (register_algorithm, ()),
    "policy": (register_policy, ()),
    "features_extractor": (register_features_extractor, ()),
    "activation": (register_activation, ()),
    "optimizer": (register_optimizer, ()),
    "schedule": (register_schedule, ()),
    "observation": (register_observation, (1.0,)),
    "randomizer": (register_randomizer, ("m", RANGE, RANGE)),
    "task": (register_task, ("A",)),
    "stage": (register_stage, (replace(SETTLE, name="custom"),)),
    "strategy": (register_strategy, ()),
    "reward": (register_reward, ()),
}
"""Kind → its `register_KIND`, with the required arguments besides the name; `decorator` is used for other kinds."""


EXAMPLES: dict[str, Callable[..., Any]] = {
    "observation": lambda context: context,
    "policy": lambda envs, seed: envs,
    "randomizer": lambda randomization, draw: randomization,
    "reward": lambda context: context,
}
"""Kind → component; a class is used for other kinds."""


def register_example(kind: str, **options: Any) -> None:
    """Register an example component; as the name begins with `register_`, its origin is the caller's line."""
    register, arguments = REGISTERING.get(kind, (partial(decorator, kind), ()))
    decorate = register("custom", *arguments, **options)
    if callable(decorate):
        decorate(EXAMPLES.get(kind, type("Custom", (Strategy,), {})))


@pytest.mark.parametrize("kind", BUILTIN_MODULES)
def test_every_kind_can_be_overridden_as_the_message_advises(kind: str) -> None:
    register_example(kind)
    first = registry(kind).get("custom").origin
    with pytest.raises(RegistryError, match=f"{kind} 'custom' .*override=True"):
        register_example(kind)
    assert registry(kind).get("custom").origin == first
    register_example(kind, override=True)
    assert registry(kind).get("custom").origin != first


def test_a_decorator_refuses_a_component_of_the_wrong_type() -> None:
    with pytest.raises(RegistryError, match=rf"register_object: 'custom' .*int \({__file__}:\d+\)"):
        decorator("object", "custom", allowed="a class")(1)


@pytest.mark.parametrize("name", ["", "two words", "9lives", "a/b", "../up"])
def test_names_are_identifiers(name: str) -> None:
    with pytest.raises(RegistryError, match="is not a name"):
        registry("object").register(name, object())


def test_missing_package_is_named() -> None:
    registry("object").register("ghost", "no_such_package:Thing")
    with pytest.raises(RegistryError, match="pip install no_such_package"):
        registry("object").get("ghost").load()


@pytest.mark.parametrize("package", ["sbx", pytest.param("jax", marks=pytest.mark.slow)])
def test_missing_extra_is_named_in_one_line(package: str, python, tmp_path: Path) -> None:
    """A run in the framework fails; its components can still be listed and described, and other frameworks used."""
    code = f"""
import sys
sys.modules[{package!r}] = None
from mygym.cli.main import main
from mygym.registry import implemented_combos
try:
    main(["train", "--framework", "jax"])
except SystemExit as end:
    print(end.code)
print(implemented_combos["sac"]["pytorch"][0].__name__)
main(["describe", "algorithm", "sac"])
"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1
    assert f"algorithm 'sac' of framework 'jax': needs the package {package!r}" in done.stderr
    assert 'pip install "mygym[jax]"' in done.stderr
    assert done.stdout.startswith("2\nSAC\n")
    assert "mygym[jax]" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_unknown_names_and_frameworks_name_missing_extras(python) -> None:
    code = """
import sys
sys.modules["sbx"] = None
from mygym.errors import UnknownNameError
from mygym.registry import implemented_combos, registry
for look_up in (lambda: implemented_combos["sac"]["jaxx"], lambda: registry("activation").get("rellu")):
    try:
        look_up()
    except UnknownNameError as error:
        print(error)
registry("activation").register("only", "flax.linen:relu", framework="jax")
print(registry("algorithm").get("sac").listed_requirements)
print(registry("activation").get("only").missing_extras, registry("activation").get("relu").missing_extras)
"""
    framework, activation, requirements, extras = python("-c", code).stdout.splitlines()
    assert framework.endswith("allowed: jax (needs mygym[jax]), pytorch; did you mean 'jax'?")
    assert "relu" in activation
    assert "mygym[jax]" not in activation  # every activation exists in PyTorch
    assert requirements == "('continuous actions', 'mygym[jax] (jax)')"
    assert extras == "('mygym[jax]',) ()"


# algorithms ---------------------------------------------------------------------------------------------------------


def test_implemented_combos_has_class_args_and_kwargs() -> None:
    for name in ALGORITHMS:
        assert implemented_combos[name]
        for cls, args, kwargs in implemented_combos[name].values():
            assert all(callable(getattr(cls, method)) for method in ("learn", "save", "load", "predict"))
            assert hasattr(cls, "state_dict") or issubclass(
                cls, BaseAlgorithm
            )  # runs read the state of any SB3 algorithm
            assert "env" in args
            assert isinstance(kwargs, dict)


def test_implemented_combos_of_sac() -> None:
    cls, args, kwargs = implemented_combos["sac"]["pytorch"]
    assert issubclass(cls, stable_baselines3.SAC)
    assert args == ("MultiInputPolicy", "env")
    assert kwargs == dict(algorithm("sac").defaults)
    assert {"learning_rate", "gamma", "policy_kwargs"} <= kwargs.keys()


def test_changing_the_kwargs_of_a_combo_does_not_change_the_registry() -> None:
    implemented_combos["sac"]["pytorch"][2]["gamma"] = 0.1
    assert implemented_combos["sac"]["pytorch"][2]["gamma"] != 0.1


def test_implemented_combos_is_a_mapping_of_all_algorithms() -> None:
    assert list(implemented_combos) == ALGORITHMS
    assert len(implemented_combos) == len(ALGORITHMS)
    with pytest.raises(RegistryError, match="did you mean 'sac'"):
        implemented_combos["sacc"]
    assert implemented_combos.get("sacc") is None
    with pytest.raises(RegistryError, match="cannot be removed"):
        del implemented_combos["sac"]


@pytest.mark.parametrize(
    ("framework", "hint"),
    [("pytroch", "; did you mean 'pytorch'"), ("jaxx", "; did you mean 'jax'"), ("tensorflow", "")],
)
def test_another_framework_of_a_registration_is_refused(framework: str, hint: str) -> None:
    message = f"framework: '{framework}' .*allowed: pytorch, jax{re.escape(hint)}"
    with pytest.raises(RegistryError, match=message):
        implemented_combos["custom"] = {framework: [stable_baselines3.PPO, (), {}]}
    with pytest.raises(RegistryError, match=message):
        register_algorithm("custom", framework=framework)(stable_baselines3.PPO)
    assert "custom" not in registry("algorithm")


def test_unknown_framework_of_a_combo_is_refused_with_the_nearest_framework() -> None:
    with pytest.raises(UnknownNameError, match=r"framework: 'pytorchh' .*did you mean 'pytorch'") as error:
        implemented_combos["sac"]["pytorchh"]
    assert isinstance(error.value, KeyError)
    assert str(error.value).startswith("framework: ")  # not the repr, as of other KeyErrors
    assert "pytorchh" not in implemented_combos["sac"]
    assert implemented_combos["sac"].get("pytorchh") is None


def test_implemented_combos_is_printed_as_a_table() -> None:
    rows = repr(implemented_combos).splitlines()
    assert [row.split()[0] for row in rows] == ALGORITHMS
    assert any(row.startswith("sac ") and "pytorch, jax  soft actor-critic" in row for row in rows)
    assert repr(implemented_combos["sac"]).splitlines()[0] == "pytorch   mygym.algos.stable_baselines:SAC"


class Example(PPO):
    """An example algorithm."""


KWARGS = {"n_steps": 32, "batch_size": 16, "n_epochs": 1}


def register_by_decorator() -> None:
    register_algorithm("custom", policy="MultiInputPolicy", defaults=KWARGS)(Example)


def register_by_list() -> None:
    implemented_combos["custom"] = {"pytorch": [Example, ("MultiInputPolicy", "env"), KWARGS]}


def register_by_tuple() -> None:
    implemented_combos["custom"] = {"pytorch": (Example, ("MultiInputPolicy", "env"), KWARGS)}


def register_by_table() -> None:
    ppo = algorithm("ppo")
    defaults = {**ppo.defaults, **KWARGS}
    help = "An example algorithm."
    add_algorithm(Algorithm("custom", "pytorch", Example, defaults=defaults, run_defaults=ppo.run_defaults, help=help))


FORMS = [register_by_decorator, register_by_list, register_by_tuple, register_by_table]


@pytest.mark.parametrize("register", FORMS)
def test_every_form_registers_the_same_algorithm(register, tmp_path: Path) -> None:
    register()
    kwargs = {**algorithm("ppo").defaults, **KWARGS}
    assert implemented_combos["custom"]["pytorch"] == (Example, ("MultiInputPolicy", "env"), kwargs)
    entry = algorithm("custom")
    assert (entry.help, entry.dict_observations, entry.goal_relabelling) == ("An example algorithm.", True, False)
    assert registry("algorithm").get("custom").help == "An example algorithm."
    result = mygym.train({"algo": "custom", "logdir": str(tmp_path), **SHORT})
    assert (result.status, result.algo, result.steps) == ("done", "custom", 64)


@pytest.mark.filterwarnings("ignore:You are trying to run")
@pytest.mark.parametrize(("algo", "framework"), slow_except(COMBOS, lambda combo: combo[1] == "pytorch"))
def test_a_combo_constructs_with_an_environment(algo: str, framework: str) -> None:
    AlgoClass, args, kwargs = implemented_combos[algo][framework]  # noqa: N806
    entry = algorithm(algo, framework)
    flat = not entry.dict_observations
    env = gymnasium.make(env_id("reach"), actions=entry.run_defaults.get("actions"))
    model = AlgoClass(*with_env(args, FlattenObservation(env) if flat else env), **kwargs)
    try:
        action, _ = model.predict(model.get_env().reset())
        assert action.shape == (1, *env.action_space.shape)
    finally:
        env.close()


def test_goal_relabelling_follows_from_the_signature() -> None:
    register_algorithm("replays")(stable_baselines3.SAC)
    assert algorithm("replays").goal_relabelling
    register_algorithm("does_not")(stable_baselines3.A2C)
    assert not algorithm("does_not").goal_relabelling


def test_a_second_framework_is_added_to_the_first() -> None:
    register_algorithm("custom", "pytorch")(Example)
    register_algorithm("custom", "jax")(Example)
    assert set(implemented_combos["custom"]) == {"pytorch", "jax"}


def test_a_cell_of_a_notebook_may_register_a_name_again() -> None:
    for cell in (1, 2):
        code = "implemented_combos['typed'] = {'pytorch': [Example, ('MlpPolicy', 'env'), {'gamma': 1 / cell}]}"
        exec(compile(code, f"<ipython-input-{cell}>", "exec"), {**globals(), "cell": cell})
    assert implemented_combos["typed"]["pytorch"][2]["gamma"] == 0.5
    with pytest.raises(RegistryError, match="registered twice"):
        register_algorithm("typed", "pytorch")(Example)


def test_registering_a_framework_twice_is_refused() -> None:
    register_algorithm("custom", "pytorch")(Example)
    with pytest.raises(RegistryError, match="registered twice"):
        register_algorithm("custom", "pytorch")(Example)
    register_algorithm("custom", "pytorch", defaults=KWARGS, override=True)(Example)
    assert implemented_combos["custom"]["pytorch"][2] == {**algorithm("ppo").defaults, **KWARGS}


def test_built_in_names_are_refused_in_both_forms() -> None:
    with pytest.raises(RegistryError, match="registered twice"):
        register_algorithm("sac")(Example)
    with pytest.raises(RegistryError, match="registered twice"):
        implemented_combos["sac"] = {"pytorch": [Example, ("MultiInputPolicy", "env"), {}]}
    assert issubclass(implemented_combos["sac"]["pytorch"][0], stable_baselines3.SAC)


@pytest.mark.parametrize(
    "combo", [[Example], [Example, ()], ["Mine", (), {}], [Example, (), {}, 1], 7, [Example, "env", {}]]
)
def test_malformed_combos_are_refused(combo: object) -> None:
    with pytest.raises(RegistryError, match="is not"):
        implemented_combos["custom"] = {"pytorch": combo}
    assert "custom" not in registry("algorithm")


def test_unknown_framework_of_an_algorithm_is_refused_with_the_nearest_framework() -> None:
    with pytest.raises(RegistryError, match="did you mean 'pytorch'"):
        algorithm("sac", "pytorchh")


def test_an_algorithm_whose_constructor_fails_is_a_config_error(tmp_path: Path) -> None:
    class Broken(BaseAlgorithm):
        def __init__(self, policy, env, must_be_given):
            raise NotImplementedError

    implemented_combos["broken"] = {"pytorch": [Broken, ("MultiInputPolicy", "env"), {}]}
    with pytest.raises(ConfigError, match="Broken"):
        mygym.train({"algo": "broken", "logdir": str(tmp_path), **SHORT})
    assert list(tmp_path.iterdir()) == []


# refused algorithms -----------------------------------------------------------------------------------------


def refused(config: dict[str, Any], tmp_path: Path) -> str:
    with pytest.raises(ConfigError) as error:
        mygym.train({"logdir": str(tmp_path / "runs"), **SHORT, **config})
    assert not (tmp_path / "runs").exists()
    return str(error.value)


def test_a_class_that_is_no_algorithm_is_refused_with_its_origin(tmp_path: Path) -> None:
    class NoAlgorithm:
        """Learns nothing."""

        def learn(self) -> None: ...

    register_algorithm("custom")(NoAlgorithm)
    message = refused({"algo": "custom"}, tmp_path)
    assert "NoAlgorithm" in message
    assert f"{__file__}:" in message
    assert "Stable-Baselines3 algorithm or of Runner" in message


def as_keywords(self, total_timesteps, **options): ...
def more_defaults(self, total_timesteps, callback=None, tries=3, *, log=None): ...
def anything(self, *args, **kwargs): ...
@classmethod
def loads(cls, path, env=None, **kwargs): ...


@pytest.mark.parametrize(
    ("base", "name", "method", "call"),
    [
        (PPO, "learn", lambda self, total_timesteps: None, "learn(self, total_timesteps, callback)"),
        (PPO, "learn", as_keywords, "learn(self, total_timesteps, callback)"),
        (PPO, "learn", more_defaults, ""),
        (PPO, "learn", anything, ""),
        (PPO, "learn", wraps(as_keywords)(anything), ""),
        (PPO, "train", lambda self, epochs: None, "train(self)"),
        (PPO, "train", lambda self, epochs=3: None, ""),
        (SAC, "train", lambda self, gradient_steps: None, "train(self, gradient_steps, batch_size)"),
        (SAC, "train", lambda self, batch_size=1, gradient_steps=1, more=2: None, ""),
        (SAC, "predict", lambda self, observation, deterministic: None, "predict(self, observation, state, "),
        (SAC, "save", lambda self: None, "save(self, path)"),
        (SAC, "load", classmethod(lambda cls, path: None), "load(self, path, env, device)"),
        (SAC, "load", loads, ""),
        (Runner, "setup", lambda self, loop: None, "setup(self)"),
    ],
)
def test_methods_that_cannot_be_called_are_refused_with_their_line(
    base: type, name: str, method: Any, call: str
) -> None:
    cls = type("Custom", (base,), {name: method})
    if not call:
        register_algorithm("custom")(cls)
        return
    with pytest.raises(RegistryError) as error:
        register_algorithm("custom")(cls)
    assert f"allowed: {call}" in str(error.value)
    assert re.search(rf"Custom \({__file__}:\d+\)", str(error.value))


def test_a_search_space_has_only_parameters_of_the_class() -> None:
    with pytest.raises(RegistryError, match=r"search_space: 'gama' is not a parameter of Example .*'gamma'"):
        register_algorithm("custom", search_space={"gama": {"choice": [0.9, 0.99]}})(Example)


def test_train_may_take_what_the_own_learn_passes() -> None:
    register_algorithm("custom")(type("Custom", (PPO,), {"learn": anything, "train": lambda self, epochs: None}))


def test_only_classes_are_registered_as_algorithms() -> None:
    with pytest.raises(RegistryError, match=rf"decorates <lambda>\(\) \({__file__}:\d+\); allowed: a class$"):
        register_algorithm("custom")(lambda: None)  # type: ignore[type-var]


def test_a_parameter_without_annotation_and_default_is_refused_with_file_and_line(tmp_path: Path) -> None:
    class Unannotated(PPO):
        def __init__(self, policy, env, temperature, **kwargs):
            super().__init__(policy, env, **kwargs)

    register_algorithm("custom")(Unannotated)
    message = refused({"algo": "custom"}, tmp_path)
    assert re.match(rf"{__file__}:\d+: Unannotated: parameter 'temperature' has neither a type annotation", message)


def test_required_parameters_must_be_given_and_are_checked(tmp_path: Path) -> None:
    class Warm(PPO):
        def __init__(self, policy: str, env: object, temperature: float, **kwargs: Any) -> None:
            super().__init__(policy, env, **kwargs)  # type: ignore[arg-type]

    register_algorithm("custom", defaults=KWARGS)(Warm)
    assert "--set algo_params.temperature=" in refused({"algo": "custom"}, tmp_path)
    assert "has the wrong type" in refused({"algo": "custom", "algo_params": {"temperature": "hot"}}, tmp_path)
    result = mygym.train({"logdir": str(tmp_path), "algo": "custom", "algo_params": {"temperature": 1.5}, **SHORT})
    assert load_file(result.path / "config.yaml")["algo_params"]["temperature"] == 1.5


@pytest.mark.parametrize(
    ("defaults", "words"),
    [
        ({"n_stepz": 32}, "did you mean 'n_steps'"),
        ({"n_steps": "many"}, "a whole number"),
        ({"policy_kwargs": {"net_arhc": [8]}}, "did you mean 'net_arch'"),
    ],
)
def test_defaults_that_the_class_does_not_take_are_refused(
    defaults: dict[str, Any], words: str, tmp_path: Path
) -> None:
    register_algorithm("custom", defaults=defaults)(Example)
    message = refused({"algo": "custom"}, tmp_path)
    assert message.startswith(f"{__file__}:")
    assert words in message


def test_requirements_on_the_environment_are_checked(tmp_path: Path) -> None:
    register_algorithm("custom", requires=["discrete_actions"])(Example)
    message = refused({"algo": "custom"}, tmp_path)
    assert message.startswith("algo: 'custom' requires discrete actions")
    assert "its actions 3 numbers" in message
    register_algorithm("other", requires=["goal_observations"], policy="MlpPolicy", dict_observations=False)(Example)
    assert "requires goal observations" in refused({"algo": "other"}, tmp_path)
    register_algorithm("third", requires=["goal_observation"])(Example)
    assert "did you mean 'goal_observations'" in refused({"algo": "third"}, tmp_path)
    register_algorithm("fourth", requires=["goal_observations", "continuous_actions"], defaults=KWARGS)(Example)
    assert mygym.train({"algo": "fourth", "logdir": str(tmp_path), **SHORT}).status == "done"


def test_a_discrete_algorithm_without_requirements_is_a_config_error(tmp_path: Path) -> None:
    register_algorithm("custom", inherit=False)(stable_baselines3.DQN)
    assert "DQN refuses its arguments" in refused({"algo": "custom", "her": False}, tmp_path)


def test_an_environment_object_is_replaced_by_that_of_the_run(tmp_path: Path) -> None:
    with mygym.make_env({"reward": "dense"}) as env:
        implemented_combos["custom"] = {"pytorch": [Example, ("MultiInputPolicy", env), KWARGS]}
        assert implemented_combos["custom"]["pytorch"][1][1] is env
        result = mygym.train({"algo": "custom", "logdir": str(tmp_path), **SHORT})
        assert (result.status, result.steps) == ("done", 64)
        message = refused({"algo": "custom", "task": "push"}, tmp_path)
        assert "replaces the run's environment, which has another observation_space" in message
        assert __file__ in message


class Extractor(CombinedExtractor):
    """An example features extractor."""


def test_classes_and_functions_in_kwargs_are_kept_and_shown_by_name(tmp_path: Path) -> None:
    policy_kwargs = {"activation_fn": nn.ELU, "features_extractor_class": Extractor, "net_arch": [8]}
    kwargs = {**KWARGS, "policy_kwargs": policy_kwargs, "learning_rate": ConstantSchedule(1e-3)}
    implemented_combos["custom"] = {"pytorch": [Example, (MyPolicy, "env"), kwargs | {"vf_coef": 0.4}]}
    with pytest.raises(ConfigError, match="MyPolicy"):
        mygym.train({"algo": "custom", "algo_params": {"policy": "MyPolice"}})
    result = mygym.train({"algo": "custom", "logdir": str(tmp_path), **SHORT})
    config = load_file(result.path / "config.yaml")
    params = config["algo_params"]
    shown = ("elu", "Extractor", "MyPolicy", "ConstantSchedule(…)", 0.4)
    inner = params["policy_kwargs"]
    named = (inner["activation_fn"], inner["features_extractor_class"], params["policy"], params["learning_rate"])
    assert (*named, params["vf_coef"]) == shown
    policy = mygym.load(result.path).model.policy
    assert isinstance(policy, MyPolicy)
    assert isinstance(policy.features_extractor, Extractor)
    assert any(isinstance(module, nn.ELU) for module in policy.modules())
    again = mygym.train({**config, "logdir": str(tmp_path)})
    assert again.config_hash == result.config_hash
    assert (again.path / "policy.safetensors").read_bytes() == (result.path / "policy.safetensors").read_bytes()


class MyPolicy(MultiInputActorCriticPolicy):
    """An example policy."""


def test_components_of_networks_are_registered_and_chosen_by_name(tmp_path: Path) -> None:
    @register_activation("bump")
    class Bump(nn.Module):
        """exp(−x²)."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(-x * x)

    register_features_extractor("custom")(Extractor)
    register_policy("custom")(MyPolicy)
    register_optimizer("slow")(torch.optim.SGD)
    named = {"activation_fn": "bump", "features_extractor_class": "custom", "optimizer_class": "slow"}
    params = {**KWARGS, "policy": "custom", "policy_kwargs": named}
    result = mygym.train({"algo": "ppo", "logdir": str(tmp_path), "algo_params": params, **SHORT})
    policy = mygym.load(result.path).model.policy
    assert isinstance(policy, MyPolicy)
    assert isinstance(policy.features_extractor, Extractor)
    assert isinstance(policy.optimizer, torch.optim.SGD)
    assert any(isinstance(module, Bump) for module in policy.modules())
    assert registry("activation").get("bump").help == "exp(−x²)."
    with pytest.raises(RegistryError, match="registered twice"):
        register_activation("relu")(Bump)


# imports ------------------------------------------------------------------------------------------------------------

HEAVY = ("torch", "pybullet", "stable_baselines3", "sb3_contrib", "matplotlib", "tensorboard", "jax", "sbx")


def test_light_commands_import_no_heavy_package(python) -> None:
    """One process for all commands: each may import no more than the others together."""
    code = f"""
import atexit, sys
import mygym, gymnasium
from mygym.cli.main import main

def report(after):
    print("imported after", after, [name for name in {HEAVY} if name in sys.modules])

report("import mygym")
assert "mygym/Reach-v0" in gymnasium.registry
for line in ("--help", "train --help", "evaluate --help", "list", "list algorithm --json"):
    try:
        main(line.split())
    except SystemExit as end:
        assert not end.code, line
    report(line)
atexit.register(report, "all")
"""
    done = python("-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr
    reports = [line for line in done.stdout.splitlines() if line.startswith("imported after")]
    assert [line for line in reports if not line.endswith("[]")] == []
    assert len(reports) == 7


def test_kwargs_are_copied_deeply() -> None:
    """SB3's DDPG writes `n_critics` into the `policy_kwargs` that it gets."""
    implemented_combos["ddpg"]["pytorch"][2]["policy_kwargs"]["n_critics"] = 7
    assert "n_critics" not in implemented_combos["ddpg"]["pytorch"][2]["policy_kwargs"]


def test_frameworks_cannot_be_assigned() -> None:
    with pytest.raises(TypeError):
        implemented_combos["sac"]["custom"] = ()  # type: ignore[index]


def test_combos_contain_known_names_only() -> None:
    assert "foo" not in implemented_combos
    assert "sac" in implemented_combos
