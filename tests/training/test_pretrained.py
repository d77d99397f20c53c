"""Runs that start from a trained model: loaded values, frozen layers and refusals."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from stable_baselines3.common.callbacks import BaseCallback

import mygym
from mygym.errors import ConfigError
from mygym.planning.plan import plan_from_python
from mygym.training import env_factory
from mygym.training.env_factory import make_vec_env
from mygym.training.model_factory import build_model
from mygym.training.policy import weights
from mygym.training.pretrained import is_critic
from mygym.training.result import Result
from tests.training.runners import config as small
from tests.training.test_resuming import stopped

ON_POLICY = {"n_steps": 20, "batch_size": 20}


def config(algo: str, logdir: Path, **more: Any) -> dict[str, Any]:
    params: dict[str, Any] = dict(ON_POLICY) if algo == "ppo" else {"learning_starts": 1_000}
    params |= more.pop("algo_params", {})
    return small(algo, logdir, **{"algo_params": params, "normalize": False, **more})


def frozen(algo: str) -> dict[str, Any]:
    """Settings with which training changes no weight."""
    return {"learning_rate": 1e-30} if algo == "ppo" else {}  # sac: learning starts after the last step


def tensors(run: Result) -> dict[str, torch.Tensor]:
    return load_file(run.path / "policy.safetensors")


def equal(first: Result, second: Result) -> set[str]:
    a, b = tensors(first), tensors(second)
    return {name for name in a.keys() & b.keys() if torch.equal(a[name], b[name])}


@pytest.fixture(scope="module", params=["ppo", "sac"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("source")
    learning = {"learning_starts": 60} if request.param == "sac" else {}
    return mygym.train(config(request.param, folder, normalize=True, algo_params=learning))


def unlearned(algo: str) -> dict[str, Any]:
    """Settings of a short normalised run that changes no weight."""
    return {"normalize": True, "seed": 1, "steps": 40, "algo_params": frozen(algo)}


@pytest.fixture(scope="module")
def fresh(source: Result, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run of the algorithm of `source` that starts from nothing."""
    return mygym.train(config(source.algo, tmp_path_factory.mktemp("fresh"), **unlearned(source.algo)))


@pytest.mark.parametrize("path", ["", "policy.safetensors", pytest.param("model.zip", marks=pytest.mark.slow)])
def test_weights_and_normaliser_are_those_of_the_source(
    path: str, source: Result, fresh: Result, tmp_path: Path
) -> None:
    settings = unlearned(source.algo)
    result = mygym.train(config(source.algo, tmp_path, pretrained=str(source.path / path), **settings))
    networks = {name for name in tensors(source) if not name.startswith("normalizer.")}
    assert networks <= equal(source, result)
    metadata = [float(value.mean()) for name, value in tensors(result).items() if name.endswith("observation.mean")]
    from_scratch = [float(value.mean()) for name, value in tensors(fresh).items() if name.endswith("observation.mean")]
    assert not networks <= equal(source, fresh)
    assert metadata != from_scratch


def test_only_the_named_states_are_loaded(source: Result, tmp_path: Path) -> None:
    chosen = {"path": str(source.path), "load": ["policy"]}
    settings = {"seed": 1, "steps": 40, "algo_params": frozen(source.algo)}
    same = equal(source, mygym.train(config(source.algo, tmp_path, pretrained=chosen, **settings)))
    networks = {name for name, value in tensors(source).items() if not name.startswith("normalizer.") and value.any()}
    critics = {name for name in networks if is_critic(name) and name.endswith("weight")}
    assert critics
    assert networks - {name for name in networks if is_critic(name)} <= same
    assert not critics & same


@pytest.mark.parametrize("algo", ["ppo", "recurrent_ppo", "sac", "tqc"])
def test_critics_are_the_tensors_that_decide_no_action(algo: str) -> None:
    plan = plan_from_python({"algo": algo, "task": "reach"})
    with contextlib.closing(make_vec_env(plan)) as env:
        model, observation = build_model(plan, env), env.reset()

    def actions() -> Any:
        torch.manual_seed(0)
        _, state = model.predict(observation)
        return model.predict(observation, state, np.zeros(env.num_envs, bool))[0]  # a hidden state that is not zero

    before, critics = actions(), set()
    for name, tensor in model.policy.state_dict().items():
        value = tensor.clone()
        tensor.add_(1.0)
        if np.array_equal(actions(), before):
            critics.add(name)
        tensor.copy_(value)
    assert critics == {name for name in weights(model) if is_critic(name)}


