"""Files of RL Zoo: recognised, converted, refused; keys without a meaning here are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mygym.cli.main import main
from mygym.config import load_file
from mygym.config.toolkit import Conversion
from mygym.config.zoo import convert, recognises
from mygym.errors import ConfigError
from mygym.planning.resolve import resolve_config
from tests.conftest import ROOT

FILE = """
PandaReach-v1: &small
  n_timesteps: !!float 3e4
  policy: 'MultiInputPolicy'
  buffer_size: !!float 2e5
  ent_coef: 'auto'
  learning_rate: lin_3e-3
  learning_starts: 500
  normalize: True
  replay_buffer_class: HerReplayBuffer
  replay_buffer_kwargs: "dict(
    goal_selection_strategy='final',
    online_sampling=True,
    n_sampled_goal=3
  )"
  policy_kwargs: "dict(net_arch=[32, 32], n_critics=3, activation_fn=nn.ELU)"

PandaPush-v1:
  <<: *small
  n_timesteps: 70000
  n_envs: 2
  learning_starts: 20
  train_freq: [1, "step"]
  normalize: "{'norm_obs': False, 'norm_reward': True, 'clip_obs': 5.0}"
  env_wrapper:
    - sb3_contrib.common.wrappers.TimeFeatureWrapper
  callback:
    - rl_zoo3.callbacks.ParallelTrainCallback
  frame_stack: 4
  warmth: 3

CartPole-v1:
  n_timesteps: 100
  policy: 'MlpPolicy'
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tqc.yml"
    path.write_text(FILE)
    return path


@pytest.fixture
def data(file: Path) -> dict[str, Any]:
    return load_file(file)


def entry(env_id: str, algo: str, **values: Any) -> Conversion:
    return convert({env_id: {"n_timesteps": 1000, **values}}, f"{algo}.yml", env_id)


def test_an_entry_becomes_a_config(data: dict[str, Any]) -> None:
    conversion = convert(data, "tqc.yml", "PandaReach-v3")
    params = conversion.config["algo_params"]
    expected = {
        "robot": "panda",
        "task": "reach",
        "control": "ee_delta",
        "reward": "sparse",
        "algo": "tqc",
        "her": True,
    }
    expected |= {"steps": 30_000, "n_envs": 1, "normalize": True, "stop_at_success": None}
    assert {key: conversion.config[key] for key in expected} == expected
    assert params["learning_rate"] == {"schedule": "linear", "from": 3e-3, "to": 0.0}
    assert params["replay_buffer_kwargs"] == {"goal_selection_strategy": "final", "n_sampled_goal": 3}
    assert (params["policy_kwargs"]["net_arch"], params["policy_kwargs"]["n_critics"]) == ([32, 32], 3)
    assert params["policy_kwargs"]["activation_fn"] == "elu"
    assert (params["buffer_size"], type(params["buffer_size"])) == (200_000, int)
    resolved = resolve_config(conversion.config).config
    assert resolved.algo_params["learning_starts"] == 500


def test_hyperparameters_that_an_entry_leaves_out_are_those_of_the_class(data: dict[str, Any]) -> None:
    """Defaults of mygym, such as two gradient steps of `tqc`, are not those of RL Zoo."""
    params = resolve_config(convert(data, "tqc.yml", "PandaReach-v1").config).config.algo_params
    of_class = {"tau": 0.005, "gamma": 0.99, "batch_size": 256, "gradient_steps": 1, "train_freq": 1}
    assert {key: params[key] for key in of_class} == of_class
    ppo = resolve_config(entry("PandaPush-v1", "ppo").config).config
    of_class = {
        "learning_rate": 3e-4,
        "n_steps": 2048,
        "batch_size": 64,
        "n_epochs": 10,
        "gamma": 0.99,
        "ent_coef": 0.0,
    }
    assert {key: ppo.algo_params[key] for key in of_class} == of_class
    assert ppo.algo_params["policy_kwargs"]["log_std_init"] == 0.0
    assert (ppo.reward, ppo.normalize, ppo.control.name, ppo.n_envs, ppo.her) == ("sparse", False, "ee_delta", 1, False)
    assert not any((ppo.task_params.starts or {}).values())
    assert "step" not in ppo.control.params or ppo.control.params["step"] == 0.05


