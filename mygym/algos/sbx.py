"""Algorithms of SBX (Stable-Baselines3 in JAX) with `state_dict` and learning rate schedules."""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import explained_variance

from mygym.algos.stable_baselines import BootstrapCallback, GaussianExploration
from mygym.training.checkpoints.states import Stateful
from mygym.training.learners import GatherRollouts, Rollout

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # tensorflow-probability uses deprecated JAX functions
    import optax
    import sbx
    from flax.training.train_state import TrainState
    from flax.traverse_util import flatten_dict, unflatten_dict
    from sbx.common.distributions import TanhTransformedDistribution, tfd
    from sbx.common.jax_layers import BatchRenorm
    from sbx.common.type_aliases import BatchNormTrainState
    from sbx.crossq.policies import Actor, CrossQPolicy, SimbaCrossQPolicy
    from sbx.ppo.policies import CnnPolicy
    from sbx.td3.policies import TD3Policy


class ScheduledPolicy:
    """Mixin for policies whose optimisers have a fixed learning rate in SBX (TD3, CrossQ): makes it adjustable."""

    optimizer_class: Any

    def build(self, *args: Any) -> Any:
        """Build the networks with adjustable optimisers."""
        optimizer_class = self.optimizer_class
        self.optimizer_class = optax.inject_hyperparams(optimizer_class)
        try:
            return super().build(*args)  # type: ignore[misc]
        finally:
            self.optimizer_class = optimizer_class


class ScheduledTD3Policy(ScheduledPolicy, TD3Policy):
    """TD3's actor and critics."""


class ScheduledCrossQPolicy(ScheduledPolicy, CrossQPolicy):
    """CrossQ's actor and critics."""


class ScheduledSimbaCrossQPolicy(ScheduledPolicy, SimbaCrossQPolicy):
    """CrossQ's actor and critics with residual blocks (Lee et al., 2024)."""


class ScheduledLearningRate:
    """Mixin that sets all learning rates before training, including the entropy coefficient's; SBX omits some."""

    read_at_updates = ("learning_rate",)
    """Hyperparameters that may follow a schedule although SBX's classes read them once."""

    def _setup_model(self) -> None:
        super()._setup_model()  # type: ignore[misc]
        state: Any = getattr(self, "ent_coef_state", None)
        if state is not None and _hyperparams(state) is None:
            tx = optax.inject_hyperparams(optax.adam)(learning_rate=self.lr_schedule(1))  # type: ignore[attr-defined]
            self.ent_coef_state = TrainState.create(  # type: ignore[no-untyped-call]
                apply_fn=state.apply_fn, params=state.params, tx=tx
            )

    def train(self, gradient_steps: int, batch_size: int) -> None:
        """Set the learning rates and train."""
        rate = self.lr_schedule(self._current_progress_remaining)  # type: ignore[attr-defined]
        states = {**vars(self.policy), "ent_coef_state": getattr(self, "ent_coef_state", None)}  # type: ignore[attr-defined]
        for name, state in states.items():
            if name.endswith("_state") and (hyperparams := _hyperparams(state)) is not None:
                qf_rate = self.initial_qf_learning_rate if name.startswith("qf") else None  # type: ignore[attr-defined]
                hyperparams["learning_rate"] = qf_rate or rate
        self.logger.record("train/learning_rate", rate)  # type: ignore[attr-defined]
        super().train(gradient_steps, batch_size)  # type: ignore[misc]


def _hyperparams(state: Any) -> dict[str, Any] | None:
    """Return the adjustable hyperparameters of a train state's optimiser."""
    return getattr(getattr(state, "opt_state", None), "hyperparams", None)


class SAC(ScheduledLearningRate, Stateful, sbx.SAC):
    """Soft actor-critic (Haarnoja et al., 2018)."""


class TQC(ScheduledLearningRate, Stateful, sbx.TQC):
    """Truncated quantile critics (Kuznetsov et al., 2020)."""


class TD3(ScheduledLearningRate, GaussianExploration, Stateful, sbx.TD3):
    """Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018)."""

    policy_aliases: ClassVar[dict[str, Any]] = {"MlpPolicy": ScheduledTD3Policy, "MultiInputPolicy": ScheduledTD3Policy}


class DDPG(ScheduledLearningRate, GaussianExploration, Stateful, sbx.DDPG):
    """Deep deterministic policy gradient (Lillicrap et al., 2015)."""

    policy_aliases: ClassVar[dict[str, Any]] = {"MlpPolicy": ScheduledTD3Policy}


class CrossQ(ScheduledLearningRate, Stateful, sbx.CrossQ):
    """CrossQ: batch normalisation in place of target networks (Bhatt et al., 2024)."""

    policy_aliases: ClassVar[dict[str, Any]] = {
        "MlpPolicy": ScheduledCrossQPolicy,
        "MultiInputPolicy": ScheduledCrossQPolicy,
        "SimbaPolicy": ScheduledSimbaCrossQPolicy,
    }


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


