"""Runs whose observations have images: training, resuming, evaluation, demonstrations, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from gymnasium import spaces

import mygym
from benchmarks.kills import differences
from mygym.algos.images import KeypointExtractor, ShiftedReplay, random_shift
from mygym.algos.imitation import Standardizer
from mygym.config import config_hash
from mygym.errors import ConfigError
from mygym.planning.plan import plan_from_python
from mygym.planning.resolve import resolve_config
from mygym.training.buffers import FrameReplayBuffer
from mygym.training.env_factory import make_vec_env
from mygym.training.model_factory import buffer_bytes, build_model
from tests.command import Command
from tests.training.test_resuming import stopped

IMAGES = ["image", "depth:wrist", "ee_position"]

REPLAYED: dict[str, Any] = {
    "normalize": True,
    "image_params": {"width": 20, "height": 16},
    "algo_params": {
        "policy_kwargs": {
            "net_arch": [16],
            "features_extractor_class": "drq",
            "features_extractor_kwargs": {"channels": 4},
        },
        "batch_size": 16,
        "buffer_size": 40,
        "learning_starts": 20,
        "random_shift": 2,
    },
}
"""A buffer that is full when the run is stopped, and overwritten; shifted images."""


def config(algo: str, logdir: Path, **more: Any) -> dict[str, Any]:
    """Config of a run of a few seconds."""
    params: dict[str, Any] = {"policy_kwargs": {"net_arch": [16]}, "batch_size": 16}
    if algo == "ppo":
        params |= {"n_steps": 16, "n_epochs": 2}
    return {
        "algo": algo,
        "task": "reach",
        "observations": IMAGES,
        "image_params": {"width": 40, "height": 36},  # as small as NatureCNN takes
        "algo_params": params,
        "task_params": {"horizon": 15},
        "steps": 72,
        "n_envs": 2,
        "stop_at_success": None,
        "eval": {"every": 36, "episodes": 1, "final_episodes": 1},
        "checkpoint": {"every": 32, "keep": 2},
        "video": {"episodes": 0},
        "logdir": str(logdir),
        **({"training_params": {"rollout_steps": 8, "gradient_steps": 2}} if algo in ("dagger", "bc") else {}),
        **more,
    }


def network(name: str, **kwargs: Any) -> dict[str, Any]:
    """`algo_params` with a network for images."""
    return {"policy_kwargs": {"features_extractor_class": name, "features_extractor_kwargs": kwargs}}


@pytest.mark.parametrize(
    ("algo", "more"),
    [
        pytest.param(
            "dagger",
            {"normalize": True, "image_params": {"width": 20, "height": 16}},
            marks=pytest.mark.slow,
        ),
        (
            "sac",
            {
                **REPLAYED,
                "image_params": {"width": 20, "height": 16, "frames": 3},
                "critic_observations": ["joint_position"],
            },
        ),
        pytest.param("ppo", {"normalize": True, "engine": "mujoco"}, marks=pytest.mark.slow),
        pytest.param("sac", {"image_params": {"goal": "vector", "width": 40}, "her": True}, marks=pytest.mark.slow),
    ],
)
def test_a_run_with_images_is_resumed_to_the_bit_and_evaluated(algo: str, more: dict[str, Any], tmp_path: Path) -> None:
    whole = mygym.train(config(algo, tmp_path / "whole", **more))
    assert whole.status == "done"
    run = stopped(config(algo, tmp_path / "stopped", **more), step=50)
    mygym.train(resume=run)
    assert differences(whole.path, run) == []
    first, again = (mygym.evaluate(path, episodes=1) for path in (whole.path, run))
    assert first.mean_return == again.mean_return
    policy = mygym.load(whole.path)
    with mygym.make_env(whole.path) as env:
        assert policy.predict(env.reset(seed=0)[0])[0] in env.action_space


def test_processes_give_the_same_images(tmp_path: Path) -> None:
    results = []
    for env_processes in (False, True):
        settings = config("ppo", tmp_path, env_processes=env_processes)
        env = make_vec_env(plan_from_python(settings))
        env.seed(3)
        results.append([env.reset(), *(env.step(np.full((2, 3), 0.5, np.float32))[0] for _ in range(3))])
        env.close()
    for first, second in zip(*results, strict=True):
        assert all(np.array_equal(first[key], second[key]) and first[key].dtype == second[key].dtype for key in first)


@pytest.mark.parametrize("strategy", ["demos", pytest.param("distill", marks=pytest.mark.slow)])
def test_demonstrations_with_images_are_replayed_and_learned_from(strategy: str, tmp_path: Path) -> None:
    settings = config("sac", tmp_path / "runs")
    if strategy == "distill":
        teacher = mygym.train(config("ppo", tmp_path / "teacher", observations=None))
        params: dict[str, Any] = {"teacher": str(teacher.path)}
    else:
        recorded = {key: settings[key] for key in ("task", "observations", "image_params", "task_params")}
        path = mygym.demonstrate({**recorded, "algo": "sac"}, episodes=2, out=tmp_path / "demos").path
        assert mygym.replay(path)
        params = {"dataset": str(path), "warm_start": 2}
    result = mygym.train({**settings, "strategy": strategy, "strategy_params": params})
    assert result.status == "done"


def test_images_are_not_normalized(tmp_path: Path) -> None:
    env = make_vec_env(plan_from_python(config("ppo", tmp_path, normalize=True)))
    observations = env.reset()
    assert observations["image"].dtype == np.uint8
    assert set(env.obs_rms) == {"observation"}
    env.close()
    only_images = make_vec_env(plan_from_python(config("ppo", tmp_path, normalize=True, observations=["image"])))
    assert only_images.reset()["image"].dtype == np.uint8
    only_images.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"her": True, "algo": "sac"}, ["her", "goals that only images show", "image_params: {goal: vector}"]),
        ({"image_params": {"width": 32}}, ["image_params.width: 32", "at least 36", "NatureCNN"]),
        (
            {"image_params": {"height": 14}, "algo_params": network("drq")},
            ["image_params.height: 14", "at least 15", "drq"],
        ),
        (
            {"algo_params": network("nature_cnn")},
            [
                "features_extractor_class: 'nature_cnn'",
                "dictionaries",
                "combined, drq, frozen, keypoints, resnet",
            ],
        ),
        (
            {"algo_params": network("resnet", channels=0)},
            ["features_extractor_kwargs.channels: 0", "at least 1"],
        ),
        ({"algo": "cem"}, ["observations: 'image'", "flat vectors", "dagger"]),
        ({"framework": "jax"}, ["observations: 'image'", "jax takes flat vectors"]),
        ({"observations": ["image:wirst"]}, ["observations", "'image:wirst'", "did you mean 'image:wrist'"]),
        ({"algo": "dagger", "algo_params": {"random_shift": -1}}, ["algo_params.random_shift", "-1", "at least 0"]),
        ({"engine": "fused"}, ["observations: 'image'", "engine fused"]),
        (
            {"algo": "sac", "algo_params": {"buffer_size": 10**8}, "steps": 10**8},
            ["buffer_size: 100000000", "memory", "smaller images"],
        ),
    ],
)
def test_mistakes(changes: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    settings = {"algo": "ppo", "task": "reach", "observations": IMAGES, "logdir": str(tmp_path / "runs"), **changes}
    with pytest.raises(ConfigError) as error:
        mygym.train(settings)
    for word in words:
        assert word in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_imitation_takes_small_images(tmp_path: Path) -> None:
    plan = plan_from_python(config("dagger", tmp_path, image_params={"width": 16, "height": 24}))
    env = make_vec_env(plan)
    model = build_model(plan, env)
    assert isinstance(model.policy.features_extractor, KeypointExtractor)
    action, _ = model.predict(env.reset())
    assert action.shape == (2, 3)
    env.close()


def test_a_dry_run_names_the_memory_of_the_buffer(mygym_command: Command) -> None:
    words = ["--algo", "sac", "--steps", "1000", "--set", "observations=[image, ee_position]", "--set", "n_envs=1"]
    outcome = mygym_command("train", *words, "--dry-run")
    assert outcome.code == 0
    assert "image: Box(0, 255, (3, 64, 64), uint8)" in outcome.out
    assert "memory: 12.3 MB for 1,000 steps in the buffer of the algorithm, and 12.3 kB for" in outcome.out


def test_stacks_of_images_take_the_memory_of_single_images(mygym_command: Command) -> None:
    words = ["--algo", "sac", "--steps", "1000", "--set", "observations=[image, ee_position]", "--set", "n_envs=1"]
    outcome = mygym_command("train", *words, "--set", "image_params.frames=3", "--dry-run")
    assert "image: Box(0, 255, (9, 64, 64), uint8)" in outcome.out
    assert "memory: 12.4 MB for 1,000 steps in the buffer of the algorithm, and 36.9 kB for" in outcome.out


def test_a_data_set_of_images_has_each_image_once_in_bytes(tmp_path: Path) -> None:
    plan = plan_from_python({"algo": "dagger", "observations": ["image"], "steps": 100_000})
    env = make_vec_env(plan, only_spaces=True)
    size, rows = buffer_bytes(build_model(plan, env))
    env.close()
    assert rows == 100_000
    assert size < 1.4e9
    assert size < psutil.virtual_memory().total


def test_the_mean_image_is_subtracted_and_channels_have_one_scale() -> None:
    torch.manual_seed(0)
    images = torch.rand(50, 3, 8, 8) * torch.tensor([0.1, 1.0, 0.0])[:, None, None] + torch.rand(3, 8, 8)
    standardizer = Standardizer((3, 8, 8), image=True)
    standardizer.update(images[:20])
    standardizer.update(images[20:])
    result = standardizer(images)
    assert result.mean(0).abs().max() < 1e-4
    torch.testing.assert_close(result.std((0, 2, 3)), torch.tensor([1.0, 1.0, 0.0]), atol=0.02, rtol=0)


def test_a_shift_moves_each_image_and_repeats_its_border() -> None:
    torch.manual_seed(0)
    image = torch.arange(25, dtype=torch.uint8).reshape(1, 1, 5, 5).repeat(200, 2, 1, 1)
    moved = random_shift(image, 1)
    assert (moved.dtype, moved.shape) == (image.dtype, image.shape)
    assert {int(each[0, 2, 2]) for each in moved} == {6, 7, 8, 11, 12, 13, 16, 17, 18}
    torch.testing.assert_close(moved[:, 0], moved[:, 1])
    up = next(each[0] for each in moved if each[0, 2, 2] == 17)
    torch.testing.assert_close(up, image[0, 0, [1, 2, 3, 4, 4]])
    assert torch.equal(random_shift(image, 0), image)


def test_replayed_images_are_shifted_in_every_minibatch_each_by_itself() -> None:
    image = spaces.Box(0, 255, (1, 8, 8), np.uint8)
    space = spaces.Dict({"image": image, "observation": spaces.Box(-1, 1, (3,), np.float32)})
    buffer = FrameReplayBuffer(50, space, spaces.Box(-1, 1, (2,)), "cpu")
    for _ in range(50):
        same = {name: each.sample()[None] for name, each in space.spaces.items()}
        buffer.add(same, same, np.zeros((1, 2)), np.zeros(1), np.ones(1, bool), [{}])

    class Learner:
        replay_buffer = buffer

        def train(self, gradient_steps: int, batch_size: int) -> None:
            self.batch = self.replay_buffer.sample(batch_size)

    class Shifting(ShiftedReplay, Learner):
        pass

    for pixels in (0, 2):
        learner = Shifting(random_shift=pixels)
        learner.train(1, 50)
        batch = learner.batch
        assert torch.equal(batch.observations["observation"], batch.next_observations["observation"])
        moved = (batch.observations["image"] != batch.next_observations["image"]).flatten(1).any(1)
        assert moved.float().mean() > 0.8 if pixels else not moved.any()
        assert learner.replay_buffer is buffer


def test_the_hash_of_a_config_without_images_does_not_depend_on_their_defaults() -> None:
    values = resolve_config({}).values()
    before = {key: value for key, value in values.items() if key != "image_params"}
    assert config_hash(before) == config_hash(values)
    wide = resolve_config({"image_params": {"width": 80}}).values()
    assert config_hash(wide) != config_hash(values)
    before = {key: value for key, value in wide["image_params"].items() if key != "frames"}
    assert config_hash({**wide, "image_params": before}) == config_hash(wide)
    assert config_hash(resolve_config({"image_params": {"frames": 2}}).values()) != config_hash(values)
