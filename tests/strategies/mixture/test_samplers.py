"""Samplers: their draws and decisions; training of the proposed candidates alone."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import mygym
from benchmarks.kills import differences
from mygym.errors import ConfigError, MygymError, RegistryError
from mygym.planning.plan import plan_from_python
from mygym.registry import registry
from mygym.strategies.mixture.policies import acting_supernet
from mygym.strategies.mixture.samplers import Sampler, register_sampler
from mygym.strategies.multitask import MIN_SHARE, probabilities
from mygym.strategies.requirements import prepare_run
from mygym.training.env_factory import make_vec_env
from mygym.training.model_factory import build_model
from tests.components import slow_except
from tests.training.test_resuming import stopped


def sampler(name: str, layers: int, candidates: int, rows: int = 1, **params: Any) -> Any:
    """Return a built-in sampler outside a run."""
    result = registry("sampler").get(name).load()(**params)
    result.layers, result.candidates, result.rows = layers, candidates, rows
    result.counts = np.zeros((layers, candidates))
    result.prepare()
    return result


def test_fair_draws_each_candidate_once_before_it_repeats() -> None:
    fair = sampler("fair", 2, 4)
    drawn = np.concatenate([fair.propose(count) for count in (3, 2, 5, 2)])
    assert drawn.shape == (12, 2)
    for start in range(0, 12, 4):
        assert all(sorted(drawn[start : start + 4, layer]) == [0, 1, 2, 3] for layer in range(2))


def test_uniform_draws_every_candidate() -> None:
    assert set(Counter(sampler("uniform", 1, 3).propose(200)[:, 0].tolist())) == {0, 1, 2}


def test_learned_weights_follow_rewards_and_keep_a_minimum() -> None:
    learner = sampler("differentiable", 2, 3)
    np.testing.assert_allclose(probabilities(learner.logits), 1 / 3)
    for _ in range(600):
        learner.drawn = learner.propose(4)
        learner.learn((learner.drawn[:, 0] == 2).astype(float))
    assert probabilities(learner.logits)[0].argmax() == 2
    assert probabilities(learner.logits)[0, 2] > 0.8
    assert probabilities(learner.logits).min() >= MIN_SHARE / 3


@pytest.mark.parametrize("name", registry("sampler").names())
def test_a_restored_sampler_proposes_the_same(name: str) -> None:
    first, second = sampler(name, 2, 5), sampler(name, 2, 5)
    for _ in range(3):
        first.drawn = first.propose(1)
        first.learn(np.ones(1))
    second.load_state_dict(first.state_dict())
    proposals = []
    for each in (first, second):
        np.random.seed(3)  # noqa: NPY002
        proposals.append(each.propose(4))
    assert np.array_equal(*proposals)
    assert np.array_equal(second.drawn, first.drawn)


class EvenOnly(Sampler):
    """Alternates between the candidates 0 and 2.

    Args:
        shift: Added to the candidate.
    """

    checkpointed = ("count",)

    def __init__(self, *, shift: int = 0) -> None:
        self.shift, self.count, self.seen = shift, 0, []

    def begin_iteration(self) -> None:
        self.set_forward_state("single")
        self.set_activate_architecture(np.full(self.layers, (2 * self.count + self.shift) % 4))
        self.count += 1


class Weighted(Sampler):
    """Mixes the first two candidates."""

    protocol = "sum"

    def begin_iteration(self) -> None:
        self.set_forward_state("sum")
        self.set_arch_param(np.eye(self.candidates)[:2].mean(0))


def config(algo: str, logdir: Path, **params: Any) -> dict[str, Any]:
    algo_params: dict[str, Any] = {"policy_kwargs": {"net_arch": [8]}}
    if algo in ("sac", "td3", "ddpg", "tqc", "crossq"):
        algo_params |= {"learning_starts": 30, "batch_size": 16, "gradient_steps": 1}
    elif algo in ("bc", "dagger"):
        algo_params |= {"batch_size": 16}
    else:
        algo_params |= {"n_steps": 20} | ({} if algo in ("a2c",) else {"batch_size": 20})
    return {
        "algo": algo,
        "algo_params": algo_params,
        "strategy": "mixture",
        "strategy_params": {"candidates": 4, "tries": 1, **params},
        "task_params": {"horizon": 10},
        "steps": 120,
        "n_envs": 2,
        "stop_at_success": None,
        "eval": {"every": 1_000, "episodes": 1, "final_episodes": 1},
        "video": {"episodes": 0},
        "tensorboard": False,
        "logdir": str(logdir),
    }


def changes(settings: dict[str, Any]) -> list[bool]:
    """Train; return for each candidate of the acting network whether its weights have changed."""
    plan = plan_from_python(settings)
    with contextlib.closing(make_vec_env(plan)) as env:  # the initial weights
        model = build_model(plan, env)
        prepare_run(plan, env, model)
        before = parameters_of_candidates(model.policy)
    after = parameters_of_candidates(mygym.load(mygym.train(settings).path).model.policy)
    # TRPO's conjugate gradients leave rounding errors in all weights.
    return [not torch.allclose(first, last, rtol=0.0, atol=1e-6) for first, last in zip(before, after, strict=True)]


def parameters_of_candidates(policy: Any) -> list[torch.Tensor]:
    (choice,) = [layer for layer in acting_supernet(policy).layers if hasattr(layer, "candidates")]
    return [torch.cat([p.detach().flatten() for p in candidate.parameters()]) for candidate in choice.candidates]


ALGORITHMS = ["ppo", "a2c", "trpo", "ppo_runner", "sac", "td3", "ddpg", "tqc", "crossq", "bc", "dagger"]


@pytest.mark.parametrize(
    ("algo", "shift", "changed"),
    slow_except(
        [(algo, shift, changed) for shift, changed in ((0, [0, 2]), (1, [1, 3])) for algo in ALGORITHMS],
        lambda case: case[:2] in {("ppo", 0), ("ppo", 1), ("td3", 0), ("dagger", 0)},
    ),
)
def test_the_proposed_candidates_are_trained_and_no_others(
    algo: str, shift: int, changed: list[int], tmp_path: Path
) -> None:
    register_sampler("even")(EvenOnly)
    settings = config(algo, tmp_path, sampler="even", sampler_params={"shift": shift})
    assert [index for index, value in enumerate(changes(settings)) if value] == changed


@pytest.mark.parametrize("algo", slow_except(ALGORITHMS, ("ppo", "sac").__contains__))
def test_weights_of_a_sum_are_those_of_the_sampler(algo: str, tmp_path: Path) -> None:
    register_sampler("weighted")(Weighted)
    assert [index for index, value in enumerate(changes(config(algo, tmp_path, sampler="weighted"))) if value] == [0, 1]
    (run,) = tmp_path.glob("*/*/*/*/*")
    state = mygym.load(run).model.policy.forward_state
    assert state.protocol == "sum"
    assert state.weights[0].tolist() == [0.5, 0.5, 0.0, 0.0]


def test_the_config_names_the_sampler_and_its_parameters(tmp_path: Path) -> None:
    register_sampler("even")(EvenOnly)
    params = plan_from_python(config("ppo", tmp_path, sampler="even")).config.strategy_params
    assert (params["by"], params["sampler"], params["sampler_params"]) == ("sampler", "even", {"shift": 0})
    params = plan_from_python(config("ppo", tmp_path, by="sampler")).config.strategy_params
    assert (params["sampler"], params["protocol"]) == ("fair", "single")


class Mistaken(EvenOnly):
    """Activates whatever the test wants."""

    architecture: Any = None

    def begin_iteration(self) -> None:
        if self.architecture is not None:
            self.set_activate_architecture(self.architecture)


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        (
            [4],
            r"set_activate_architecture: \[4\] is not an architecture \(Mistaken\); allowed: whole numbers from 0 to 3",
        ),
        ([0, 1, 2], r"set_activate_architecture: \[0, 1, 2\] "),
        ([0.5], r"set_activate_architecture: \[0\.5\] "),
        (None, r"has activated no architecture"),
    ],
)
def test_a_mistake_in_step_is_named(architecture: Any, message: str, tmp_path: Path) -> None:
    Mistaken.architecture = architecture
    register_sampler("mistaken")(Mistaken)
    with pytest.raises(MygymError, match=message):
        mygym.train(config("ppo", tmp_path, sampler="mistaken"))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sampler": "fare"}, r"strategy_params\.sampler: 'fare' .*did you mean 'fair'"),
        ({"sampler": "even", "sampler_params": {"shft": 1}}, r"sampler_params\.shft: .*did you mean 'shift'"),
        ({"sampler": "even", "sampler_params": {"shift": "a"}}, r"sampler_params\.shift: 'a' "),
        ({"sampler": "even", "protocol": "softmax"}, r"strategy_params\.protocol: 'softmax' is not the protocol of"),
        ({"sampler_params": {"shift": 1}}, r"sampler_params: .*needs a sampler"),
        ({"sampler": "differentiable", "sampler_params": {"rate": -1.0}}, r"sampler_params\.rate: -1\.0 "),
    ],
)
def test_bad_input_is_refused(params: dict[str, Any], message: str, tmp_path: Path) -> None:
    register_sampler("even")(EvenOnly)
    with pytest.raises((ConfigError, RegistryError), match=message):
        plan_from_python(config("ppo", tmp_path, **params))


PHASES = ("softmax", "single", "sum", "gumbel_softmax")


class Phases(Sampler):
    """Has each protocol for a quarter of the run."""

    protocol = PHASES
    trained: ClassVar[list[str]] = []

    def __init__(self, *, first: int = 0) -> None:
        self.first = first

    def learn(self, rewards: Any) -> None:
        self.trained.append(self.supernet.protocol)

    def begin_iteration(self) -> None:
        progress = min(self.num_timesteps / self.total_timesteps, 0.99)
        phase = PHASES[(int(progress * len(PHASES)) + self.first) % len(PHASES)]
        self.set_forward_state(phase)
        if phase == "single":
            self.set_activate_architecture(np.random.randint(self.candidates, size=(self.rows, self.layers)))  # noqa: NPY002
        elif phase == "sum":
            self.set_arch_param(np.eye(self.candidates)[0])


@pytest.mark.parametrize("algo", slow_except(["ppo", "sac"], "ppo".__eq__))
def test_a_sampler_may_choose_another_protocol_in_each_iteration_and_resumes(algo: str, tmp_path: Path) -> None:
    register_sampler("phases")(Phases)
    Phases.trained.clear()
    settings = config(algo, tmp_path / "whole", sampler="phases", units="blocks", candidates=2)
    settings |= {"steps": 160, "tensorboard": True}
    whole = mygym.train(settings)
    assert tuple(dict.fromkeys(Phases.trained)) == PHASES[: 3 if algo == "ppo" else 4]  # of the last, no rewards
    run = stopped({**settings, "logdir": str(tmp_path / "stopped")}, step=90)
    assert differences(whole.path, Path(mygym.train(resume=run).path)) == []
    assert mygym.load(whole.path).model.policy.forward_state.protocol == "gumbel_softmax"
    assert "mixture" not in whole.strategy  # no search, because training ended with all candidates


def test_a_run_that_ends_with_a_single_path_searches_for_the_best(tmp_path: Path) -> None:
    register_sampler("phases")(Phases)
    settings = config("ppo", tmp_path, sampler="phases", sampler_params={"first": 2}, candidates=2)
    result = mygym.train({**settings, "steps": 160})
    assert len(result.strategy["mixture"]["path"]) == 1


def test_a_protocol_that_the_class_does_not_have_is_refused(tmp_path: Path) -> None:
    class OnlySum(Weighted):
        def begin_iteration(self) -> None:
            self.set_forward_state("softmax")

    register_sampler("only_sum")(OnlySum)
    with pytest.raises(MygymError, match=r"set_forward_state: 'softmax' .*OnlySum .*allowed: protocol sum$"):
        mygym.train(config("ppo", tmp_path, sampler="only_sum"))


def test_step_is_refused_with_the_methods_to_write() -> None:
    class BarSampler(Sampler):
        def step(self) -> None: ...

    with pytest.raises(RegistryError, match=r"'step' .*BarSampler .*begin_iteration"):
        register_sampler("bar")(BarSampler)
    BarSampler.propose = lambda self, count: self.step()  # type: ignore[method-assign]
    register_sampler("bar")(BarSampler)


def test_a_sampler_that_decides_nothing_is_refused() -> None:
    class Undecided(Sampler):
        protocol = "single"

    with pytest.raises(
        RegistryError, match=r"'Undecided' .*allowed: .*begin_iteration\(self\) or propose\(self, count"
    ):
        register_sampler("undecided")(Undecided)
    assert "undecided" not in registry("sampler")


def test_only_samplers_are_registered() -> None:
    with pytest.raises(RegistryError, match=r"allowed: .*Sampler"):
        register_sampler("even")(dict)
