"""XQC: CrossQ with distributions of returns and normalised weights, and with binary actions."""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from itertools import product
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from mygym.algos.sbx import CrossQ, ScheduledCrossQPolicy
from mygym.errors import ConfigError, bad_value

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # tensorflow-probability uses deprecated JAX functions
    import optax
    from flax.traverse_util import flatten_dict, unflatten_dict
    from sbx.common.distributions import TanhTransformedDistribution, tfd
    from sbx.common.jax_layers import BatchRenorm
    from sbx.common.type_aliases import BatchNormTrainState
    from sbx.crossq.policies import Actor

BINS = 101
"""Number of returns to which a critic of XQC gives probabilities."""

RETURNS = np.linspace(-5, 5, BINS, dtype=np.float32)
"""These returns, in units of the `return_scale` of the critics' state, from its `return_center`."""


def hidden_layers(module: Any, values: jax.Array, train: bool) -> jax.Array:
    """Return the outputs `(n, net_arch[-1])` of layers of `module`, with batch normalisation before the activations."""
    normalize = partial(
        BatchRenorm,
        use_running_average=not train,
        momentum=module.batch_norm_momentum,
        warmup_steps=module.renorm_warmup_steps,
    )
    values = normalize()(values)
    for units in module.net_arch:
        values = module.activation_fn(normalize()(nn.Dense(units, use_bias=False)(values)))
    return values


BINARY_TEMPERATURE = 0.02
"""Weight of the entropy of binary actions in the actor's loss, in `return_scale`. The weight for continuous actions is
learned, and falls to a tenth of it. With so little entropy, a hand that holds a cube at its place never opens.
"""


