"""Runs with several `learners`: processes that train the same model in lock-step."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file as load_tensors
from stable_baselines3.common.callbacks import BaseCallback

import mygym
from mygym.errors import RunError
from mygym.planning.plan import make_plan
from mygym.training.checkpoints.checkpoints import Checkpoints
from mygym.training.env_factory import make_vec_env
from mygym.training.learners import AnswerCallback, OtherLearners, average_gradients, other_learners
from mygym.training.model_factory import build_model
from mygym.training.policy import normalizer_of
from mygym.training.policy import weights as model_weights
from mygym.training.result import Result

SMALL: dict[str, Any] = {
    "algo": "ppo",
    "engine": "fused",
    "learners": 2,
    "n_envs": 16,
    "steps": 1024,
    "algo_params": {"n_steps": 8, "batch_size": 64, "policy_kwargs": {"net_arch": [8]}},
    "normalize": True,
    "stop_at_success": None,
    "eval": {"every": 512, "episodes": 2, "final_episodes": 1},
    "video": {"episodes": 0},
    "tensorboard": False,
}
IN_JAX = SMALL | {"framework": "jax"}
BULLET = SMALL | {
    "engine": "pybullet",
    "n_envs": 4,
    "steps": 128,
    "algo_params": SMALL["algo_params"] | {"batch_size": 16},
    "eval": {"every": 64, "episodes": 1, "final_episodes": 1},
}


class Observer(BaseCallback):
    """Records the number of env steps after each step.

    Args:
        act: Called with the observer after each step; training ends if it returns False.
    """

    def __init__(self, act: Any = None) -> None:
        super().__init__()
        self.act = act
        self.steps: list[int] = []

    def _on_step(self) -> bool:
        self.steps.append(self.model.num_timesteps)
        return self.act is None or self.act(self) is not False


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return mygym.train(SMALL | {"logdir": str(tmp_path_factory.mktemp("runs"))})


def weights(result: Result) -> dict[str, torch.Tensor]:
    return load_tensors(result.path / "policy.safetensors")


def assert_same_weights(first: Result, second: Result) -> None:
    left, right = weights(first), weights(second)
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        np.testing.assert_array_equal(tensor, right[name], err_msg=name)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run(whole: Result, tmp_path: Path) -> None:
    """The user's callback counts the env steps of all processes."""
    observer = Observer()
    again = mygym.train(SMALL | {"logdir": str(tmp_path)}, callbacks=observer)
    assert_same_weights(whole, again)
    assert observer.steps == list(range(16, 1025, 16))  # SMALL's n_envs, although this process has half of them
    alone = mygym.train(SMALL | {"logdir": str(tmp_path), "learners": 1})
    assert any(not torch.equal(value, weights(alone)[name]) for name, value in weights(whole).items())


