"""The complete config of a run: precedence, combinations, and an unchanged result when it is resolved again."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3 import PPO, SAC, HerReplayBuffer
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from mygym.cli.main import run as command
from mygym.config import RunConfig, config_hash, load_file
from mygym.errors import ConfigError, MygymError
from mygym.nested import at
from mygym.planning.resolve import from_python, resolve_config
from mygym.registry import algorithm, entries, register_algorithm, registry
from mygym.tasks.lookup import find_task
from mygym.tasks.task import register_task
from mygym.training import env_factory, model_factory
from mygym.training.files import write_yaml
from tests.components import ALGORITHMS, COMBOS, CONTROLS, TASKS, slow_except
from tests.training.runners import Climber

EACH_ONCE = [
    (ALGORITHMS[number % len(ALGORITHMS)], TASKS[number % len(TASKS)])
    for number in range(max(len(ALGORITHMS), len(TASKS)))
]
"""Pairs that contain every algorithm and every task."""


def test_later_layers_win() -> None:
    """Schema < algorithm < task < file < flag."""
    register_task("brief", ("approach", "push"), run_defaults={"steps": 9_000})
    layered = [
        resolve_config({}, {"algo": "td3"}),
        resolve_config({}, {"algo": "sac"}),
        resolve_config({}, {"algo": "sac", "task": "brief"}),
        resolve_config({"steps": 7}, {"algo": "sac", "task": "brief"}),
        resolve_config({"steps": 7}, {"algo": "sac", "task": "brief", "steps": 8}),
    ]
    decided = [(resolved.config.steps, resolved.origins["steps"]) for resolved in layered]
    sac = algorithm("sac").run_defaults["steps"]
    assert decided[1:] == [(sac, "algorithm sac"), (9_000, "task brief"), (7, "file"), (8, "flag")]
    td3 = algorithm("td3").run_defaults.get("steps")
    expected = (RunConfig().steps, "default") if td3 is None else (td3, "algorithm td3")
    assert decided[0] == expected


def test_an_algorithm_that_needs_no_rewards_has_a_separate_budget() -> None:
    """The budget of a task is for learning from rewards; the user's values still win."""
    register_task("brief", ("approach", "push"), run_defaults={"steps": 9_000})
    resolved = resolve_config({}, {"algo": "dagger", "task": "brief", "eval": {"every": 7}})
    declared = algorithm("dagger").run_defaults
    assert resolved.config.steps == declared["steps"] == 20_000
    assert (resolved.config.eval.every, resolved.config.eval.episodes) == (7, declared["eval"]["episodes"])


def test_explained_values_have_origins() -> None:
    resolved = resolve_config(
        {"robot": "kuka", "algo_params": {"tau": 0.01}}, {"seed": 3, "algo_params": {"gamma": 0.9}}
    )
    origins = resolved.origins
    assert origins["robot"] == "file"
    assert origins["seed"] == "flag"
    assert origins["logdir"] == "default"
    assert origins["task_params.horizon"] == "task reach"
    assert origins["algo_params.tau"] == "file"
    assert origins["algo_params.gamma"] == "flag"
    assert origins["algo_params.batch_size"] == "algorithm sac"
    assert origins["algo_params.target_update_interval"] == "class SAC"
    assert origins["her"] == "derived"
    assert origins["workspace"] == "derived"
    assert origins["control"] == "default"


@pytest.mark.parametrize(("algo", "task"), slow_except(itertools.product(ALGORITHMS, TASKS), EACH_ONCE.__contains__))
def test_every_value_is_set_and_the_config_resolves_to_itself(algo: str, task: str, tmp_path: Path) -> None:
    resolved = resolve_config({}, {"algo": algo, "task": task})
    values = resolved.values()
    assert values["her"] is not None
    assert None not in [values["task_params"][key] for key in ("tolerance", "hold", "horizon", "object")]
    assert values["workspace"] == find_task(task).workspace
    write_yaml(tmp_path / "config.yaml", values)
    again = resolve_config(load_file(tmp_path / "config.yaml"))
    assert again.values() == values
    assert config_hash(again.values()) == config_hash(values)
    assert from_python(resolved.config).values() == values
    assert from_python(values).values() == values