def test_what_has_no_meaning_here_is_named_in_a_line_each(data: dict[str, Any]) -> None:
    conversion = convert(data, "tqc.yml", "PandaPush-v1")
    lines = dict(note.split(": ", 1) for note in conversion.notes)
    keys = {"--env", "normalize", "normalize.clip_obs", "env_wrapper", "callback", "frame_stack", "warmth"}
    assert set(lines) == keys | {"learning_starts", "replay_buffer_kwargs.online_sampling"}
    assert not any("\n" in note for note in conversion.notes)
    config = resolve_config(conversion.config).config
    assert (config.task, config.normalize, config.n_envs, config.steps) == ("push", False, 2, 70_000)
    assert config.algo_params["learning_starts"] == 2 * 100 + 1  # the horizon of push
    assert config.algo_params["train_freq"] == [1, "step"]


@pytest.mark.parametrize(
    ("env_id", "task", "control", "reward"),
    [
        ("PandaReachJoints-v3", "reach", "joint_delta", "sparse"),
        ("PandaPickAndPlaceDense-v3", "pick_and_place", "ee_delta", "dense"),
        ("PandaSlideJointsDense-v2", "slide", "joint_delta", "dense"),
        ("PandaStack-v1", "stack", "ee_delta", "sparse"),
        ("PandaFlip-v3", "AGR", "ee_delta", "sparse"),
        ("FetchPush-v1", "push", "ee_delta", "sparse"),
        ("FetchReachDense-v4", "reach", "ee_delta", "dense"),
    ],
)
def test_ids_of_other_libraries_are_tasks(env_id: str, task: str, control: str, reward: str) -> None:
    config = resolve_config(entry(env_id, "sac").config).config
    assert (config.robot, config.task, config.control.name, config.reward) == ("panda", task, control, reward)


def test_arguments_of_the_environment_are_config_values() -> None:
    given = {"robot": "kuka", "control": "joint_position", "task_params": {"horizon": 40}, "gamma": 0.9}
    config = entry("mygym/PickAndPlace-v0", "sac", env_kwargs={**given, "robot": "kuka_gripper"}).config
    assert (config["task"], config["robot"], config["control"]) == ("pick_and_place", "kuka_gripper", "joint_position")
    assert config["task_params"]["horizon"] == 40
    letters = entry("mygym/Gym-v0", "sac", env_kwargs={"task": "AGM"}).config
    assert letters["task"] == "AGM"
    assert entry("PandaReach-v3", "sac", env_kwargs="dict(reward_type='dense')").config["reward"] == "dense"


def test_forms_of_older_versions_are_read() -> None:
    her = entry("FetchReach-v1", "her", model_class="sac", n_sampled_goal=4, goal_selection_strategy="future")
    assert (her.config["algo"], her.config["her"]) == ("sac", True)
    assert her.config["algo_params"]["replay_buffer_kwargs"] == {
        "n_sampled_goal": 4,
        "goal_selection_strategy": "future",
    }
    networks = "dict(net_arch=[dict(pi=[8], vf=[16])], optimizer_class=RMSpropTFLike)"
    params = entry("PandaReach-v3", "a2c", policy_kwargs=networks).config["algo_params"]["policy_kwargs"]
    assert (params["net_arch"], params["optimizer_class"]) == ({"pi": [8], "vf": [16]}, "rmsprop_tf")
    resolve_config(entry("PandaReach-v3", "a2c", policy_kwargs=networks).config)