def test_frozen_layers_do_not_change_and_the_others_do(tmp_path: Path) -> None:
    source = mygym.train(config("ppo", tmp_path / "source", steps=40))
    pretrained = {"path": str(source.path), "freeze": ["mlp_extractor.*"]}
    run = stopped(config("ppo", tmp_path / "run", pretrained=pretrained), step=130)
    resumed = mygym.train(resume=run)
    same = equal(source, resumed)
    assert {name for name in tensors(source) if name.startswith("mlp_extractor.")} <= same
    assert not {"action_net.weight", "value_net.weight"} & same
    whole = mygym.train(config("ppo", tmp_path / "whole", pretrained=pretrained))
    assert equal(whole, resumed) == set(tensors(whole))


def test_replay_buffer_and_optimisers_continue(tmp_path: Path) -> None:
    source = mygym.train(config("sac", tmp_path / "source", algo_params={"learning_starts": 60}))
    load = ["policy", "critics", "optimizer", "replay_buffer"]
    seen: dict[str, Any] = {}

    class Look(BaseCallback):
        def _on_training_start(self) -> None:
            seen["rows"] = self.model.replay_buffer.size()
            seen["state"] = len(self.model.critic.optimizer.state_dict()["state"])

        def _on_step(self) -> bool:
            return True

    settings = config("sac", tmp_path / "run", pretrained={"path": str(source.path), "load": load}, seed=1)
    result = mygym.train(settings, callbacks=[Look()])
    assert seen["rows"] == source.steps // 2
    assert seen["state"] > 0
    assert result.status == "done"
    resumable = stopped({**settings, "logdir": str(tmp_path / "stopped")}, step=130)
    assert equal(mygym.train(resume=resumable), result) == set(tensors(result))


@pytest.mark.parametrize(
    ("algo", "kind", "more"),
    [
        ("sac", "HerReplayBuffer", {"her": True}),
        ("sac", "DictDeviceReplayBuffer", {"engine": "fused", "her": False}),
        ("sac", "DeviceHerReplayBuffer", {"engine": "fused", "her": True}),
        ("crossq", "NStepReplayBuffer", {"algo_params": {"n_steps": 3}}),
    ],
)
@pytest.mark.filterwarnings("ignore:`n_steps=3` is ignored")  # by SB3, when it loads the model at the end
def test_the_last_episodes_of_the_source_end(
    algo: str, kind: str, more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env_factory, "engine_device", lambda _: "cpu:0")  # where arrays are tensors
    settings = config(algo, tmp_path, steps=50, **more)  # 25 rows of each environment, the last 5 of a second episode
    source = mygym.train(settings)
    seen: dict[str, Any] = {}

    class Look(BaseCallback):
        def _on_training_start(self) -> None:
            buffer = self.model.replay_buffer
            last = buffer.pos - 1
            seen.update(kind=type(buffer).__name__, row=last, dones=buffer.dones[last], timeouts=buffer.timeouts[last])

        def _on_step(self) -> bool:
            return True

        def _on_training_end(self) -> None:
            seen["lengths"] = getattr(self.model.replay_buffer, "ep_length", None)

    pretrained = {"path": str(source.path), "load": ["policy", "replay_buffer"]}
    mygym.train({**settings, "pretrained": pretrained, "seed": 1}, callbacks=[Look()])
    assert (seen["kind"], seen["row"]) == (kind, 24)
    assert seen["dones"].tolist() == seen["timeouts"].tolist() == [1.0, 1.0]
    if seen["lengths"] is not None:
        assert seen["lengths"][20:26].tolist() == [[5, 5]] * 5 + [[20, 20]]


def test_another_task_and_robot_with_equal_spaces(tmp_path: Path) -> None:
    source = mygym.train(config("ppo", tmp_path / "source", spaces="shared", steps=40))
    settings = {"spaces": "shared", "task": "push", "robot": "kuka_gripper", "algo_params": frozen("ppo"), "steps": 40}
    result = mygym.train(config("ppo", tmp_path / "run", pretrained=str(source.path), **settings))
    assert equal(source, result) == set(tensors(source))


