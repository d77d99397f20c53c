"""The fused engine on a GPU; the first tests need none: a step has no operation that waits for a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import mygym
from mygym.engines.arrays import to_numpy
from mygym.engines.fused import captured_step
from mygym.engines.fused.captured_step import CapturedStep, CaptureError
from mygym.envs.batch_env import BatchEnv, BatchStep
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.errors import ConfigError
from tests.components import slow_except
from tests.engines.fused import WaitingOperations, needs_gpu, pretend_gpu

RANDOM = {"object_friction": True, "joint_gain": [0.8, 1.0], "action_delay": [0, 3], "observation_noise": 0.002}
TASKS: dict[str, dict[str, Any]] = {
    "reach": {"task": "reach"},
    "push": {"task": "push", "reward": "shaped"},
    "pick_and_place": {
        "task": "pick_and_place",
        "reward": "shaped",
        "task_params": {"starts": {"in_hand": 0.3}, "horizon": 30},
    },
    "randomized": {
        "task": "pick_and_place",
        "reward": "staged",
        "randomize": RANDOM,
        "task_params": {"horizon": 25},
    },
}


def envs_of(name: str, count: int, device: str = "cpu") -> BatchEnv:
    envs = BatchEnv(TASKS[name], count, "torch", device)
    envs.reset(range(count))
    if device == "cpu":
        envs._step = envs.advance  # also while a test pretends that this is a GPU
    return envs


def noisy_actions(envs: BatchEnv, generator: np.random.Generator) -> Any:
    """Return the expert's actions, a third of them replaced: episodes succeed, fail and are truncated."""
    expert = to_numpy(envs.expert_action())
    random = generator.uniform(-1, 1, expert.shape)
    return np.where(generator.random((len(expert), 1)) < 0.3, random, expert).astype(np.float32)


def assert_equal(step: BatchStep, expected: BatchStep, tolerance: float = 0.0) -> None:
    for name in ("reward", "terminated", "truncated", "success", "touched", "stage", "stages_done", "elapsed"):
        got, wanted = (to_numpy(getattr(each, name)) for each in (step, expected))
        np.testing.assert_allclose(got, wanted, tolerance, tolerance, err_msg=name)
    for key, value in expected.observations.items():
        np.testing.assert_allclose(to_numpy(step.observations[key]), to_numpy(value), tolerance, tolerance, err_msg=key)
        last = (to_numpy(each.last[key]) for each in (step, expected))
        np.testing.assert_allclose(*last, tolerance, tolerance, err_msg=key)


@pytest.mark.parametrize("name", TASKS)
def test_a_step_never_waits_for_the_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    envs, generator = envs_of(name, 16), np.random.default_rng(0)
    pretend_gpu(monkeypatch)
    for _ in range(20):
        envs.step(noisy_actions(envs, generator))
    commands = torch.as_tensor(noisy_actions(envs, generator))
    with WaitingOperations() as operations:
        envs.advance(commands)
    assert operations.names == []


@pytest.mark.parametrize("name", slow_except(TASKS, ("reach", "randomized").__contains__))
def test_the_branches_of_a_gpu_give_the_same_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, other = envs_of(name, 24), envs_of(name, 24)
    generator, ended = np.random.default_rng(1), 0
    for _ in range(70):
        actions = noisy_actions(usual, generator)
        expected = usual.step(actions)
        with monkeypatch.context() as patch:
            pretend_gpu(patch)
            assert_equal(other.step(actions), expected)
        ended += int((expected.terminated | expected.truncated).sum())
    assert ended > 10


def test_replaced_variables_are_those_of_the_next_step() -> None:
    """`CapturedStep` copies the variables to its inputs: a variable that this list lacks would keep its old value."""
    first, second, generator = envs_of("randomized", 12), envs_of("randomized", 12), np.random.default_rng(2)
    for _ in range(30):
        first.step(noisy_actions(first, generator))
    second.set_variables([array.clone() for array in first.variables()])
    for _ in range(40):  # the expert reads the state, which follows from the variables after a step
        actions = generator.uniform(-1, 1, (12, 4)).astype(np.float32)
        assert_equal(second.step(actions), first.step(actions))