def test_noise_and_policies() -> None:
    noisy = entry("PandaReach-v3", "td3", noise_type="normal", noise_std=0.3)
    assert noisy.config["algo_params"]["action_noise"] == 0.3
    assert resolve_config(entry("PandaReach-v3", "td3").config).config.algo_params["action_noise"] is None
    other = entry("PandaReach-v3", "ddpg", noise_type="ornstein-uhlenbeck", noise_std=0.3, policy="MlpPolicy")
    assert [note.partition(":")[0] for note in other.notes] == ["--env", "policy", "noise_type"]
    assert entry("PandaReach-v3", "ppo_lstm").config["algo"] == "recurrent_ppo"
    assert entry("PandaReach-v3", "ars", policy="MlpPolicy").config["algo_params"]["policy"] == "MlpPolicy"


@pytest.mark.parametrize(
    ("env_id", "algo", "words"),
    [
        (None, "tqc", ["mygym import tqc.yml --env", "PandaReach-v1", "PandaPush-v1"]),
        ("CartPole-v1", "tqc", ["--env", "'CartPole-v1'", "PandaReach-v1, PandaPush-v1"]),
        ("PandaRech-v3", "tqc", ["--env", "'PandaRech-v3'", "did you mean 'PandaReach-v1'"]),
        ("PandaSlide-v3", "tqc", ["--env", "'PandaSlide-v3'", "no entry", "PandaReach-v1, PandaPush-v1"]),
        ("PandaReach-v1", "tqcc", ["algo", "'tqcc'", "did you mean 'tqc'"]),
    ],
)
def test_unknown_names_list_those_of_the_file(
    env_id: str | None, algo: str, words: list[str], data: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as error:
        convert(data, f"{algo}.yml", env_id)
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("policy_kwargs", "__import__('os').system('true')"),
        ("policy_kwargs", "dict(net_arch=open('x'))"),
        ("policy_kwargs", "dict(net_arch=[64, 64]"),
        ("policy_kwargs", "[64, 64]"),
        ("policy_kwargs", "(" * 300),
        ("replay_buffer_kwargs", "dict(**{})"),
        ("normalize", "yes please"),
        ("learning_rate", "cos_0.001"),
        ("learning_rate", "lin_fast"),
        ("n_timesteps", "many"),
        ("n_timesteps", float("inf")),
        ("n_envs", "several"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused_and_never_evaluated(
    key: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.system", lambda command: pytest.fail("evaluated"))
    with pytest.raises(ConfigError, match=rf"^{key}: "):
        entry("PandaReach-v3", "tqc", **{key: value})


def test_classes_without_a_name_here_are_named_in_a_line() -> None:
    conversion = entry("PandaReach-v3", "ppo", policy_kwargs="dict(activation_fn=nn.Mish)", replay_buffer_class="Mine")
    assert [note.partition(":")[0] for note in conversion.notes][1:] == [
        "replay_buffer_class",
        "policy_kwargs.activation_fn",
    ]


def test_files_of_mygym_are_not_taken_for_files_of_rl_zoo(data: dict[str, Any]) -> None:
    assert recognises(data)
    files = [path for path in (ROOT / "configs").rglob("*") if path.suffix in (".yaml", ".json")]
    assert files
    assert not any(recognises(load_file(path)) for path in files)
    assert not recognises({})
    assert not recognises({"task_params": {"horizon": 3}, "algo_params": {"n_timesteps": 4}})


def test_train_names_the_command_that_converts(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "--config", str(file)])
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert all(word in message for word in ("config", str(file), "RL Zoo", f"mygym import {file} --env"))
    assert len(message.splitlines()) == 1


def test_the_command_writes_an_entry_that_trains(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = file.with_name("new.yaml")
    with pytest.raises(SystemExit) as end:
        main(["import", str(file), "--env", "PandaReach-v3", "-o", str(out)])
    assert end.value.code == 0
    assert "--env: 'PandaReach-v3'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["train", "--config", str(out), "--explain"])
    assert end.value.code == 0
    assert "tqc" in capsys.readouterr().out