class XQCActor(Actor):
    """CrossQ's actor with `hidden_layers`."""

    @nn.compact
    def __call__(self, observations: jax.Array, train: bool = False) -> Any:
        """Return the distribution of the actions in states `(n, …)`."""
        hidden = hidden_layers(self, observations.reshape(len(observations), -1), train)
        mean = nn.Dense(self.action_dim)(hidden)
        log_std = jnp.clip(nn.Dense(self.action_dim)(hidden), self.log_std_min, self.log_std_max)
        return TanhTransformedDistribution(tfd.MultivariateNormalDiag(loc=mean, scale_diag=jnp.exp(log_std)))


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


class XQCCritics(nn.Module):
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
    """Actor and critics of XQC, whose optimisers keep the weights of hidden layers at norm 1."""

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
            actor_class=actor_class,
            vector_critic_class=vector_critic_class,
        )

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

    Of XQC (arXiv 2509.25174) are the batch normalisation before each activation, the projection of weights and the
    cross-entropy loss of the distribution (Bellemare et al., 2017). Unlike there, the distribution spans the range of
    the returns seen, not a multiple of their deviation from 0: if returns lie in [−20, 0], half of the bins would be
    empty and the rest too wide for the last stages of a long task. Unlike CrossQ it has target networks, and these
    normalise the next steps by running statistics, which is quicker than to normalise them together with the current
    steps. As in CrossQ, batch renormalisation follows the batch normalisation. Actor and critics learn from the mean of
    the critics: with the lower one, `build_tower` learns to open the hand later or not at all, because at first this
    rarely completes a stage. The target entropy `auto` is −0.5 for each component of an action, as in SimbaV2 (Lee et
    al., 2025). Actions without noise, as in evaluations, are of moving averages of the actor's weights and statistics:
    the success of the last ones varies.

    Args:
        tau: Share of the critics' weights in each step of the moving averages that are their targets; 1: no targets.
    """

    policy_aliases: ClassVar[dict[str, Any]] = {"MlpPolicy": XQCPolicy, "MultiInputPolicy": XQCPolicy}

    def __init__(self, policy: Any, env: Any, tau: float = 0.01, **kwargs: Any) -> None:
        super().__init__(policy, env, **kwargs)
        self.tau = tau

    def _setup_model(self) -> None:
        is_automatic = self.target_entropy == "auto"
        super()._setup_model()
        if is_automatic:  # a deviation of about 0.15 in each component; with CrossQ's −1 the policy stops to explore
            self.target_entropy = -0.5 * float(np.prod(self.action_space.shape))
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
    def update_actor(actor_state: Any, *args: Any) -> tuple[Any, ...]:
        """Return the actor after an update, and what CrossQ's update returns."""
        actor_state, *rest = CrossQ.update_actor(actor_state, *args)
        share = jnp.maximum(ACTOR_TAU, 10 / (actor_state.step + 10))  # at first, of the last tenth of the updates
        averages = stepped(actor_state.averages, variables(actor_state), share)
        return actor_state.replace(averages=averages), *rest

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
        next_actions = distribution.sample(seed=noise_key)
        ent_coef = ent_coef_state.apply_fn({"params": ent_coef_state.params})
        bonus = -ent_coef * distribution.log_prob(next_actions)

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


TINY = 1e-7
"""Added to ratios of probabilities, which may be 0 in single precision, before their logarithm."""