@needs_gpu
@pytest.mark.parametrize("name", TASKS)
def test_a_graph_gives_the_same_steps(name: str) -> None:
    graph, eager, cpu = envs_of(name, 64, "cuda"), envs_of(name, 64, "cuda"), envs_of(name, 64)
    eager._step = eager.advance
    generator, ended = np.random.default_rng(0), 0
    for number in range(70):
        actions = noisy_actions(eager, generator)
        expected = eager.step(actions)
        assert_equal(graph.step(actions), expected)
        step = cpu.step(actions)
        if number < 10:  # later, a finger that just misses the box in one engine and not in the other would matter
            assert_equal(step, expected, 1e-3)
        ended += int((expected.terminated | expected.truncated).sum())
    assert isinstance(graph._step, CapturedStep)
    assert ended > 30


@needs_gpu
def test_results_of_a_step_are_kept() -> None:
    envs = envs_of("pick_and_place", 16, "cuda")
    actions = np.zeros((16, 4), dtype=np.float32)
    first = envs.step(actions)
    before = {key: to_numpy(value).copy() for key, value in first.observations.items()}
    reward = to_numpy(first.reward).copy()
    for _ in range(5):
        envs.step(actions + 0.7)
    for key, value in before.items():
        np.testing.assert_array_equal(to_numpy(first.observations[key]), value)
    np.testing.assert_array_equal(to_numpy(first.reward), reward)


@needs_gpu
def test_a_state_continues_on_a_gpu() -> None:
    first, second = (envs_of("randomized", 16, "cuda") for _ in range(2))
    generator = np.random.default_rng(0)
    for _ in range(20):
        first.step(noisy_actions(first, generator))
    second.step(noisy_actions(second, generator))
    second.load_state_dict(first.state_dict())
    for _ in range(30):
        actions = noisy_actions(first, generator)
        assert_equal(second.step(actions), first.step(actions))


@needs_gpu
def test_a_task_that_waits_for_the_gpu_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    envs, expected = envs_of("reach", 16, "cuda"), envs_of("reach", 16, "cuda")
    step_reward = envs._step_reward

    def waits(observations: Any, failed: Any) -> Any:
        assert not bool(failed.any())
        return step_reward(observations, failed)

    monkeypatch.setattr(envs, "_step_reward", waits)
    actions = np.full((16, 3), 0.3, dtype=np.float32)
    with pytest.warns(UserWarning, match="no CUDA graph"):
        envs.step(actions)
    expected.step(actions)
    assert_equal(envs.step(actions), expected.step(actions))


def fail_twice() -> None:
    """Raise an error, and a second while it is handled, as the end of a capture that has failed does."""
    try:
        raise RuntimeError("the first\nand more")  # MARK
    finally:
        raise RuntimeError("the second")


def test_an_error_within_a_capture_is_named_by_its_line() -> None:
    with pytest.raises(RuntimeError) as second:
        fail_twice()
    line = Path(__file__).read_text(encoding="utf-8").partition("# MARK")[0].count("\n") + 1
    message = captured_step._explain(second.value)
    assert message == f"an operation of a step waits for the GPU (the first, {__file__}:{line})"


def test_a_step_that_cannot_be_captured_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise CaptureError("it waits at line 7")

    monkeypatch.setattr(captured_step, "CapturedStep", refuse)
    with pytest.raises(ConfigError, match=r"^device: 'cuda' .*7; allowed: cpu"):
        captured_step.capture_or_refuse(None, len)
    with pytest.warns(UserWarning, match="no CUDA graph, so steps are slow: it waits at line 7"):
        assert captured_step.captured(None, len) is len


