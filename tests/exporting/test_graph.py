"""Graphs of all algorithms: the same actions as `Policy.predict`, for any number of rows."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mygym.errors import RunError
from mygym.exporting.exported_policy import FLAT, METADATA, ROWS, VERSION, ExportedPolicy
from mygym.exporting.graph import acting_graph, to_onnx
from mygym.planning.resolve import from_python
from mygym.registry import resolve
from mygym.strategies.mixture.routing import PROTOCOLS
from mygym.training import env_factory, model_factory
from mygym.training.policy import Policy, normalizer_of
from tests.components import COMBOS, small

ROUNDING = 5e-5
"""Largest difference of actions; large weights round more, on some processors above the limit of an export."""

DESCRIPTION = {
    "version": VERSION,
    "env": {"imports": [], "labels": [], "arguments": [], "codes": None},
    "observation": {},
    "action": {},
    "control": {"rate_hz": 25.0},
    "robot": {"arms": []},
    "home": {"joint_position": []},
}

QUICK = ("sac", "recurrent_ppo", "dqn")
"""An algorithm of each kind: scaled actions, clipped actions with a state, discrete actions."""

CASES = [
    *(
        pytest.param(
            {"algo": algo, "algo_params": small(algo)}, id=algo, marks=[] if algo in QUICK else pytest.mark.slow
        )
        for algo, framework in COMBOS
        if framework == "pytorch"
    ),
    pytest.param({"algo": "multippo", "task": "push"}, id="networks by stage", marks=pytest.mark.slow),
    pytest.param(
        {"algo": "ppo", "control": "joint_delta", "actions": {"discrete": 3}},
        id="several discrete actions",
        marks=pytest.mark.slow,
    ),
    *(
        pytest.param(
            {"algo": "sac", "strategy": "mixture", "strategy_params": {"protocol": protocol}},
            id=protocol,
            marks=pytest.mark.slow,
        )
        for protocol in PROTOCOLS
    ),
]


def untrained(config: dict[str, Any]) -> tuple[Policy, Any]:
    """Return a policy whose normaliser has seen some steps, and observations `(7, …)`, some beyond the usual range."""
    complete = from_python({"n_envs": 1, **config}).config
    with contextlib.closing(env_factory.make_vec_env(complete)) as env:
        model = model_factory.build_model(complete, env)
        env.reset()
        env.action_space.seed(0)
        for _ in range(20):
            env.step(np.array([env.action_space.sample()]))
        policy = Policy(model, normalizer_of(env))
    if hasattr(model.policy, "action_net"):  # begins near 0; larger weights exceed the limits
        with torch.no_grad():
            for parameter in model.policy.action_net.parameters():
                parameter *= 300
    with contextlib.closing(env_factory.make_env(complete)) as env:
        space, (first, _) = env.observation_space, env.reset(seed=0)
    rng = np.random.default_rng(0)
    noise = np.array([0, 0.01, 0.1, 0.3, 1, 3, 30])
    if isinstance(space, spaces.Dict):
        return policy, {key: scattered(value, noise, rng) for key, value in first.items()}
    return policy, scattered(first, noise, rng)


def scattered(values: Any, noise: Any, rng: np.random.Generator) -> Any:
    """Return rows around an observation."""
    return (values + noise[:, None] * rng.standard_normal((len(noise), len(values)))).astype(np.float32)


def rows(observations: Any, chosen: Any) -> Any:
    """Return some rows of a batch."""
    return {k: v[chosen] for k, v in observations.items()} if isinstance(observations, dict) else observations[chosen]


@pytest.mark.parametrize("config", CASES)
def test_a_graph_acts_as_the_policy(config: dict[str, Any], tmp_path: Path) -> None:
    policy, observations = untrained(config)
    file = tmp_path / "policy.onnx"
    names = observations if isinstance(observations, dict) else [FLAT]
    observed = {name: {"dtype": "float32"} for name in names}
    file.write_bytes(to_onnx(acting_graph(policy), {**DESCRIPTION, "observation": observed}))
    exported = ExportedPolicy(file)
    expected, state = policy.predict(observations)
    actions, other_state = exported.predict(observations)
    assert actions.dtype == expected.dtype
    np.testing.assert_allclose(actions, expected, rtol=0, atol=ROUNDING)
    assert (state is None) == (other_state is None)
    for chosen in (slice(2, 3), 3):  # a batch of one, and a single observation
        few = rows(observations, chosen)
        np.testing.assert_allclose(exported.predict(few)[0], policy.predict(few)[0], rtol=0, atol=ROUNDING)
    if state is not None:
        for starts in (None, np.arange(7) % 2 == 0):
            expected, following = policy.predict(observations, state, starts)
            actions, other_following = exported.predict(observations, state, starts)
            np.testing.assert_allclose(actions, expected, rtol=0, atol=ROUNDING)
            np.testing.assert_allclose(other_following, following, rtol=0, atol=ROUNDING)


def test_a_file_has_named_axes_and_no_traces_of_the_machine(tmp_path: Path) -> None:
    policy, _ = untrained({"algo": "sac", "algo_params": small("sac")})
    model = resolve("onnx:load_from_string")(to_onnx(acting_graph(policy), DESCRIPTION))
    assert [axis.dim_param for value in model.graph.input for axis in value.type.tensor_type.shape.dim[:1]] == [
        ROWS
    ] * 3
    assert b".py" not in model.SerializeToString()
    assert json.loads(next(entry.value for entry in model.metadata_props if entry.key == METADATA)) == DESCRIPTION


def acted(graph: Any, observations: Any) -> Any:
    """Return the actions of a graph, without a file."""
    inputs = observations if isinstance(observations, dict) else {FLAT: observations}
    with torch.no_grad():
        return graph({name: torch.as_tensor(values) for name, values in inputs.items()})["action"].numpy()


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"algo": "sac"}, id="squashed", marks=pytest.mark.slow),
        pytest.param({"algo": "crossq"}, id="batch normalisation", marks=pytest.mark.slow),
        pytest.param({"algo": "xqc"}, id="batch normalisation before activations", marks=pytest.mark.slow),
        pytest.param(
            {"algo": "xqc", "task": "pick_and_place", "control": {"gripper": "binary"}},
            id="binary",
            marks=pytest.mark.slow,
        ),
        pytest.param({"algo": "td3"}, id="deterministic", marks=pytest.mark.slow),
        pytest.param({"algo": "ppo"}, id="clipped", marks=pytest.mark.slow),
        pytest.param(
            {
                "algo": "ppo",
                "actions": {"discrete": 3, "combined": True},
                "algo_params": {"policy_kwargs": {"activation_fn": "gelu"}},
            },
            id="discrete",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_graph_acts_as_a_policy_of_jax(config: dict[str, Any]) -> None:
    policy, observations = untrained({**config, "framework": "jax"})
    state = policy.model.policy.actor_state
    if hasattr(state, "batch_stats"):  # figures of training, which are 0 and 1 at first
        figures = {
            name: {**values, "mean": values["mean"] + 0.3, "var": values["var"] * 1.7}
            for name, values in state.batch_stats.items()
        }
        policy.model.policy.actor_state = state.replace(batch_stats=figures)
    expected, _ = policy.predict(observations)
    actions = acted(acting_graph(policy), observations)
    assert actions.dtype == expected.dtype
    assert np.ptp(expected, axis=0).min() > 0  # the actions depend on the observations
    np.testing.assert_allclose(actions, expected, rtol=0, atol=ROUNDING)


@pytest.mark.slow
def test_a_network_of_jax_with_other_layers_is_refused() -> None:
    policy, _ = untrained({"algo": "sac", "framework": "jax", "algo_params": {"policy": "SimbaPolicy"}})
    with pytest.raises(RunError, match="SimbaSACPolicy has the layers LayerNorm, SimbaResidualBlock"):
        acting_graph(policy)
