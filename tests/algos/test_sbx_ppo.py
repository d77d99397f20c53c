"""PPO in JAX does the same as SBX's, with fewer calls."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from mygym.planning.plan import make_plan
from mygym.training.env_factory import make_vec_env
from mygym.training.learners import Rollout
from mygym.training.model_factory import build_model

pytestmark = pytest.mark.skipif(find_spec("sbx") is None, reason="needs SBX (the extra `jax`)")
"""Not `importorskip`: each process that collects the tests would import JAX, which takes two seconds."""

CONFIG: dict[str, Any] = {
    "algo": "ppo",
    "framework": "jax",
    "engine": "fused",
    "n_envs": 6,
    "steps": 96,
    "task_params": {"horizon": 5},
    "normalize": False,
    "algo_params": {"n_steps": 8, "n_epochs": 3, "learning_rate": 0.01, "policy_kwargs": {"net_arch": [8]}},
}


def trained(config: dict[str, Any], plain: bool) -> Any:
    """Return a model after two rollouts, trained by SBX itself if `plain`."""
    with ExitStack() as stack:
        plan = make_plan(config)
        model = build_model(plan, make_vec_env(plan, stack))
        if plain:
            import sbx  # imported by the model; here, its deprecations would be errors

            model.train = sbx.PPO.train.__get__(model)
            model.collect_rollouts = sbx.PPO.collect_rollouts.__get__(model)
        return model.learn(config["steps"])


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
@pytest.mark.parametrize(
    ("batch_size", "more"),
    [
        (20, {"normalize": True}),  # 48 = 2 * 20 + 8
        pytest.param(
            16,
            {"algo_params": {"learning_rate": {"schedule": "linear", "from": 0.01, "to": 0.001}}},
            marks=pytest.mark.slow,
        ),
        pytest.param(16, {"actions": {"discrete": 3, "combined": True}}, marks=pytest.mark.slow),
        pytest.param(16, {"actions": {"discrete": 3}}, marks=pytest.mark.slow),
        pytest.param(16, {"algo_params": {"target_kl": 0.01}}, marks=pytest.mark.slow),
    ],
)
def test_the_weights_are_those_of_sbx(batch_size: int, more: dict[str, Any]) -> None:
    """Rollouts are longer than episodes, so rewards contain the values of the last states of truncated episodes."""
    import jax

    params = {**CONFIG["algo_params"], "batch_size": batch_size, **more.get("algo_params", {})}
    config = {**CONFIG, **more, "algo_params": params}
    compiled, plain = trained(config, plain=False), trained(config, plain=True)
    first, last = (model.rollout_buffer.rewards for model in (compiled, plain))
    np.testing.assert_allclose(first, last, rtol=1e-4)
    for name in ("actor_state", "vf_state"):
        left, right = (jax.tree.leaves(getattr(model.policy, name).params) for model in (compiled, plain))
        assert left
        for array, expected in zip(left, right, strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-3, atol=1e-5)
    figures = [model.logger.name_to_value for model in (compiled, plain)]
    assert figures[0].keys() == figures[1].keys()
    for name in ("train/approx_kl", "train/clip_fraction", "train/learning_rate"):
        assert all(isinstance(values[name], float | np.number) for values in figures)
        np.testing.assert_allclose(*(values[name] for values in figures), rtol=1e-2, atol=1e-4)


@pytest.mark.slow
def test_it_trains_with_the_rollouts_of_all_processes_or_not_at_all() -> None:
    """The main process trains with more steps than it has collected; another process does not train."""

    def doubled(rollout: Rollout) -> Rollout:
        return {name: np.concatenate([array, array]) for name, array in rollout.items()}

    plan = make_plan({**CONFIG, "algo_params": {**CONFIG["algo_params"], "batch_size": 16}})
    steps = []
    for gather in (None, doubled, lambda rollout: None):
        with ExitStack() as stack:
            model = build_model(plan, make_vec_env(plan, stack))
            model.gather_rollouts = gather
            model.learn(48)
            steps.append(int(model.policy.actor_state.step))
    assert steps == [9, 18, 0]  # 48 env steps in minibatches of 16, 3 epochs
