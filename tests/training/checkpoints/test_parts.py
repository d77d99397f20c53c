"""Runs of a user's networks, buffer and wrappers, whose state lies in plain attributes, stopped and resumed."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.buffers import DictReplayBuffer, DictRolloutBuffer
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.torch_layers import CombinedExtractor
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecNormalize
from stable_baselines3.sac.policies import MultiInputPolicy

import mygym
from benchmarks.kills import differences
from mygym.algos.stable_baselines import PPO, SAC
from mygym.registry import register_algorithm, register_features_extractor
from mygym.strategies import Strategy, register_strategy
from tests.training.test_resuming import config, stopped


class Prioritized(DictReplayBuffer):
    """Draws by priorities, which are the leaves of a tree, with a generator of its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tree, self.largest, self.generator = np.zeros(2 * self.buffer_size), 1.0, np.random.default_rng(0)

    def add(self, *args: Any, **kwargs: Any) -> None:
        self.tree[self.buffer_size + self.pos] = self.largest
        self.largest *= 1.1
        super().add(*args, **kwargs)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        leaves = self.tree[self.buffer_size :]
        return self._get_samples(self.generator.choice(len(leaves), batch_size, p=leaves / leaves.sum()), env)


class Counting(CombinedExtractor):
    """Features that grow with the number of calls, that running statistics scale, and that are kept."""

    statistics: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls, self.last = 0, torch.zeros(1)
        self.layer = torch.nn.Linear(self.features_dim, self.features_dim)
        self.itself: dict[str, Any] = {}
        self.itself["me"] = self.itself

    @functools.cached_property
    def scale(self) -> float:
        return 1.5

    def forward(self, observations: Any) -> torch.Tensor:
        if self.statistics is None:
            self.statistics = RunningMeanStd(shape=())
        features = self.last = self.layer(super().forward(observations))
        self.calls += 1
        self.statistics.update(features.detach().numpy().ravel())
        return self.scale * features * (1 + 0.001 * self.calls) / float(np.sqrt(self.statistics.var))


class Fading(MultiInputPolicy):
    """Actions that approach 0."""

    share = 1.0

    def _predict(self, observation: Any, deterministic: bool = False) -> torch.Tensor:
        self.share *= 0.99
        return self.share * super()._predict(observation, deterministic)


class Patient(SAC):
    def __init__(self, policy: Any, env: Any, **kwargs: Any) -> None:
        super().__init__(Fading, env, **{**kwargs, "replay_buffer_class": Prioritized})
        self.replay_buffer.algorithm = self.policy.algorithm = self


class Scaling(DictRolloutBuffer):
    """Rewards that are divided by a number that grows with each roll-out."""

    divisor = 1.0

    def reset(self) -> None:
        self.divisor *= 1.5
        super().reset()

    def add(self, obs: Any, action: Any, reward: Any, *args: Any, **kwargs: Any) -> None:
        super().add(obs, action, reward / self.divisor, *args, **kwargs)


class Curious(PPO):
    """The rewards of a network that is not part of the policy."""

    def __init__(self, policy: Any, env: Any, **kwargs: Any) -> None:
        super().__init__(policy, env, **{**kwargs, "rollout_buffer_class": Scaling})
        self.surprise = Surprise()

    def train(self) -> None:
        self.rollout_buffer.advantages += self.surprise.bonus()
        super().train()


class Surprise(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def bonus(self) -> float:
        self.seen += 1
        return 1.0 / self.seen


class Growing(VecEnvWrapper):
    """Rewards that grow with each step, and an environment and a time that belong to the process."""

    factor = 1.0
    _not_in_checkpoints = ("begun",)

    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self.inner, self.begun = env.unwrapped, {time.monotonic()}

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        observations, rewards, dones, infos = self.venv.step_wait()
        self.factor *= 1.01
        return observations, self.factor * rewards, dones, infos


class Wrapping(Strategy):
    def wrap_env(self, env: VecEnv) -> VecEnv:
        return Growing(VecNormalize(env, norm_obs=False))


@pytest.mark.parametrize("cls", [Patient, Curious])
def test_plain_attributes_of_networks_buffers_and_wrappers_are_in_checkpoints(
    cls: Any, tmp_path: Path, capsys: Any
) -> None:
    params = {"policy_kwargs": {"features_extractor_class": "counting"}}
    register_features_extractor("counting")(Counting)
    register_algorithm("own_parts", policy="MultiInputPolicy")(cls)
    register_strategy("wrapping")(Wrapping)
    settings = [config("sac" if cls is Patient else "ppo", tmp_path / folder, strategy="wrapping") for folder in "ab"]
    whole, part = ({**each, "algo": "own_parts", "algo_params": each["algo_params"] | params} for each in settings)
    reference = mygym.train(whole)
    run = stopped(part, step=150)
    assert mygym.train(resume=run).steps == reference.steps
    assert differences(reference.path, run) == []
    assert "checkpoints do not hold" not in capsys.readouterr().err


def test_the_larger_buffer_of_an_extended_run_begins_with_what_its_constructor_makes(tmp_path: Path) -> None:
    register_features_extractor("counting")(Counting)
    register_algorithm("own_parts", policy="MultiInputPolicy")(Patient)
    settings = config("sac", tmp_path, steps=160)
    run = stopped({**settings, "algo": "own_parts"}, step=150)
    assert mygym.train({"steps": 200}, resume=run).steps == 200


class Remembering(CombinedExtractor):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.last = {object()}


class Visiting(Growing):
    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self.visited = {object()}


class Forgetful(Strategy):
    def wrap_env(self, env: VecEnv) -> VecEnv:
        return Visiting(env)


def test_attributes_that_checkpoints_cannot_hold_are_named(tmp_path: Path, capsys: Any) -> None:
    register_features_extractor("remembering")(Remembering)
    register_strategy("forgetful")(Forgetful)
    params = {"policy_kwargs": {"features_extractor_class": "remembering"}}
    mygym.train(config("ppo", tmp_path, strategy="forgetful", steps=32, algo_params=params))
    message = next(line for line in capsys.readouterr().err.splitlines() if "checkpoints do not hold" in line)
    assert "policy.features_extractor.last, Visiting.visited of PPO" in message