@pytest.mark.parametrize(
    ("file", "flags", "times"),
    [
        ({}, {}, 2),
        ({"task": "push", "algo": "ppo"}, {}, 2),
        ({"task": "push", "algo": "ppo"}, {"seed": 3}, 3),
        ({}, {"task": "pick_and_place", "her": True, "algo": "sac"}, 2),
        ({}, {"strategy": "demos"}, 2),
    ],
)
def test_the_user_s_values_and_the_complete_config_are_validated_once(
    file: dict[str, Any], flags: dict[str, Any], times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file alone as well if a flag may hide a mistake in it."""
    validated: list[Any] = []
    validate = RunConfig.model_validate
    monkeypatch.setattr(RunConfig, "model_validate", lambda values: validated.append(values) or validate(values))
    resolve_config(file, flags)
    assert len(validated) == times


@pytest.mark.parametrize("control", CONTROLS)
def test_an_alias_and_its_name_are_the_same_setting(control: str) -> None:
    aliases = {"ee_delta": "step", "joint_position": "joints"}
    same = [resolve_config(overrides={"control": name}).values() for name in (control, aliases.get(control, control))]
    assert config_hash(same[0]) == config_hash(same[1])
    assert same[1]["control"] == control


def test_setting_a_default_value_changes_nothing() -> None:
    values = resolve_config(overrides={"robot": "panda", "workspace": "table", "her": True, "task_params": {"hold": 3}})
    assert config_hash(values.values()) == config_hash(resolve_config().values())


def test_the_hash_of_a_run_ignores_seed_logdir_and_evaluation() -> None:
    same = {"seed": 9, "logdir": "elsewhere", "eval": {"every": 3}, "video": {"episodes": 0}, "tensorboard": False}
    assert config_hash(resolve_config(overrides=same).values()) == config_hash(resolve_config().values())
    for other in ({"robot": "kuka"}, {"algo_params": {"tau": 0.01}}, {"n_envs": 3}, {"stop_at_success": None}):
        assert config_hash(resolve_config(overrides=other).values()) != config_hash(resolve_config().values())


def test_on_policy_algorithms_and_xqc_are_rewarded_for_all_stages() -> None:
    for algo, framework in COMBOS:
        run = {"algo": algo, "framework": framework}
        single, several = (resolve_config(overrides={**run, "task": task}) for task in ("reach", "push"))
        is_rewarded = issubclass(algorithm(algo, framework).combo()[0], OnPolicyAlgorithm) or algo in (
            "ppo_runner",
            "xqc",
        )
        assert single.config.reward != "shaped"
        assert (several.config.reward == "shaped") == is_rewarded
        assert not is_rewarded or several.origins["reward"].endswith(", for several stages")
        assert resolve_config(overrides={**run, "task": "push", "reward": "dense"}).config.reward == "dense"


# hindsight ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algo", "reward", "her"),
    [
        ("sac", "sparse", True),
        ("ddqn", "sparse", True),
        ("sac", "dense", False),
        ("sac", "staged", False),
        ("ppo", "sparse", False),
        ("ppo_runner", "sparse", False),
        ("bc", "sparse", False),
    ],
)
def test_hindsight_is_on_by_default_where_it_applies(algo: str, reward: str, her: bool) -> None:
    assert resolve_config(overrides={"algo": algo, "reward": reward}).config.her == her


@pytest.mark.parametrize(
    ("values", "telling"),
    [
        ({"task": "push", "observations": ["ee_position", "goal_from_object"]}, "goal_from_object"),
        ({"task": "AGTDW"}, "waypoint"),  # along a path, which the observation tells
    ],
)
def test_hindsight_is_off_if_observations_contain_the_goal(values: dict[str, Any], telling: str) -> None:
    assert resolve_config(overrides={"algo": "sac", **values}).config.her is False
    with pytest.raises(ConfigError, match=f"her: True cannot relabel {telling}"):
        resolve_config(overrides={"algo": "sac", "her": True, **values})


def test_a_registered_replay_buffer_is_not_replaced_by_hindsight() -> None:
    class CustomBuffer(DictReplayBuffer):
        pass

    class CustomHindsight(HerReplayBuffer):
        pass

    for name, buffer in (("own_buffer", CustomBuffer), ("own_hindsight", CustomHindsight)):
        register_algorithm(name, defaults={"replay_buffer_class": buffer})(type(name, (SAC,), {}))
        resolved = resolve_config(overrides={"algo": name, "n_envs": 1})
        assert resolved.config.her is (buffer is CustomHindsight)
        with contextlib.closing(env_factory.make_vec_env(resolved.config)) as env:
            assert type(model_factory.build_model(resolved.config, env).replay_buffer) is buffer
        assert model_factory.explained(resolved).config.algo_params["replay_buffer_class"] == buffer.__qualname__
    with pytest.raises(ConfigError, match=r"her: True .*CustomBuffer.*own_buffer"):
        resolve_config(overrides={"algo": "own_buffer", "her": True})


@pytest.mark.parametrize("more", [{}, {"framework": "pytorch"}, {"framework": "jax"}], ids=str)
@pytest.mark.parametrize("task", ["push", "AGM", "AGMDW"])
def test_a_task_of_several_stages_alone_chooses_an_algorithm_that_learns_it(task: str, more: dict[str, str]) -> None:
    resolved = resolve_config(overrides={"task": task, **more})
    config = resolved.config
    assert (config.algo, config.reward, config.n_envs) == ("ppo", "shaped", 32)
    assert resolved.origins["algo"] == "tasks of several stages"
    assert config.algo_params["policy_kwargs"]["net_arch"] == [128, 128]
    assert task == "push" or config.task_params.starts == {"in_hand": 0.3}
    assert resolve_config(overrides={"task": "reach", **more}).config.algo == "sac"


def test_the_algorithm_that_learns_a_task_is_chosen_where_it_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"task": "build_tower"}
    best = resolve_config(overrides=config)
    assert (best.config.algo, best.config.framework) == ("xqc", "jax")
    assert best.origins["algo"] == "task build_tower"
    in_pytorch = resolve_config(overrides={**config, "framework": "pytorch"})
    assert (in_pytorch.config.algo, in_pytorch.config.framework) == ("ppo", "pytorch")
    assert in_pytorch.origins["algo"] == "tasks of several stages; xqc, the best, needs jax"
    shared = resolve_config(overrides={**config, "learners": 2})
    assert (shared.config.algo, shared.origins["algo"]) == (
        "ppo",
        "tasks of several stages; xqc, the best, needs one learner",
    )
    images = resolve_config(overrides={"task": "press", "observations": ["ee_position", "image"]})
    assert (images.config.algo, images.origins["algo"]) == (
        "ppo",
        "tasks of several stages; xqc, the best, needs observations without images",
    )
    monkeypatch.setattr(entries, "is_installed", {"jax": False}.get)
    without_jax = resolve_config(overrides=config)
    assert without_jax.config == in_pytorch.config
    assert without_jax.origins["algo"] == "tasks of several stages; xqc, the best, needs mygym[jax]"
    second = resolve_config(overrides={"task": "hit_board"})
    assert (second.config.algo, second.origins["algo"]) == ("sac", "task hit_board; xqc, the best, needs mygym[jax]")


@pytest.mark.parametrize("task", sorted(algorithm("sac").task_defaults))
def test_sac_has_values_for_tasks_that_it_learns_from_the_progress_of_stages(task: str) -> None:
    for framework in ["pytorch", "jax"]:
        chosen = {"task": task, "framework": framework, "algo": "sac"}
        resolved = resolve_config(overrides=chosen)
        assert (resolved.config.reward, resolved.config.her) == ("shaped", False)
        assert resolved.config.task_params.starts is not None
        assert resolved.config.task_params.starts["along_expert"] == 0.5
        assert resolved.origins["algo_params.gradient_steps"] == f"algorithm sac, for task {task}"
        if any(stage.waypoint is not None for stage in find_task(task).sequence.stages):  # it is observed
            with pytest.raises(ConfigError, match=r"^her: True"):
                resolve_config(overrides={**chosen, "her": True})
            continue
        hindsight = resolve_config(overrides={**chosen, "her": True}).config
        assert (hindsight.her, hindsight.reward) == (True, "sparse"), "hindsight needs a reward of goals"
        assert hindsight.observations is None, "hindsight needs observations without the goal"


def test_a_task_may_choose_its_algorithm() -> None:
    register_task("scripted", ("approach", "push"), run_defaults={"algo": "dagger"})
    for task, algo in (("scripted", "dagger"), ("open_drawer", "xqc")):
        resolved = resolve_config(overrides={"task": task})
        assert (resolved.config.algo, resolved.origins["algo"]) == (algo, f"task {task}")
        assert resolve_config(overrides={"task": task, "algo": "ppo"}).config.algo == "ppo"
        assert resolve_config(overrides={"task": task, "reward": "sparse"}).config.algo == "sac", (
            "the default of the schema"
        )
        assert resolve_config(file={"task": task, "algo": "td3"}).config.algo == "td3"


@pytest.mark.parametrize(
    ("engine", "algo", "origin"),
    [
        ("pybullet", "td3", "task engines; xqc, the best, needs jax"),
        ("mujoco", "ppo", "task engines, in mujoco"),
        ("mujoco_10ms", "td3", "task engines; xqc, the best, needs jax"),
    ],
)
def test_a_task_may_choose_its_algorithm_by_engine(engine: str, algo: str, origin: str) -> None:
    preferred = {"algo": {"pybullet": ["xqc", "td3"], "mujoco": "ppo"}}
    register_task("engines", ("approach", "push"), run_defaults=preferred)
    resolved = resolve_config(overrides={"task": "engines", "engine": engine, "framework": "pytorch"})
    assert (resolved.config.algo, resolved.origins["algo"]) == (algo, origin)
    register_task("engines", ("approach", "push"), run_defaults={"algo": {"mujocco": "ppo"}}, override=True)
    with pytest.raises(MygymError, match=r"task engines: run_defaults\.algo: 'mujocco'.*'mujoco'"):
        resolve_config(overrides={"task": "engines", "engine": engine})


def test_an_algorithm_has_values_for_a_task_in_an_engine_above_those_of_the_task_and_of_the_engine() -> None:
    def resolved(task: str, engine: str, **user: Any) -> dict[str, Any]:
        config = resolve_config(overrides={"task": task, "engine": engine, "algo": "ppo", **user}).config
        params = config.algo_params
        values = {key: params[key] for key in ("n_steps", "batch_size")}
        return {"every": config.eval.every, **values, "activation": params["policy_kwargs"]["activation_fn"]}

    small = {"every": 25_000, "n_steps": 32, "batch_size": 256, "activation": "elu"}
    usual = {"every": 50_000, "n_steps": 32, "batch_size": 512, "activation": "tanh"}
    assert resolved("pick_and_place", "mujoco") == small
    assert resolved("push", "mujoco") == usual
    assert resolved("pick_and_place", "pybullet") == {**usual, "n_steps": 64}
    assert resolved("pick_and_place", "mujoco", algo_params={"batch_size": 128}) == {**small, "batch_size": 128}


@pytest.mark.parametrize("task", sorted(algorithm("ppo").task_defaults))
def test_an_algorithm_has_values_for_named_tasks_below_those_of_the_user(task: str) -> None:
    resolved = resolve_config(overrides={"task": task, "algo": "ppo"})
    preferred = algorithm("ppo").task_defaults[task]
    assert resolved.config.task_params.starts == {
        **({"in_hand": 0.3} if "in_hand" in find_task(task).start_stages else {}),
        **preferred["task_params"]["starts"],
    }
    assert resolved.config.control.params.get("step") == preferred.get("control", {}).get("step")
    assert resolved.origins["eval.every"] == f"algorithm ppo, for task {task}"
    assert resolve_config(overrides={"task": task, "control": "joint_delta"}).config.control.name == "joint_delta"
    assert resolve_config(overrides={"task": task, "control": {"step": 0.04}}).config.control.params["step"] == 0.04
    assert resolve_config(overrides={"task": task, "algo": "td3"}).config.control.params == {}


@pytest.mark.parametrize(
    "values",
    [{"reward": "sparse"}, {"her": True}, {"strategy": "curriculum"}, {"pretrained": "there"}, {"algo": "sac"}],
    ids=str,
)
def test_a_choice_of_how_to_learn_keeps_the_default_algorithm(values: dict[str, Any]) -> None:
    assert resolve_config(overrides={"task": "AG", **values}).config.algo == "sac"


@pytest.mark.parametrize("task", ["stack", "press"])
def test_hyperparameters_are_for_the_algorithm_of_the_task(task: str) -> None:
    algo = resolve_config(overrides={"task": task}).config.algo
    config = resolve_config(overrides={"task": task, "algo_params": {"learning_rate": 0.002}}).config
    assert (config.algo, config.algo_params["learning_rate"]) == (algo, 0.002)
    with pytest.raises(ConfigError, match=rf"^algo_params\.n_directions: .*algo: '{algo}'.*task"):
        resolve_config(overrides={"task": task, "algo_params": {"n_directions": 8}})


@pytest.mark.parametrize(
    ("preferred", "message"),
    [({"stps": 5}, r"^stps: .*'steps'"), ({"eval": {"evry": 3}}, r"^eval\.evry: .*'every'")],
    ids=str,
)
def test_a_mistake_in_preferred_values_is_refused_with_its_origin(preferred: dict[str, Any], message: str) -> None:
    register_task("tap", stages=["approach", "push"], run_defaults=preferred)
    register_algorithm("mine", run_defaults=preferred)(type("Mine", (PPO,), {}))
    for chosen, origin in ({"task": "tap"}, "task tap"), ({"algo": "mine"}, "algorithm mine"):
        with pytest.raises(ConfigError, match=message) as caught:
            resolve_config(overrides=chosen)
        assert origin in str(caught.value)


@pytest.mark.parametrize("reward", ["shaped", "timed", "staged"])
def test_a_reward_of_the_stages_keeps_the_algorithm_of_the_task(reward: str) -> None:
    for task in "set_table", "push", "open_drawer":
        config = resolve_config(overrides={"task": task, "reward": reward}).config
        assert (config.algo, config.reward) == (resolve_config(overrides={"task": task}).config.algo, reward)


def test_subclasses_inherit_values_for_several_stages_except_those_that_they_state() -> None:
    class MyPPO(PPO):
        def __init__(self, policy: Any, env: Any, n_epochs: int = 7, **kwargs: Any) -> None:
            super().__init__(policy, env, n_epochs=n_epochs, **kwargs)

    register_algorithm("my_ppo", defaults={"n_steps": 16, "policy_kwargs": {"log_std_init": -2.0}})(MyPPO)
    params = resolve_config(overrides={"task": "push", "algo": "my_ppo"}).config.algo_params
    assert (params["n_steps"], params["n_epochs"], params["batch_size"]) == (16, 7, 512)
    assert params["policy_kwargs"]["log_std_init"] == -2.0
    assert params["policy_kwargs"]["net_arch"] == [128, 128]


def test_a_default_minibatch_is_at_most_a_rollout() -> None:
    params = resolve_config(overrides={"task": "push", "n_envs": 2}).config.algo_params
    assert (params["n_steps"], params["batch_size"]) == (64, 128)
    asked = {"task": "push", "algo": "ppo", "n_envs": 2, "algo_params": {"batch_size": 256}}
    assert resolve_config(overrides=asked).config.algo_params["batch_size"] == 256


def test_hindsight_can_be_turned_off_and_on() -> None:
    assert resolve_config(overrides={"her": False}).config.her is False
    assert resolve_config(overrides={"her": True, "reward": "dense"}).config.her is True


def test_hindsight_learns_only_after_complete_episodes() -> None:
    config = resolve_config(overrides={"n_envs": 8, "task": "push", "algo": "sac"}).config
    assert config.algo_params["learning_starts"] > 8 * 100
    with pytest.raises(ConfigError, match=r"algo_params\.learning_starts: 10 .*at least 26"):
        resolve_config(overrides={"n_envs": 1, "algo_params": {"learning_starts": 10}})
    shorter = {"n_envs": 8, "task": "push", "algo": "sac", "task_params": {"training_horizon": 40}}
    assert resolve_config(overrides=shorter).config.algo_params["learning_starts"] == 8 * 40 + 1
    repeated = {"n_envs": 1, "control": {"action_repeat": 4}, "algo_params": {"learning_starts": 8}}
    assert resolve_config(overrides=repeated).config.algo_params["learning_starts"] == 8  # 25 control steps, 7 actions


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"her": True, "algo": "ppo"}, ["her", "ppo", "sac"]),
        ({"her": True, "algo": "crossq"}, ["her", "crossq", "sac"]),
        ({"her": True, "reward": "staged"}, ["her", "staged"]),
        ({"robot": "pandaa"}, ["robot", "'pandaa'", "kuka", "did you mean 'panda'"]),
        ({"algo": "sacc"}, ["algo", "'sacc'", "ppo", "did you mean 'sac'"]),
        ({"framework": "pytorhc"}, ["framework", "'pytorhc'", "did you mean 'pytorch'"]),
        ({"task": "raech"}, ["task", "'raech'", "did you mean 'reach'"]),
        ({"workspace": "tabel"}, ["workspace", "'tabel'", "did you mean 'table'"]),
        ({"observations": ["ee_positoin"]}, ["observations", "'ee_positoin'", "did you mean 'ee_position'"]),
        ({"spaces": "share"}, ["spaces", "'share'", "own", "did you mean 'shared'"]),
        ({"control": "ee_dleta"}, ["control", "'ee_dleta'", "did you mean 'ee_delta'"]),
        ({"task_params": {"object": "cuube"}}, ["object", "'cuube'", "did you mean 'cube'"]),
        ({"algo_params": {"learning_rat": 1}}, ["algo_params.learning_rat", "did you mean 'learning_rate'"]),
        ({"algo_params": {"gamma": 2}}, ["algo_params.gamma", "2", "at most 1"]),
        ({"robbot": "panda"}, ["robbot", "did you mean 'robot'"]),
    ],
)
def test_a_message_names_key_value_and_nearest(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        resolve_config(overrides=values)
    for word in words:
        assert word in str(error.value)
    with pytest.raises(ConfigError):
        from_python(values)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"pretrained": "trained"}, ("pretrained", "path")),
        ({"image_params": {"detector": "trained"}}, ("image_params", "detector")),
        ({"image_params": {"encoder": "trained"}}, ("image_params", "encoder")),
    ],
)
def test_a_file_of_a_trained_network_is_absolute(values: dict[str, Any], key: tuple[str, ...]) -> None:
    assert at(from_python(values).values(), key) == str(Path("trained").absolute())


# strict -------------------------------------------------------------------------------------------------------------


def test_strict_refuses_settings_that_are_left_to_a_default() -> None:
    with pytest.raises(ConfigError, match="strict") as error:
        resolve_config(overrides={"strict": True, "robot": "panda"})
    assert "eval.every" in str(error.value)
    assert "algo_params.gamma" in str(error.value)
    assert "robot" not in str(error.value).split("missing: ")[1].split(", ")


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"randomize": {"object_mass": 0.2}}, "randomize.object_mass"),
        ({"pretrained": "trained"}, "pretrained.path"),
        (
            {"strategy": "curriculum", "task": "AGM", "strategy_params": {"levels": "backward"}},
            "strategy_params.levels",
        ),
    ],
)
def test_strict_allows_a_value_that_is_written_out_in_another_form(values: dict[str, Any], key: str) -> None:
    assert resolve_config(overrides=values).origins[key] == "derived"
    with pytest.raises(ConfigError, match="strict") as error:
        resolve_config(overrides={**values, "strict": True})
    assert key not in str(error.value).split("missing: ")[1].split(", ")


OVERRIDDEN = [
    ({"steps": "many"}, {"steps": 200}, ["steps", "'many'", "whole number", "file"]),
    ({"eval": {"every": -1}}, {"eval": {"every": 100}}, ["eval.every", "-1", "file"]),
    ({"algo_params": {"gamma": 2}}, {"algo_params": {"gamma": 0.9}}, ["algo_params.gamma", "2", "at most 1"]),
    ({"algo_params": {"lr": 1}}, {"algo_params": {"gamma": 0.9}}, ["algo_params.lr", "learning_rate"]),
    (
        {"algo_params": {"learning_rate": {"schedule": "linear", "from": 1}}},
        {"algo_params": {"learning_rate": 1e-3}},
        ["algo_params.learning_rate.to", "missing"],
    ),
    (
        {"algo": "cem", "training_params": {"episodes": "few"}},
        {"training_params": {"episodes": 2}},
        ["training_params.episodes", "'few'"],
    ),
    (
        {"strategy": "multitask", "strategy_params": {"rate": "slow"}},
        {"strategy_params": {"rate": 0.5}},
        ["strategy_params.rate", "'slow'"],
    ),
]


@pytest.mark.parametrize(("file", "flags", "words"), OVERRIDDEN)
def test_a_flag_does_not_hide_an_invalid_value_of_the_file(
    file: dict[str, Any], flags: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as error:
        resolve_config(file, flags)
    for word in words:
        assert word in str(error.value)


def test_a_flag_may_change_one_value_of_a_section_in_the_file() -> None:
    file = {"algo": "ppo", "algo_params": {"learning_rate": {"schedule": "linear", "from": 1e-3, "to": 1e-4}}}
    flags = {"algo_params": {"learning_rate": {"to": 1e-5}}}
    scheduled = {"schedule": "linear", "from": 1e-3, "to": 1e-5}
    assert resolve_config(file, flags).config.algo_params["learning_rate"] == scheduled


def test_the_command_refuses_an_invalid_file_with_any_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("steps: many")
    with pytest.raises(SystemExit) as ended:
        command("train", ["--config", str(path), "--steps", "200", "--explain"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: steps: 'many'")


@pytest.mark.parametrize(
    ("algo", "params", "meant"),
    [
        ("ppo", {"lr": 1e-3}, "learning_rate"),
        ("ppo", {"LR": 1e-3}, "learning_rate"),
        ("sac", {"bs": 64}, "batch_size"),
        ("sac", {"polyak": 0.5}, "tau"),
        ("sac", {"replay_size": 100}, "buffer_size"),
        ("ppo", {"policy_kwargs": {"hidden_sizes": [64]}}, "net_arch"),
    ],
)
def test_a_hyperparameter_name_of_another_library_gets_a_hint(algo: str, params: dict[str, Any], meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
        resolve_config(overrides={"algo": algo, "algo_params": params})


def test_values_of_a_file_have_its_origin() -> None:
    assert set(resolve_config(resolve_config().values()).origins.values()) == {"file"}


def test_strict_allows_a_complete_config() -> None:
    complete = {**resolve_config().values(), "strict": True}
    assert resolve_config(complete).config.strict
    assert from_python(complete).config.strict


NAMES = {kind: [*registry(kind).names(), "nothing"] for kind in ("robot", "task", "workspace", "controller")}
MOSTLY_VALID = st.fixed_dictionaries(
    {},
    optional={
        "robot": st.sampled_from(NAMES["robot"]),
        "task": st.sampled_from(NAMES["task"]) | st.text("AGMDWX", max_size=5) | st.lists(st.text(max_size=3)),
        "workspace": st.sampled_from(NAMES["workspace"]) | st.none(),
        "control": st.sampled_from(NAMES["controller"]),
        "reward": st.sampled_from(["sparse", "dense", "staged", ""]),
        "algo": st.sampled_from([*ALGORITHMS, ""]),
        "her": st.booleans() | st.none(),
        "n_envs": st.integers(-1, 2000),
        "task_params": st.dictionaries(st.sampled_from(["hold", "horizon", "object", "tolerance"]), st.integers(0, 9)),
        "algo_params": st.dictionaries(st.sampled_from(["gamma", "learning_starts", "n_steps"]), st.integers(-1, 90)),
    },
)


@given(file=MOSTLY_VALID, values=MOSTLY_VALID)
def test_any_values_are_resolved_or_refused(file: dict[str, Any], values: dict[str, Any]) -> None:
    with contextlib.suppress(ConfigError):
        resolved = resolve_config(file, values)
        assert resolve_config(resolved.values()).values() == resolved.values()
        for key, value in {**file, **values}.items():
            if not isinstance(value, dict) and value is not None:
                assert resolved.values()[key] == value


def test_values_of_other_libraries_become_plain_data() -> None:
    config = {
        "steps": np.int64(4000),
        "logdir": Path("runs") / "mine",
        "normalize": np.bool_(True),
        "observations": ("ee_position", "ee_velocity"),
        "task_params": {"areas": {"goal": {"low": np.array([-0.1, -0.1, 0.1])}}},
        "algo_params": {
            "gamma": np.float64(0.9),
            "policy_kwargs": {
                "net_arch": (16, 16),
                "activation_fn": torch.nn.Tanh,
                "optimizer_class": torch.optim.Adam,
            },
        },
    }
    plain = {
        "steps": 4000,
        "logdir": "runs/mine",
        "normalize": True,
        "observations": ["ee_position", "ee_velocity"],
        "task_params": {"areas": {"goal": {"low": [-0.1, -0.1, 0.1]}}},
        "algo_params": {
            "gamma": 0.9,
            "policy_kwargs": {"net_arch": [16, 16], "activation_fn": "tanh", "optimizer_class": "adam"},
        },
    }
    assert from_python(config).config == from_python(plain).config


def test_a_class_without_a_name_is_refused_with_the_list_of_names() -> None:
    config = {"algo_params": {"policy_kwargs": {"activation_fn": torch.nn.Bilinear}}}
    with pytest.raises(ConfigError, match=r"algo_params\.policy_kwargs\.activation_fn: 'Bilinear'.*list activation"):
        from_python(config)


@pytest.mark.parametrize("config", ["push", 5, [("task", "push")], RunConfig], ids=str)
def test_a_config_is_a_mapping(config: Any) -> None:
    with pytest.raises(ConfigError, match=r"config: .*\{'task': 'push'\}"):
        from_python(config)


def test_a_config_that_contains_itself_is_refused() -> None:
    config: dict[str, Any] = {"task": "reach"}
    config["algo_params"] = config
    with pytest.raises(ConfigError, match="nested more than 32 deep"):
        from_python(config)


# values that a flag hides ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "flags"),
    [
        ({"robot": "pandaa"}, {"robot": "panda"}),
        ({"task": "raech"}, {"task": "push"}),
        ({"task": "GA"}, {"task": "push"}),
        ({"algo": "sacc"}, {"algo": "sac"}),
        ({"framework": "pytorhc"}, {"framework": "pytorch"}),
        ({"workspace": "tabel"}, {"workspace": "table"}),
        ({"control": "ee_dleta"}, {"control": "ee_delta"}),
        ({"reward": "spares"}, {"reward": "dense"}),
        ({"strategy": "curiculum"}, {"strategy": "standard"}),
        ({"observations": ["ee_positoin"]}, {"observations": None}),
        ({"callbacks": ["wandbb"]}, {"callbacks": []}),
        ({"randomize": {"object_masss": True}}, {"randomize": {}}),
        ({"randomize": {"object_mass": [2, 1]}}, {"randomize": {"object_mass": [1, 2]}}),
        ({"task_params": {"object": "cuube"}}, {"task": "push", "task_params": {"object": "cube"}}),
        (
            {"task_params": {"objects": {"base": "cuube"}}},
            {"task": "stack", "task_params": {"objects": {"base": "die"}}},
        ),
        ({"task_params": {"distractors": ["cuube"]}}, {"task_params": {"distractors": []}}),
    ],
    ids=str,
)
def test_a_flag_does_not_hide_an_unknown_name_in_the_file(file: dict[str, Any], flags: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"^{next(iter(file))}.* \(in the config file\)$"):
        resolve_config(file, flags)
    resolve_config({"seed": 1}, flags)


@pytest.mark.parametrize(
    ("algo", "section", "wrong"),
    [("ppo", "algo_params", {"n_steps": "many"}), ("climber", "training_params", {"length": "long"})],
)
def test_a_message_names_the_file_only_for_a_value_that_a_flag_hides(
    algo: str, section: str, wrong: dict[str, Any]
) -> None:
    register_algorithm("climber")(Climber)
    right = {section: dict.fromkeys(wrong, 8)}
    with pytest.raises(ConfigError, match=rf"^{section}\.\w+: .* \(in the config file\)$"):
        resolve_config({"algo": algo, section: wrong}, right)
    for file, flags in (({"algo": algo}, {section: wrong}), ({"algo": algo, section: wrong}, {})):
        with pytest.raises(ConfigError, match=rf"^{section}\.\w+: (?!.*config file)"):
            resolve_config(file, flags)


@pytest.mark.parametrize(
    ("file", "flags"),
    [({"algo": "ppo", "her": True}, {"algo": "sac"}), ({"algo": "a2c", "framework": "jax"}, {"framework": "pytorch"})],
    ids=str,
)
def test_a_flag_may_complete_a_file_that_is_not_valid_alone(file: dict[str, Any], flags: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        resolve_config(file)
    resolve_config(file, flags)