class PPO(Stateful, sbx.PPO):
    """Proximal policy optimisation (Schulman et al., 2017); the value function is not clipped."""

    gather_rollouts: GatherRollouts | None = None
    """With several `learners`: gathers the rollouts of all processes in the main process; None: a single learner."""

    def __init__(self, policy: Any, env: Any, clip_range_vf: None = None, **kwargs: Any) -> None:
        super().__init__(policy, env, clip_range_vf=clip_range_vf, **kwargs)

    def collect_rollouts(self, env: Any, callback: BaseCallback, *args: Any, **kwargs: Any) -> bool:
        """Collect a rollout; the values of the last states of truncated episodes are computed together."""
        return super().collect_rollouts(env, BootstrapCallback(callback, self, self._last_values), *args, **kwargs)

    def _last_values(self, indices: list[int], observations: list[Any]) -> Any:
        """Return the values `(n,)` of last observations of environments."""
        model: Any = self
        shape = self.n_envs, *observations[0].shape  # of all environments, so that it compiles once
        last = np.zeros(shape, observations[0].dtype)
        last[indices] = observations
        values = model.vf.apply(model.policy.vf_state.params, model.policy.prepare_obs(last)[0])
        return np.asarray(values).ravel()[indices]

    def _update_info_buffer(self, infos: list[dict[str, Any]], dones: Any = None) -> None:
        """Store returns and lengths of the episodes that have ended; SBX passes no `dones`."""
        super()._update_info_buffer([info for info in infos if "episode" in info])

    def train(self) -> None:
        """Update the networks with the rollout: the minibatches of an epoch are a single compiled call.

        The logged losses are means over the update; SBX logs those of the last minibatch.
        """
        if self.target_kl is not None:  # SBX adapts the learning rate after each minibatch
            super().train()
            return
        policy: Any = self.policy
        optimizers = [policy.actor_state.opt_state[1], policy.vf_state.opt_state[1]]
        rate: Any = np.float32(
            self.lr_schedule(self._current_progress_remaining)
        )  # the type that the optimiser returns
        self._update_learning_rate(optimizers, rate)
        clip_range = self.clip_range_schedule(self._current_progress_remaining)
        coefficients = {"clip_range": clip_range, "ent_coef": self.ent_coef, "vf_coef": self.vf_coef}
        states = policy.actor_state, policy.vf_state
        collected = self._rollout()
        rollout = collected if self.gather_rollouts is None else self.gather_rollouts(collected)
        if rollout is None:  # this is not the main process, which trains
            return
        statistics: list[Mapping[str, Any]] = []
        for _ in range(self.n_epochs):
            for minibatches in self._minibatches(rollout):
                states, figures = _train(
                    type(self)._one_update,
                    states,
                    minibatches,
                    coefficients,
                    self.normalize_advantage,
                    isinstance(policy, CnnPolicy),
                )
                statistics.append(figures)
        policy.actor_state, policy.vf_state = states
        self._n_updates += self.n_epochs
        for name in statistics[0]:
            self.logger.record(f"train/{name}", float(np.concatenate([figures[name] for figures in statistics]).mean()))
        buffer = self.rollout_buffer
        self.logger.record(
            "train/explained_variance", explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        )
        if (log_std := policy.actor_state.params["params"].get("log_std")) is not None:
            self.logger.record("train/std", float(np.exp(log_std).mean()))
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/clip_range", clip_range)

    def _rollout(self) -> Rollout:
        """Return the rollout of this process, whose steps are those of its environments in turn."""
        buffer = self.rollout_buffer
        actions = buffer.swap_and_flatten(buffer.actions)
        return {
            "observations": buffer.swap_and_flatten(buffer.observations),
            "actions": actions.ravel().astype(np.int32) if isinstance(self.action_space, spaces.Discrete) else actions,
            "advantages": buffer.swap_and_flatten(buffer.advantages).ravel(),
            "returns": buffer.swap_and_flatten(buffer.returns).ravel(),
            "old_log_prob": buffer.swap_and_flatten(buffer.log_probs).ravel(),
        }

    def _minibatches(self, rollout: Rollout) -> list[Rollout]:
        """Return the steps of a rollout in a random order.

        Returns:
            Arrays `(minibatches, batch_size, …)`; samples that fill no minibatch are a last, smaller minibatch.
        """
        size = len(rollout["returns"])
        order = np.random.permutation(size)  # noqa: NPY002  (the generator that SB3 seeds)
        whole = size - size % self.batch_size
        return [
            {name: array[order[begin:end]].reshape(-1, length, *array.shape[1:]) for name, array in rollout.items()}
            for begin, end, length in ((0, whole, self.batch_size), (whole, size, size - whole))
            if begin < end
        ]

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "gather_rollouts"]


@partial(jax.jit, static_argnums=(0, 4, 5))
def _train(
    one_update: Callable[..., Any],
    states: tuple[Any, Any],
    minibatches: Mapping[str, Any],
    coefficients: Mapping[str, Any],
    normalize_advantage: bool,
    share_features_extractor: bool,
) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """Return the states of actor and critic after an update with each minibatch, and the statistics of each."""

    def update(states: tuple[Any, Any], minibatch: Mapping[str, Any]) -> tuple[tuple[Any, Any], dict[str, Any]]:
        states, (loss, policy_loss, entropy_loss, value_loss, ratio) = one_update(
            *states,
            **minibatch,
            **coefficients,
            normalize_advantage=normalize_advantage,
            share_features_extractor=share_features_extractor,
        )
        return states, {
            "pg_loss": loss,
            "policy_gradient_loss": policy_loss,
            "entropy_loss": entropy_loss,
            "value_loss": value_loss,
            "approx_kl": jnp.mean(ratio - 1 + TINY - jnp.log(ratio + TINY)),
            "clip_fraction": jnp.mean(jnp.abs(ratio - 1) > coefficients["clip_range"]),
        }

    return jax.lax.scan(update, states, minibatches)