@pytest.mark.slow
def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Path, whole: Result) -> None:
    half = mygym.train(SMALL | {"logdir": str(tmp_path), "steps": 512})
    resumed = mygym.train({"steps": 1024}, resume=half.path)
    assert resumed.steps == 1024
    assert_same_weights(resumed, whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [BULLET, IN_JAX, SMALL | {"learners": 4, "algo": "a2c", "algo_params": {"n_steps": 8}}],
)
def test_other_runs_resume_to_the_same_weights(settings: dict[str, Any], tmp_path: Path) -> None:
    settings = settings | {"logdir": str(tmp_path)}
    half = mygym.train(settings | {"steps": settings["steps"] // 2})
    assert_same_weights(mygym.train({"steps": settings["steps"]}, resume=half.path), mygym.train(settings))


def states(result: Result) -> tuple[Any, Any]:
    """Return the states of the main process and of the other process in the newest checkpoint."""
    checkpoint = Checkpoints(result.path, keep=1).newest(pytest.fail)
    assert checkpoint is not None
    (other,) = checkpoint.state["callbacks"]["workers"]["processes"]
    return checkpoint.state, other


def assert_same_parameters(result: Result) -> None:
    first, second = (state["algorithm"]["parameters"] for state in states(result))
    for name, tensor in first["policy"].items():
        assert torch.equal(tensor, second["policy"][name]), name
    moments = [parameters["policy.optimizer"]["state"] for parameters in (first, second)]
    assert moments[0].keys() == moments[1].keys()
    for index, values in moments[0].items():
        for name, tensor in values.items():
            assert torch.equal(tensor, moments[1][index][name]), name


def test_every_process_has_the_same_weights_and_different_episodes(whole: Result) -> None:
    """Each process has stored its state after the last gradient step."""
    assert_same_parameters(whole)
    first, second = (state["env"]["batch"]["observations"]["desired_goal"] for state in states(whole))
    assert first.shape == second.shape == (8, 3)
    assert not (first[:, None] == second).all(axis=2).any()


@pytest.mark.slow
def test_a_process_of_jax_collects_other_episodes_with_other_noise(tmp_path: Path) -> None:
    """The main process alone trains."""
    pytest.importorskip("sbx")
    first, second = states(mygym.train(IN_JAX | {"logdir": str(tmp_path)}))
    goals = [state["env"]["batch"]["observations"]["desired_goal"] for state in (first, second)]
    assert not (goals[0][:, None] == goals[1]).all(axis=2).any()
    policies = [state["algorithm"]["policy"] for state in (first, second)]
    assert not np.array_equal(*(policy["key"][""] for policy in policies))
    assert [int(policy["actor_state"]["step"]) for policy in policies] == [1024 // 64 * 4, 0]


@pytest.mark.slow
def test_every_process_starts_from_the_pretrained_model(tmp_path: Path, whole: Result) -> None:
    pretrained = {"path": str(whole.path), "load": ["policy", "critics", "normalizer", "optimizer"]}
    result = mygym.train(SMALL | {"logdir": str(tmp_path), "steps": 512, "pretrained": pretrained})
    assert_same_parameters(result)
    state = states(result)[1]["algorithm"]["parameters"]["policy.optimizer"]["state"][0]
    updates = (1024 + 512) // 64 * 4  # minibatches of both runs, epochs
    assert int(state["step"]) == updates


@pytest.mark.slow
def test_every_process_has_the_hyperparameters_that_a_callback_sets(tmp_path: Path) -> None:
    def change(self: Observer) -> None:
        self.model.ent_coef = 0.5 if self.num_timesteps > 300 else 0.0

    result = mygym.train(SMALL | {"logdir": str(tmp_path), "steps": 512}, callbacks=Observer(change))
    assert [state["algorithm"]["attributes"]["ent_coef"] for state in states(result)] == [0.5, 0.5]
    assert_same_parameters(result)


@pytest.mark.slow
def test_a_callback_may_end_the_training_in_the_middle_of_a_rollout(tmp_path: Path) -> None:
    """The other process has taken more env steps, and ends without a gradient step; the run can be extended."""
    observer = Observer(lambda self: self.num_timesteps < 600)  # a rollout has 128 env steps
    ended = mygym.train(SMALL | {"logdir": str(tmp_path)}, callbacks=observer)
    assert ended.steps == 608
    assert mygym.train({"steps": 1250}, resume=ended.path).steps == 1248 + 128


FAILING = '''
from mygym.registry import implemented_combos
from stable_baselines3 import PPO
import torch

class Failing(PPO):
    """Fails in the processes that write no log."""
    def train(self) -> None:
        is_main = bool(self.logger.output_formats)
        for _ in range(1 if is_main else {steps}):
            self.policy.optimizer.zero_grad()
            self.policy.log_std.sum().backward()
            self.policy.optimizer.step()
        if not is_main and {steps} == 1:
            raise ValueError("no more")

implemented_combos["failing"] = {{"pytorch": (Failing, ["MlpPolicy", "env"], {{"n_steps": 8, "batch_size": 64}})}}
'''


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        pytest.param(1, r"^learner 2 of 2: ValueError: no more", marks=pytest.mark.slow),
        (0, r"^learner 2 of 2 takes fewer gradient steps than the main process"),
        pytest.param(2, r"^learner 2 of 2 takes more gradient steps than the main process", marks=pytest.mark.slow),
    ],
)
def test_errors_of_a_learner(steps: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "algos").mkdir()
    (tmp_path / "algos" / "failing.py").write_text(FAILING.format(steps=steps))
    settings = {key: value for key, value in SMALL.items() if key != "algo_params"}
    with pytest.raises(RunError, match=message):
        mygym.train(settings | {"algo": "failing", "logdir": str(tmp_path / "runs"), "normalize": False})


def test_the_mean_gradients_are_those_of_the_whole_batch() -> None:
    """The gradient of a mean loss of equal halves is the mean of the gradients of the halves."""

    class Model:
        def __init__(self) -> None:
            torch.manual_seed(0)
            self.policy = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
            self.unused = torch.nn.Parameter(torch.ones(2))
            self.optimizer = torch.optim.Adam([*self.policy.parameters(), self.unused], lr=0.1)

        def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
            return ["policy", "optimizer"], []

        def step(self, batch: torch.Tensor) -> None:
            self.policy(batch).square().mean().backward()
            self.optimizer.step()

    batch = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
    expected, model, other = Model(), Model(), Model()
    expected.step(batch)
    other.policy(batch[4:]).square().mean().backward()
    second_half = torch.cat(
        [parameter.grad.flatten() for parameter in other.policy.parameters() if parameter.grad is not None]
    )
    average_gradients(model, lambda first_half: (first_half + second_half.numpy()) / 2)
    model.step(batch[:4])
    for left, right in zip(expected.policy.parameters(), model.policy.parameters(), strict=True):
        torch.testing.assert_close(left, right)
    assert torch.equal(model.unused, torch.ones(2))


def test_a_rollout_begins_in_the_state_of_the_main_process() -> None:
    plan = make_plan({**SMALL, "learners": 1})
    with contextlib.ExitStack() as stack:
        envs = [make_vec_env(plan, stack) for _ in range(2)]
        main, other = (build_model(plan, env) for env in envs)
        main.learn(128)
        main.ent_coef = 0.25
        normalizer = normalizer_of(envs[0])
        assert normalizer is not None
        data = {"steps": 640, "values": {"ent_coef": 0.25}, "normalizer": normalizer}
        data["weights"] = {name: tensor.numpy() for name, tensor in model_weights(main).items()}
        pipe, other_pipe = multiprocessing.Pipe()
        pipe.send_bytes(pickle.dumps(("rollout", data)))
        answers = AnswerCallback(other_pipe)
        answers.init_callback(other)
        answers.answer_commands()
        assert (other.num_timesteps, other.ent_coef) == (640, 0.25)
        for name, tensor in model_weights(main).items():
            assert torch.equal(tensor, model_weights(other)[name]), name
        assert_same_tree(normalizer_of(envs[1]), normalizer)


def assert_same_tree(left: Any, right: Any) -> None:
    if isinstance(right, dict):
        assert left.keys() == right.keys()
        for key, value in right.items():
            assert_same_tree(left[key], value)
    else:
        np.testing.assert_array_equal(left, right)


def test_a_run_with_a_single_learner_starts_no_process() -> None:
    with other_learners(make_plan({**SMALL, "learners": 1})) as learners:
        assert learners is None


@pytest.mark.slow
def test_closed_learners_have_ended() -> None:
    learners = OtherLearners(make_plan(SMALL))
    processes = [process.handle for process in learners._processes]
    pids = [process.pid for process in processes]
    learners.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