@dataclass(frozen=True)
class ActionDistribution:
    """Distribution of actions `(n, c + b)` whose last `b` components are 1 or −1, independently of the others."""

    continuous: TanhTransformedDistribution
    """Of the first `c` components."""
    log_odds: jax.Array
    """Of 1 against −1, `(n, b)`."""

    def sample_and_log_density(self, seed: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return actions, and the logarithms `(n,)` of the densities of their continuous components."""
        values, log_density = self.continuous.experimental_sample_and_log_prob(seed=seed)
        is_one = jax.random.bernoulli(jax.random.fold_in(seed, 1), jax.nn.sigmoid(self.log_odds))
        return jnp.concatenate([values, jnp.where(is_one, 1.0, -1.0)], -1), log_density

    def sample(self, seed: jax.Array) -> jax.Array:
        """Return actions."""
        return self.sample_and_log_density(seed)[0]

    def expectations(
        self, seed: jax.Array, value: Callable[[jax.Array], jax.Array]
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return the expected value of actions, and the entropies of continuous and of binary ones, each `(n,)`.

        They are of a sample of the continuous components, and of all values of the binary ones: so the probabilities
        of these have a gradient where `value` has none.

        Args:
            seed: Random key of the sample.
            value: Returns values `(n,)` of actions.
        """
        continuous, log_density = self.continuous.experimental_sample_and_log_prob(seed=seed)
        expected = entropy = jnp.zeros(len(continuous))
        for choice in product((1.0, -1.0), repeat=self.log_odds.shape[-1]):
            binary = jnp.broadcast_to(jnp.array(choice), self.log_odds.shape)
            log_prob = jax.nn.log_sigmoid(self.log_odds * binary).sum(-1)
            expected += jnp.exp(log_prob) * value(jnp.concatenate([continuous, binary], -1))
            entropy -= jnp.exp(log_prob) * log_prob
        return expected, -log_density, entropy

    def mode(self) -> jax.Array:
        """Return the actions of an evaluation."""
        return jnp.concatenate([self.continuous.mode(), jnp.where(self.log_odds > 0, 1.0, -1.0)], -1)


class CompiledInit:
    """Mixin of flax modules that compiles `init` as one function, which is quicker than its operations one by one."""

    @nn.nowrap
    def init(self, *args: Any, **kwargs: Any) -> Any:
        """Return the variables of the module, as flax does."""
        return jax.jit(partial(super().init, **kwargs))(*args)  # type: ignore[misc]


class XQCActor(CompiledInit, Actor):
    """CrossQ's actor with `hidden_layers`, and with binary components."""

    binary_actions: int = 0
    """Number of the last components of an action that are 1 or −1."""

    @nn.compact
    def __call__(self, observations: jax.Array, train: bool = False) -> ActionDistribution:
        """Return the distribution of the actions in states `(n, …)`."""
        hidden = hidden_layers(self, observations.reshape(len(observations), -1), train)
        count = self.action_dim - self.binary_actions
        mean, log_odds = jnp.split(nn.Dense(self.action_dim)(hidden), [count], -1)
        log_std = jnp.clip(nn.Dense(count)(hidden), self.log_std_min, self.log_std_max)
        normal = tfd.MultivariateNormalDiag(loc=mean, scale_diag=jnp.exp(log_std))
        return ActionDistribution(TanhTransformedDistribution(normal), log_odds)


class XQCCritic(nn.Module):
    """A critic that gives a distribution of returns."""

    net_arch: Sequence[int]
    batch_norm_momentum: float
    renorm_warmup_steps: int
    activation_fn: Callable[[jax.Array], jax.Array]

    @nn.compact
    def __call__(self, observations: jax.Array, actions: jax.Array, train: bool) -> jax.Array:
        """Return the logits `(n, BINS)` of `RETURNS` after actions `(n, …)` in states `(n, …)`."""
        inputs = jnp.concatenate([observations.reshape(len(observations), -1), actions], -1)
        hidden = hidden_layers(self, inputs, train)
        return nn.Dense(BINS)(hidden)


class XQCCritics(CompiledInit, nn.Module):
    """Several critics; SBX passes the fields that all its critics have."""

    net_arch: Sequence[int]
    batch_norm_momentum: float
    renorm_warmup_steps: int
    activation_fn: Callable[[jax.Array], jax.Array]
    n_critics: int
    use_batch_norm: bool = True
    use_layer_norm: bool = False
    dropout_rate: float | None = None

    def setup(self) -> None:
        """Build the critics."""
        self.critics = nn.vmap(
            XQCCritic,
            variable_axes={"params": 0, "batch_stats": 0},
            split_rngs={"params": True},
            in_axes=None,
            axis_size=self.n_critics,
        )(self.net_arch, self.batch_norm_momentum, self.renorm_warmup_steps, self.activation_fn)

    def __call__(self, observations: jax.Array, actions: jax.Array, train: bool = False) -> jax.Array:
        """Return the mean of the critics' expected returns, `(1, n, 1)` in `return_scale` from `return_center`."""
        probabilities = jax.nn.softmax(self.logits(observations, actions, train))
        return (probabilities @ RETURNS[:, None]).mean(0, keepdims=True)

    def logits(self, observations: jax.Array, actions: jax.Array, train: bool = False) -> jax.Array:
        """Return the logits `(n_critics, n, BINS)`."""
        return self.critics(observations, actions, train)


class AveragedState(BatchNormTrainState):  # type: ignore[no-untyped-call]
    """Networks, and moving averages of their weights or, of the actor, of its variables: weights and statistics."""

    averages: Any


class CriticState(AveragedState):  # type: ignore[no-untyped-call]
    """Critics, and what `XQC.train` sets before each update; the averages are their targets."""

    tau: jax.Array
    """Share of the weights in a step of the averages."""
    return_scale: jax.Array
    """Unit of `RETURNS`."""
    return_center: jax.Array
    """The return that is 0 in `RETURNS`."""


def averaged(cls: Any, state: BatchNormTrainState, averages: Any, **values: jax.Array) -> Any:
    """Return a state of a class with the networks of another state, and averages."""
    names = ("apply_fn", "params", "tx", "batch_stats")
    return cls.create(**{name: getattr(state, name) for name in names}, averages=averages, **values)


def variables(state: BatchNormTrainState) -> dict[str, Any]:
    """Return the weights and the statistics of networks."""
    return {"params": state.params, "batch_stats": state.batch_stats}


def stepped(averages: Any, values: Any, share: jax.Array) -> Any:
    """Return averages after a step towards values; the counters of statistics are those of the values."""

    def step(average: jax.Array, value: jax.Array) -> jax.Array:
        return average + share * (value - average) if jnp.issubdtype(value.dtype, jnp.floating) else value

    return jax.tree.map(step, averages, values)


ACTOR_TAU = 1e-3
"""Share of the actor's variables in each step of their averages, after the first 9,990 updates."""


def unit_norm() -> optax.GradientTransformation:
    """Return the last step of an optimiser: it projects the weights of each unit of `hidden_layers` to norm 1.

    Normalisation follows these layers, so the norm has no effect on their outputs; but while it grows, the effective
    learning rate falls.
    """

    def update(updates: Any, state: Any, params: Any) -> tuple[Any, Any]:
        changes, weights = flatten_dict(updates), flatten_dict(params)  # type: ignore[no-untyped-call]
        for path, weight in weights.items():
            if path[-1] == "kernel" and (*path[:-1], "bias") not in weights:
                new = weight + changes[path]
                changes[path] = new / jnp.linalg.norm(new, axis=-2, keepdims=True) - weight
        return unflatten_dict(changes), state  # type: ignore[no-untyped-call]

    return optax.GradientTransformation(lambda _: optax.EmptyState(), update)


class XQCPolicy(ScheduledCrossQPolicy):
    """Actor and critics of XQC, whose optimisers keep the weights of hidden layers at norm 1.

    Args:
        binary_actions: Number of the last components of an action that are 1 or −1; by default that of the environment
            as `XQC` finds it, otherwise 0.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Box,
        lr_schedule: Any,
        net_arch: list[int] | dict[str, list[int]] | None = None,
        batch_norm_momentum: float = 0.99,
        renorm_warmup_steps: int = 100_000,
        use_sde: bool = False,
        activation_fn: Callable[[jax.Array], jax.Array] = nn.relu,
        optimizer_class: Callable[..., optax.GradientTransformation] = optax.adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        n_critics: int = 2,
        binary_actions: int | None = None,
        actor_class: type[nn.Module] = XQCActor,
        vector_critic_class: type[nn.Module] = XQCCritics,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch,
            batch_norm_momentum=batch_norm_momentum,
            renorm_warmup_steps=renorm_warmup_steps,
            use_sde=use_sde,
            activation_fn=activation_fn,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            n_critics=n_critics,
            actor_class=partial(actor_class, binary_actions=binary_actions or 0),  # type: ignore[arg-type]
            vector_critic_class=vector_critic_class,
        )
        self.binary_actions, size = binary_actions or 0, math.prod(action_space.shape)
        if not 0 <= self.binary_actions < size:
            allowed = f"0 to {size - 1}, because an action has {size} components"
            raise ConfigError(bad_value("algo_params.policy_kwargs.binary_actions", binary_actions, allowed))

    def build(self, *args: Any) -> Any:
        """Build the networks."""
        optimizer_class = self.optimizer_class

        @wraps(optimizer_class)
        def projected(*args: Any, **kwargs: Any) -> optax.GradientTransformation:
            return optax.chain(optimizer_class(*args, **kwargs), unit_norm())

        self.optimizer_class = projected
        try:
            key = super().build(*args)
        finally:
            self.optimizer_class = optimizer_class
        self.actor_state = averaged(AveragedState, self.actor_state, variables(self.actor_state))
        numbers = {"tau": jnp.ones(()), "return_scale": jnp.ones(()), "return_center": jnp.zeros(())}
        self.qf_state = averaged(CriticState, self.qf_state, self.qf_state.params, **numbers)
        return key

    def _predict(self, observation: Any, deterministic: bool = False) -> Any:
        """Return actions; those without noise are of the averages."""
        if deterministic:
            return self.select_action(self.actor_state.replace(**self.actor_state.averages), observation)
        return super()._predict(observation)


class XQC(CrossQ):
    """XQC: CrossQ with distributions of returns and normalised weights (Palenicek et al., 2025).

    As in XQC (arXiv 2509.25174), batch normalisation precedes each activation, weights are projected, and the loss is
    the cross-entropy of the distribution (Bellemare et al., 2017). As in CrossQ, batch renormalisation follows. The
    differences:

    - The distribution spans the range of the returns seen, not a multiple of their deviation from 0: with returns in
      [−20, 0], half of the bins would be empty and the rest too wide for the last stages of a long task.
    - Target networks normalise the next steps by running statistics; CrossQ, which has none, normalises them together
      with the current steps, which takes longer.
    - Actor and critics learn from the mean of the critics. With the lower one, `build_tower` learns late or never to
      open the hand, because at first this rarely completes a stage.
    - The target entropy `auto` is −0.5 for each continuous component of an action (SimbaV2, Lee et al., 2025).
    - Of binary components, such as those of `control.gripper: binary`, the actor gives the probabilities, and learns
      from the expected return over their values (Delalleau et al., 2019). Their entropy is no part of the returns; it
      has the weight `BINARY_TEMPERATURE` in the actor's loss.
    - Actions without noise, as in evaluations, come from moving averages of the actor's weights and statistics, because
      the success of the latest weights varies.

    Args:
        tau: Share of the critics' weights in each step of the moving averages that are their targets; 1: no targets.
    """

    policy_aliases: ClassVar[dict[str, Any]] = {"MlpPolicy": XQCPolicy, "MultiInputPolicy": XQCPolicy}

    def __init__(self, policy: Any, env: Any, tau: float = 0.01, **kwargs: Any) -> None:
        super().__init__(policy, env, **kwargs)
        self.tau = tau

    def _setup_model(self) -> None:
        is_automatic = self.target_entropy == "auto"
        is_given = self.policy_kwargs.get("binary_actions") is not None
        if not is_given and self.env is not None and self.env.has_attr("binary_actions"):
            self.policy_kwargs = {**self.policy_kwargs, "binary_actions": self.env.get_attr("binary_actions")[0]}
        super()._setup_model()
        if is_automatic:  # a deviation of about 0.15 in each component; with CrossQ's −1 the policy stops to explore
            policy: Any = self.policy
            self.target_entropy = -0.5 * float(np.prod(self.action_space.shape) - policy.binary_actions)
        # e⁻⁵ of a return comes from later steps; at most 1,000, as for γ = 0.995.
        self._recent: deque[tuple[Any, Any]] = deque(maxlen=math.ceil(5 / max(1 - self.gamma, 0.005)))
        self._range = (0.0, 0.0)

    def _store_transition(
        self, replay_buffer: Any, buffer_action: Any, new_obs: Any, reward: Any, dones: Any, infos: Any
    ) -> None:
        """Store a step, and its rewards for the range of returns."""
        self._recent.append((np.array(reward, float), np.array(dones)))
        super()._store_transition(replay_buffer, buffer_action, new_obs, reward, dones, infos)

    def return_range(self) -> tuple[float, float]:
        """Return the least and the largest of 0 and the returns seen; what follows a truncation counts as 0."""
        returns: Any = 0.0
        least, largest = self._range
        for reward, dones in reversed(self._recent):
            returns = reward + self.gamma * np.where(dones, 0.0, returns)
            least, largest = min(least, float(returns.min())), max(largest, float(returns.max()))
        self._range = least, largest
        return self._range

    def train(self, gradient_steps: int, batch_size: int) -> None:
        """Update the networks."""
        policy: Any = self.policy
        least, largest = self.return_range()
        scale = (largest - least) / (RETURNS[-1] - RETURNS[0]) or 1.0
        self.logger.record("train/return_scale", scale)
        numbers = {"tau": self.tau, "return_scale": scale, "return_center": (least + largest) / 2}
        policy.qf_state = policy.qf_state.replace(
            **{name: jnp.asarray(value, jnp.float32) for name, value in numbers.items()}
        )
        super().train(gradient_steps, batch_size)

    @staticmethod
    @jax.jit
    def update_actor(
        actor_state: Any, qf_state: Any, ent_coef_state: Any, observations: jax.Array, key: jax.Array
    ) -> tuple[Any, Any, jax.Array, jax.Array, jax.Array]:
        """Return the actor after an update, the critics, the actor's loss, the next key and the entropy."""
        key, _, noise_key = jax.random.split(key, 3)  # as in CrossQ, which needs another one for its critics
        ent_coef = ent_coef_state.apply_fn({"params": ent_coef_state.params})

        def loss(params: Any) -> tuple[jax.Array, Any]:
            distribution, changed = actor_state.apply_fn(
                {"params": params, "batch_stats": actor_state.batch_stats},
                observations,
                mutable=["batch_stats"],
                train=True,
            )
            values, entropies, binary_entropies = distribution.expectations(
                noise_key, lambda actions: qf_state.apply_fn(variables(qf_state), observations, actions)[0, :, 0]
            )
            objective = values + ent_coef * entropies + BINARY_TEMPERATURE * binary_entropies
            return -objective.mean(), (entropies.mean(), changed["batch_stats"])

        (loss_value, (entropy, statistics)), gradients = jax.value_and_grad(loss, has_aux=True)(actor_state.params)
        actor_state = actor_state.apply_gradients(grads=gradients).replace(batch_stats=statistics)
        # At first, the average is over the last tenth of the updates.
        share = jnp.maximum(ACTOR_TAU, 10 / (actor_state.step + 10))
        averages = stepped(actor_state.averages, variables(actor_state), share)
        return actor_state.replace(averages=averages), qf_state, loss_value, key, entropy

    @staticmethod
    @jax.jit
    def update_critic(
        actor_state: Any,
        qf_state: Any,
        ent_coef_state: Any,
        observations: jax.Array,
        actions: jax.Array,
        next_observations: jax.Array,
        rewards: jax.Array,
        dones: jax.Array,
        discounts: jax.Array,
        key: jax.Array,
    ) -> tuple[Any, tuple[jax.Array, jax.Array], jax.Array]:
        """Return the critics after an update, their loss, the entropy coefficient and the next key."""
        key, noise_key = jax.random.split(key)
        distribution = actor_state.apply_fn(
            {"params": actor_state.params, "batch_stats": actor_state.batch_stats}, next_observations
        )
        next_actions, log_density = distribution.sample_and_log_density(noise_key)
        ent_coef = ent_coef_state.apply_fn({"params": ent_coef_state.params})
        bonus = -ent_coef * log_density

        logits = qf_state.apply_fn(
            {"params": qf_state.averages, "batch_stats": qf_state.batch_stats},
            next_observations,
            next_actions,
            method="logits",
        )
        probabilities = jax.nn.softmax(logits).mean(0)
        following = (RETURNS + bonus[:, None]) * qf_state.return_scale + qf_state.return_center
        returns = rewards[:, None] + ((1 - dones) * discounts)[:, None] * following
        target = project((returns - qf_state.return_center) / qf_state.return_scale, probabilities)

        def loss(params: Any) -> tuple[jax.Array, Any]:
            logits, changed = qf_state.apply_fn(
                {"params": params, "batch_stats": qf_state.batch_stats},
                observations,
                actions,
                method="logits",
                mutable=["batch_stats"],
                train=True,
            )
            return -(target * jax.nn.log_softmax(logits)).sum(-1).mean(1).sum(), changed["batch_stats"]

        (loss_value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(qf_state.params)
        qf_state = qf_state.apply_gradients(grads=gradients)
        averages = stepped(qf_state.averages, qf_state.params, qf_state.tau)
        return qf_state.replace(batch_stats=statistics, averages=averages), (loss_value, ent_coef), key


def project(returns: jax.Array, probabilities: jax.Array) -> jax.Array:
    """Return a distribution on `RETURNS`: each probability is shared between the two neighbours of its return.

    Args:
        returns: Returns `(n, BINS)`; those outside the range of `RETURNS` become its ends.
        probabilities: Their probabilities `(n, BINS)`.
    """
    places = (jnp.clip(returns, RETURNS[0], RETURNS[-1]) - RETURNS[0]) / (RETURNS[1] - RETURNS[0])
    below = jnp.clip(places.astype(jnp.int32), 0, BINS - 2)
    above, rows = places - below, jnp.arange(len(returns))[:, None]
    shares = jnp.zeros_like(probabilities).at[rows, below].add(probabilities * (1 - above))
    return shares.at[rows, below + 1].add(probabilities * above)