@pytest.fixture(scope="module")
def short_source(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A short run of PPO without a normaliser."""
    return mygym.train(config("ppo", tmp_path_factory.mktemp("source"), steps=40))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pretrained": "nowhere"}, r"pretrained\.path: '.*/nowhere'"),
        ({"task": "push"}, r"pretrained\.path: .*other observations, actions or net_arch"),
        (
            {"algo": "sac", "algo_params": {"policy_kwargs": {"net_arch": [8]}}},
            r"\.path: .*has no tensor actor",
        ),
        ({"normalize": True}, r"pretrained\.path: .*was trained with normalize: false"),
        ({"pretrained": {"load": ["replay_buffer"]}}, r"pretrained\.load: .*cannot be loaded: it has no replay buffer"),
        ({"pretrained": {"load": ["polcy"]}}, r"pretrained\.load\.0: 'polcy'"),
        ({"pretrained": {"freeze": ["actr.*"]}}, r"pretrained\.freeze: 'actr\.\*' matches no parameter"),
        ({"pretrained": {"freeze": ["*"]}}, r"pretrained\.freeze: \['\*'\] leaves none of the policy to train"),
    ],
)
def test_a_source_that_does_not_fit_is_refused(
    change: dict[str, Any], message: str, short_source: Result, tmp_path: Path
) -> None:
    settings = config(change.pop("algo", "ppo"), tmp_path / "run", algo_params=change.pop("algo_params", {}))
    pretrained = change.pop("pretrained", {})
    chosen = pretrained if isinstance(pretrained, str) else {"path": str(short_source.path), **pretrained}
    if "sac" in settings["algo"]:
        settings["algo_params"] = {"policy_kwargs": {"net_arch": [8]}}
    with pytest.raises(ConfigError, match=message):
        mygym.train({**settings, **change, "pretrained": chosen})
    assert not list((tmp_path / "run").rglob("config.yaml"))


def test_a_deeper_source_is_refused(tmp_path: Path) -> None:
    deeper = config("ppo", tmp_path / "source", steps=40, algo_params={"policy_kwargs": {"net_arch": [8, 8]}})
    source = mygym.train(deeper)
    with pytest.raises(
        ConfigError, match=r"has mlp_extractor\.policy_net\.2\.bias \[8\], which this run would leave out"
    ):
        mygym.train(config("ppo", tmp_path / "run", pretrained={"path": str(source.path), "load": ["policy"]}))


@pytest.mark.parametrize("algo", ["cem", "ars", "trpo"])
def test_algorithms_without_an_optimiser_of_all_parameters_freeze_none(algo: str, tmp_path: Path) -> None:
    params = {"trpo": {"n_steps": 20, "batch_size": 20}}.get(algo, {"policy": "MlpPolicy"})
    settings = {"algo": algo, "algo_params": params, "pretrained": {"freeze": ["*.0.*"]}, "logdir": str(tmp_path)}
    with pytest.raises(ConfigError, match=rf"pretrained\.freeze: .* is not possible with {algo.upper()}"):
        mygym.train({**settings, "steps": 40})
    assert not list(tmp_path.rglob("config.yaml"))


@pytest.mark.parametrize(
    ("algo", "pattern", "name"),
    [("sac", "critic.*", "critic"), ("crossq", "critic.*", "critic"), ("ddqn", "q_net.*", "the policy")],
)
def test_a_network_with_a_loss_of_its_own_is_not_frozen_as_a_whole(
    algo: str, pattern: str, name: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=rf"pretrained\.freeze: .* leaves none of {name} to train"):
        mygym.train(config(algo, tmp_path, pretrained={"freeze": [pattern]}))
    assert not list(tmp_path.rglob("config.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "framework"), [("sac", "jax")])
def test_jax_loads_but_does_not_freeze(algo: str, framework: str, tmp_path: Path) -> None:
    settings = {"framework": framework, "steps": 40, "algo_params": {"learning_starts": 1_000}}
    source = mygym.train(config(algo, tmp_path / "source", **settings))
    result = mygym.train(config(algo, tmp_path / "run", pretrained=str(source.path), seed=1, **settings))
    assert equal(source, result) == set(tensors(source))
    with pytest.raises(ConfigError, match="is not possible in jax"):
        mygym.train(config(algo, tmp_path / "run", pretrained={"freeze": ["*"]}, **settings))
    assert np.isfinite(result.mean_return or 0.0)