@needs_gpu
def test_ppo_refuses_a_task_that_waits_for_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step_reward = BatchEnv._step_reward

    def waits(self: BatchEnv, observations: Any, failed: Any) -> Any:
        assert not bool(failed.any())
        return step_reward(self, observations, failed)

    monkeypatch.setattr(BatchEnv, "_step_reward", waits)
    config = {"engine": "fused", "device": "cuda", "algo": "ppo", "n_envs": 32, "logdir": str(tmp_path)}
    with pytest.raises(ConfigError, match=r"^device: 'cuda' an operation of a step waits .*test_gpu\.py:\d+"):
        mygym.train(config)


@needs_gpu
def test_the_vector_environment_of_sb3_is_in_numpy() -> None:
    env, reference = (BatchVecEnv({"task": "reach"}, 16, device) for device in ("cuda", "cpu"))
    for each in (env, reference):
        each.seed(3)
    np.testing.assert_allclose(env.reset()["observation"], reference.reset()["observation"], atol=1e-4)
    for _ in range(20):
        actions = np.stack(reference.env_method("expert_action"))
        observations, rewards, ended, infos = env.step(actions)
        expected, expected_rewards, expected_ended, expected_infos = reference.step(actions)
        np.testing.assert_allclose(observations["observation"], expected["observation"], atol=1e-3)
        np.testing.assert_allclose(rewards, expected_rewards, atol=1e-3)
        assert (ended == expected_ended).all()
        assert [info["is_success"] for info in infos] == [info["is_success"] for info in expected_infos]
        assert type(observations["observation"]) is type(rewards) is np.ndarray


def on_gpu(algo: str, logdir: Path) -> dict[str, Any]:
    """Return the config of a short run."""
    discrete = {"actions": {"discrete": 3, "combined": True}} if algo == "ddqn" else {}
    return {
        "engine": "fused",
        "device": "cuda",
        "algo": algo,
        "n_envs": 32,
        "steps": 2048,
        "eval": {"every": 1024, "episodes": 1, "final_episodes": 1},
        "video": {"episodes": 0},
        "stop_at_success": None,
        "logdir": str(logdir),
        **discrete,
    }


@needs_gpu
@pytest.mark.parametrize("algo", ["ppo", "ppo_runner", "dagger", "sac", "td3", "ddqn", "tqc"])
def test_a_run_trains_and_continues(algo: str, tmp_path: Path) -> None:
    result = mygym.train(on_gpu(algo, tmp_path))
    assert result.status == "done"
    before = load_file(result.path / "policy.safetensors")
    after = load_file(mygym.train({"steps": 4096}, resume=result.path).path / "policy.safetensors")
    assert any(not torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert all(bool(torch.isfinite(tensor).all()) for tensor in after.values())


@needs_gpu
@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_a_run_on_a_gpu_repeats_and_resumes_to_the_bit(algo: str, tmp_path: Path) -> None:
    config = {**on_gpu(algo, tmp_path), "seed": 5}
    whole, repeated = (mygym.train({**config, "steps": 4096, "logdir": str(tmp_path / name)}) for name in "ab")
    resumed = mygym.train({"steps": 4096}, resume=mygym.train(config).path)
    expected = load_file(whole.path / "policy.safetensors")
    for run in (repeated, resumed):
        for name, tensor in load_file(run.path / "policy.safetensors").items():
            torch.testing.assert_close(tensor, expected[name], rtol=0.0, atol=0.0, msg=f"{run.path} {name}")


@needs_gpu
def test_random_numbers_can_be_drawn_after_a_step_that_cannot_be_captured() -> None:
    def step(values: torch.Tensor) -> torch.Tensor:
        return values + float(torch.rand(3, device="cuda").sum())

    with pytest.warns(UserWarning, match="no CUDA graph"):
        captured_step.captured(None, step, torch.zeros(3, device="cuda"))
    assert bool(torch.isfinite(torch.randn(3, device="cuda")).all())
