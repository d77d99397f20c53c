"""XQC: the projection of distributions, the norms of weights, the scale of rewards, binary actions, its framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from mygym.errors import ConfigError
from mygym.planning.resolve import resolve_config
from mygym.registry import algorithm
from mygym.training.policy import load_weights
from mygym.training.policy import weights as weights_of


def test_jax_is_chosen_as_the_only_framework() -> None:
    resolved = resolve_config(overrides={"algo": "xqc"})
    assert resolved.config.framework == algorithm("xqc").framework == "jax"
    assert resolved.origins["framework"] == "algorithm xqc"


def test_a_probability_is_shared_between_the_neighbours_of_its_return() -> None:
    from mygym.algos.xqc import project

    probabilities = np.zeros((3, 101), np.float32)
    probabilities[:, [0, 1]] = 0.75, 0.25
    returns = np.full((3, 101), 9.0, np.float32)
    returns[:, :2] = [[0.0, 0.125], [-7.0, 7.0], [5.0, 4.98]]
    expected = np.zeros((3, 101))
    expected[0, [50, 51, 52]] = 0.75, 0.25 * 0.75, 0.25 * 0.25
    expected[1, [0, 100]] = 0.75, 0.25
    expected[2, [99, 100]] = 0.25 * 0.2, 0.75 + 0.25 * 0.8
    np.testing.assert_allclose(project(returns, probabilities), expected, atol=1e-4)


def test_the_last_step_of_the_optimiser_projects_hidden_weights() -> None:
    from mygym.algos.xqc import unit_norm

    weights = {"Dense_0": {"kernel": np.ones((2, 3))}, "Dense_1": {"kernel": np.ones((3, 1)), "bias": np.ones(1)}}
    updates = {"Dense_0": {"kernel": np.full((2, 3), 2.0)}, "Dense_1": {"kernel": np.ones((3, 1)), "bias": np.ones(1)}}
    changes, _ = unit_norm().update(updates, unit_norm().init(weights), weights)
    np.testing.assert_allclose(changes["Dense_0"]["kernel"] + 1, 0.5**0.5, rtol=1e-6)  # of each column of two
    np.testing.assert_array_equal(changes["Dense_1"]["kernel"], 1)


def build(env: Any = None, **params: Any) -> Any:
    """Return a small XQC, by default on a pendulum."""
    from mygym.algos.xqc import XQC

    params = {"learning_starts": 4, "batch_size": 8, "train_freq": 3, "gradient_steps": 3, **params}
    env = env or gymnasium.make("Pendulum-v1")
    return XQC("MlpPolicy", env, gamma=0.5, seed=0, policy_kwargs={"net_arch": [8, 8]}, **params)


def updated_critics(model: Any, state: Any, rewards: float, dones: float, discounts: float) -> Any:
    """Return the critics after an update with four steps of equal rewards."""
    numbers = np.arange(1, 5, dtype=np.float32)[:, None]
    batch = {name: numbers * np.ones(size, np.float32) for name, size in (("observations", 3), ("actions", 1))}
    of_all = {"rewards": rewards, "dones": dones, "discounts": discounts}
    return model.update_critic(
        model.policy.actor_state,
        state,
        model.ent_coef_state,
        **batch,
        next_observations=2 * batch["observations"],
        **{name: np.full(4, value, np.float32) for name, value in of_all.items()},
        key=model.key,
    )[0]


def test_the_range_is_of_the_returns_seen() -> None:
    model = build()
    observation = np.zeros((1, 3))
    model._last_obs = observation
    for reward, done in ((2.0, False), (4.0, True), (-1.0, False), (-4.0, False), (0.0, False)):
        infos = [{"terminal_observation": observation[0]}]
        model._store_transition(
            model.replay_buffer, np.zeros((1, 1)), observation, np.array([reward]), np.array([done]), infos
        )
    assert model.return_range() == (-4, 4)  # returns: 4 = 2 + 4 / 2, 4 at the end, -3, -4, 0
    again = build()
    again.load_state_dict(model.state_dict())
    again._recent.extend([(np.array([2.0]), np.array([False]))] * 2)
    assert again.return_range() == (-4, 4), "a resumed run has another range"
    assert list(again._recent)[:1] == list(model._recent)[:1]


def test_an_update_gives_a_terminal_step_its_reward_as_its_return() -> None:
    import jax.numpy as jnp

    model = build(learning_rate=0.01)
    state = model.policy.qf_state.replace(return_scale=jnp.float32(2), return_center=jnp.float32(-10))
    for _ in range(200):
        state = updated_critics(model, state, rewards=-13, dones=1, discounts=0.5)
    step = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)
    expected = state.apply_fn({"params": state.params, "batch_stats": state.batch_stats}, *step)
    np.testing.assert_allclose(expected, (-13 + 10) / 2, atol=0.4)


def test_critics_learn_from_the_mean_of_their_targets_and_the_actor_from_the_mean_of_the_critics() -> None:
    import jax

    model = build(learning_rate=0.01, ent_coef=1e-9)
    state = model.policy.qf_state
    targets = jax.tree.map(np.zeros_like, state.averages)
    targets["critics"]["Dense_2"]["bias"][[0, 1], [0, 75]] = 30  # returns of −5 and 2.5
    for _ in range(200):
        state = updated_critics(model, state.replace(averages=targets), rewards=0, dones=0, discounts=1)
    variables = {"params": state.params, "batch_stats": state.batch_stats}
    step = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)
    logits = np.asarray(state.apply_fn(variables, *step, method="logits"))
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(probabilities[..., [0, 75]], 0.5, atol=0.2)

    apart = jax.tree.map(np.array, state.params)
    apart["critics"]["Dense_2"]["bias"][[0, 1], [0, 75]] += 30
    expected = state.apply_fn({**variables, "params": apart}, *step)
    np.testing.assert_allclose(expected, np.full((1, 4, 1), -1.25), atol=0.01)


def test_averages_of_the_weights_follow_them_and_are_targets_and_act() -> None:
    import jax

    model = build(tau=0.25, gradient_steps=1, train_freq=1, policy_delay=1).learn(5)
    policy = model.policy
    critics, actor, share = policy.qf_state, policy.actor_state, 10 / (policy.actor_state.step + 11)
    model.train(1, 8)
    after = policy.qf_state
    state = policy.actor_state
    variables = {"params": state.params, "batch_stats": state.batch_stats}
    for rate, old, averages, new in (
        (0.25, critics.averages, after.averages, after.params),
        (share, actor.averages, state.averages, variables),
    ):
        for mean, result, value in zip(*map(jax.tree.leaves, (old, averages, new)), strict=True):
            is_counter = np.issubdtype(value.dtype, np.integer)
            np.testing.assert_allclose(result, value if is_counter else mean + rate * (value - mean), atol=1e-6)
        assert any(map(np.any, jax.tree.leaves(jax.tree.map(np.subtract, averages, new))))

    observation = np.ones((1, 3), np.float32)
    other = jax.tree.map(lambda value: value + 1, variables)
    changed = [state.replace(averages={**state.averages, name: other[name]}) for name in variables]
    action, same, *others = (
        model.policy.predict(observation, deterministic=True)[0]
        for policy.actor_state in (state, state.replace(**other), *changed)
    )
    np.testing.assert_array_equal(action, same)
    assert np.isfinite(others).all()
    assert action not in others
    policy.actor_state = state
    saved = build()
    load_weights(saved, weights_of(model))
    np.testing.assert_array_equal(saved.predict(observation, deterministic=True)[0], action)

    biases = []
    for targets in (after.averages, jax.tree.map(np.negative, after.averages)):
        new = updated_critics(model, after.replace(averages=targets), rewards=0, dones=0, discounts=1)
        biases.append(new.params["critics"]["Dense_2"]["bias"])
    assert np.abs(biases[0] - biases[1]).max() > 1e-4


def test_binary_components_have_exact_expectations_and_gradients() -> None:
    import jax
    import jax.numpy as jnp

    from mygym.algos.xqc import ActionDistribution, TanhTransformedDistribution, tfd

    log_odds, values = np.array([[0.5, -1.0], [2.0, 0.0]]), np.array([[3.0, -2.0], [1.0, 8.0]])
    normal = tfd.MultivariateNormalDiag(loc=jnp.full((2, 1), 0.3), scale_diag=jnp.full((2, 1), 0.4))
    is_one = 1 / (1 + np.exp(-log_odds))

    def actor(odds: Any) -> Any:
        return ActionDistribution(TanhTransformedDistribution(normal), odds)

    def value(actions: Any) -> Any:
        """Return values that are steps of the binary components, and depend on both together."""
        first, second = (actions[:, 1] > 0).astype(int), (actions[:, 2] > 0).astype(int)
        return jnp.asarray(values)[first, second]

    key = jax.random.key(1)
    expectations = jax.jit(lambda odds: actor(odds).expectations(key, value))
    expected, entropy, binary_entropy = expectations(log_odds)
    weights = [np.stack([1 - p, p]) for p in is_one.T]  # of −1 and 1, for each row
    np.testing.assert_allclose(expected, np.einsum("in,jn,ij->n", *weights, values), rtol=1e-5)
    gradient = jax.jit(jax.grad(lambda odds: expectations(odds)[0].sum()))(log_odds)
    slopes = [np.einsum("jn,j->n", weights[1], values[1] - values[0]), (values[:, 1] - values[:, 0]) @ weights[0]]
    np.testing.assert_allclose(gradient, np.transpose(slopes) * is_one * (1 - is_one), rtol=1e-5)
    of_each = -(is_one * np.log(is_one) + (1 - is_one) * np.log(1 - is_one)).sum(1)
    np.testing.assert_allclose(binary_entropy, of_each, rtol=1e-5)

    draw = jax.jit(actor(log_odds).sample_and_log_density)
    sampled, log_density = jax.jit(jax.vmap(draw))(jax.random.split(key, 4000))
    assert set(np.unique(sampled[..., 1:])) == {-1, 1}
    np.testing.assert_allclose((sampled[..., 1:] > 0).mean(0), is_one, atol=0.04)
    np.testing.assert_allclose(-log_density.mean(0), _entropy_of_tanh_normal(0.3, 0.4), atol=0.08)
    _, of_the_same = draw(key)
    np.testing.assert_allclose(entropy, -of_the_same, rtol=1e-5)
    np.testing.assert_array_equal(actor(log_odds).mode()[:, 1:], [[1, -1], [1, -1]])


def _entropy_of_tanh_normal(mean: float, deviation: float) -> float:
    """Return the entropy of the hyperbolic tangent of a normal variable, by its integral."""
    z = np.linspace(-8, 8, 4001)
    log_density = -(z**2) / 2 - np.log(deviation * np.sqrt(2 * np.pi)) - np.log1p(-(np.tanh(mean + deviation * z) ** 2))
    return float(-np.trapezoid(log_density * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), z))


def test_binary_components_that_matter_little_are_explored() -> None:
    """With the temperature of the continuous components, this policy would always close the hand."""
    import jax

    from mygym.algos.xqc import BINARY_TEMPERATURE

    model = build(env=Doors(), ent_coef=1e-9, learning_rate=0.01, policy_delay=1, batch_size=64)
    policy, worse = model.policy, 2 * BINARY_TEMPERATURE
    observations = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]

    def critics(variables: Any, observations: Any, actions: Any) -> Any:
        """Return values that are worse, by twice the temperature, if the binary component is 1."""
        return (-worse * (actions[:, 1] > 0))[None, :, None]

    state, key = policy.actor_state, model.key
    for _ in range(300):
        state, _, _, key, _ = model.update_actor(
            state, policy.qf_state.replace(apply_fn=critics), model.ent_coef_state, observations, key
        )
    odds = state.apply_fn({"params": state.params, "batch_stats": state.batch_stats}, observations).log_odds
    np.testing.assert_allclose(jax.nn.sigmoid(odds), 1 / (1 + np.exp(2)), atol=0.1)
    assert jax.nn.sigmoid(odds).mean() > 0.08


class Doors(gymnasium.Env[Any, Any]):
    """Episodes of a step, rewarded if the sign of the second component is that of the observation."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (2,))
    binary_actions = 1

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Return a new observation."""
        super().reset(**kwargs)
        self.observation = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """End the episode."""
        return self.observation, float(action[1] * self.observation[0] > 0), True, False, {}


def test_binary_components_are_learned_and_saved(tmp_path: Path) -> None:
    from mygym.algos.xqc import XQC

    every = {"train_freq": 8, "gradient_steps": 8, "policy_delay": 2}
    model = XQC("MlpPolicy", Doors(), seed=0, learning_starts=50, policy_kwargs={"net_arch": [32]}, **every)
    assert model.target_entropy == -0.5  # of the continuous component
    continuous = XQC("MlpPolicy", Doors(), policy_kwargs={"net_arch": [32], "binary_actions": 0})
    assert continuous.target_entropy == -1
    for number in (-1, 2):
        with pytest.raises(ConfigError, match=rf"binary_actions: {number} is not allowed; allowed: 0 to 1"):
            XQC("MlpPolicy", Doors(), policy_kwargs={"binary_actions": number})
    model.learn(600)
    observations = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
    actions = model.predict(observations, deterministic=True)[0]
    assert set(actions[:, 1]) == {-1, 1}
    assert (actions[:, 1] * observations[:, 0] > 0).mean() > 0.85
    model.save(tmp_path / "model.zip")
    np.testing.assert_array_equal(
        XQC.load(tmp_path / "model.zip").predict(observations, deterministic=True)[0], actions
    )


@pytest.mark.slow
def test_an_update_uses_the_scale_and_keeps_the_norms() -> None:
    model = build(learning_rate=0.1).learn(30)
    assert model.policy.qf_state.return_scale > 1
    for state in (model.policy.qf_state, model.policy.actor_state):
        layers = state.params.get("critics", state.params)
        for name in ("Dense_0", "Dense_1"):
            np.testing.assert_allclose(np.linalg.norm(layers[name]["kernel"], axis=-2), 1, atol=1e-5)
        assert np.abs(np.linalg.norm(layers["Dense_2"]["kernel"], axis=-2) - 1).max() > 0.01
