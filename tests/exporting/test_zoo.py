"""Runs as entries of RL Zoo: read by RL Zoo, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
import yaml
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

from mygym.cli.main import main
from mygym.config import load_file
from mygym.config.zoo import ALGORITHMS, convert, recognises
from mygym.errors import ConfigError
from mygym.exporting.zoo import write_entry, zoo_entry, zoo_name
from mygym.planning.plan import make_plan
from mygym.planning.resolve import resolve_config
from mygym.training import directory
from mygym.training.files import write_yaml

RUNS: dict[str, dict[str, Any]] = {
    "hindsight": {"algo": "tqc", "task": "push", "n_envs": 2, "algo_params": {"gamma": 0.9, "train_freq": [2, "step"]}},
    "networks": {
        "algo": "ppo",
        "control": {"name": "ee_delta", "step": 0.03},
        "algo_params": {
            "clip_range": {"schedule": "linear", "from": 0.3, "to": 0},
            "policy_kwargs": {
                "net_arch": {"pi": [8], "vf": [16, 16]},
                "activation_fn": "leaky_relu",
                "optimizer_class": "adamw",
                "optimizer_kwargs": {"weight_decay": 1e-8},
            },
        },
    },
    "noise": {"algo": "td3", "robot": "kuka", "reward": "dense", "task_params": {"horizon": 30}},
    "flat": {"algo": "ars", "task": "AG", "algo_params": {"policy": "MlpPolicy"}},
    "other": {"algo": "a2c", "algo_params": {"policy_kwargs": {"optimizer_class": "rmsprop_tf"}}},
    "recurrent": {"algo": "recurrent_ppo", "algo_params": {"policy_kwargs": {"lstm_hidden_size": 32}}},
    "discrete": {"algo": "dqn"},
}
KEYS = ("robot", "task", "workspace", "control", "actions", "reward", "spaces", "task_params", "algo", "her")
KEYS += ("normalize", "steps", "n_envs")


@pytest.mark.parametrize("name", RUNS)
def test_the_way_to_rl_zoo_and_back_keeps_every_hyperparameter(name: str, tmp_path: Path) -> None:
    plan = make_plan(RUNS[name])
    file = tmp_path / f"{zoo_name(plan)}.yml"
    assert not [note for note in write_entry(plan, file) if not note.startswith("task_params.starts")]
    data = load_file(file)
    assert recognises(data)
    conversion = convert(data, file, next(iter(data)))
    assert conversion.notes == []
    back, run = resolve_config(conversion.config).values(), plan.resolved.values()
    assert back["algo_params"] == run["algo_params"]
    assert {key: back[key] for key in KEYS} == {key: run[key] for key in KEYS}


def test_rl_zoo_reads_the_entry(tmp_path: Path) -> None:
    """RL Zoo loads YAML 1.1, evaluates the texts with these names, and makes the environment with its arguments."""
    plan = make_plan(RUNS["networks"])
    write_entry(plan, tmp_path / "ppo.yml")
    text = (tmp_path / "ppo.yml").read_text()
    assert "rl_zoo3.train --algo ppo --env mygym/Reach-v0 --gym-packages mygym --conf-file ppo.yml" in text
    ((env_id, entry),) = yaml.safe_load(text).items()
    names = {"nn": torch.nn, "th": torch, "RMSpropTFLike": RMSpropTFLike}
    kwargs = eval(entry["policy_kwargs"], names)  # as RL Zoo does
    assert (kwargs["activation_fn"], kwargs["optimizer_class"]) == (torch.nn.LeakyReLU, torch.optim.AdamW)
    assert (kwargs["net_arch"], kwargs["optimizer_kwargs"]) == ({"pi": [8], "vf": [16, 16]}, {"weight_decay": 1e-8})
    assert (entry["clip_range"], entry["policy"], entry["n_timesteps"]) == ("lin_0.3", "MultiInputPolicy", 200_000)
    with gymnasium.make(env_id, **entry["env_kwargs"]) as env:
        assert env.unwrapped.world.controller.step == 0.03  # type: ignore[attr-defined]


def test_the_entry_of_hindsight_names_its_buffer() -> None:
    ((env_id, entry),) = zoo_entry(make_plan({"algo": "sac", "steps": 500})).config.items()
    assert (env_id, entry["replay_buffer_class"], entry["ent_coef"]) == (
        "mygym/Reach-v0",
        "HerReplayBuffer",
        "auto_0.05",
    )
    assert "replay_buffer_kwargs" not in entry, "those of the class"
    assert "random_shift" not in entry, "a parameter that only mygym has, at its default"


def test_what_an_entry_cannot_hold_is_named_and_a_comment(tmp_path: Path) -> None:
    values = {"algo_params": {"learning_rate": {"schedule": "cosine", "from": 1e-3, "to": 1e-5}, "random_shift": 2}}
    images = {"observations": ["image", "joint_position"], "image_params": {"width": 48, "height": 48}}
    plan = make_plan({"algo": "sac", "strategy": "demos", **images, **values})
    notes = write_entry(plan, tmp_path / "sac.yml")
    assert [note.partition(":")[0] for note in notes] == ["strategy", "random_shift", "learning_rate"]
    text = (tmp_path / "sac.yml").read_text()
    assert all(f"# {note}\n" in text for note in notes)
    assert yaml.safe_load(text)["mygym/Reach-v0"]["learning_rate"] == 1e-3


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"algo": "dagger"}, ["algo", "'dagger'", "tqc"]),
        ({"algo": "sac", "framework": "jax"}, ["framework", "'jax'", "pytorch"]),
        (
            {"strategy": "multitask", "strategy_params": {"tasks": ["reach", "push"]}},
            ["strategy", "'multitask'", "single task"],
        ),
    ],
)
def test_runs_that_rl_zoo_cannot_repeat_are_refused(config: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        write_entry(make_plan(config), tmp_path / "new.yml")
    assert all(word in str(error.value) for word in words), str(error.value)
    assert not list(tmp_path.iterdir())


def test_the_command_writes_into_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_yaml(tmp_path / directory.CONFIG, make_plan({"algo": "recurrent_ppo"}).resolved.values())
    with pytest.raises(SystemExit) as end:
        main(["export", str(tmp_path), "--format", "zoo"])
    assert not end.value.code
    assert f"file: {tmp_path / 'ppo_lstm.yml'}" in capsys.readouterr().out
    assert ALGORITHMS["ppo_lstm"] == "recurrent_ppo"
    with pytest.raises(SystemExit) as end:
        main(["export", str(tmp_path), "--format", "zoo"])
    assert end.value.code == 2, "the file exists"
