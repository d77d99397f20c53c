"""Samplers: before each rollout they decide which candidates of a super-network the passes use.

A sampler is a subclass of `Sampler` that defines `propose` or `begin_iteration`. The built-in samplers draw from
numpy's global generator, whose state checkpoints contain.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import numpy as np
from annotated_types import Ge
from numpy.typing import ArrayLike, NDArray

from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import check_hooks, decorator
from mygym.registry.signatures import checked_registration
from mygym.strategies.mixture.routing import Protocol
from mygym.strategies.multitask import bandit_step, probabilities
from mygym.types import FloatArray

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

    from mygym.strategies.mixture.supernet import ForwardState

S = TypeVar("S")


class Sampler:
    """Base class of samplers.

    A subclass declares its parameters as keyword-only constructor parameters with annotations and defaults; they are
    the config's `strategy_params.sampler_params`. The strategy `mixture` sets the attributes below, then calls
    `begin_iteration` before each rollout and `learn` after each rollout.
    """

    protocol: ClassVar[Protocol | tuple[Protocol, ...]] = "single"
    """Forward protocol: `single`, one candidate of each layer; or a mixture of all: `sum`, `softmax`,
    `gumbel_softmax`. With a tuple of several, training begins with the first, and each iteration may choose."""

    checkpointed: ClassVar[tuple[str, ...]] = ()
    """Names of attributes in `state_dict`: numbers, text, lists, dictionaries or arrays."""

    layers: int
    """Number of layers with a choice; 1 with units `whole`."""
    candidates: int
    """Number of candidates in each layer."""
    rows: int
    """Number of architectures of a rollout: one for each environment; off-policy algorithms use 1."""
    supernet: ForwardState
    """Forward state of the policy's networks; its `protocol` is the current protocol."""
    model: BaseAlgorithm
    """Model that is trained."""
    total_timesteps: int
    """Number of env steps of the run."""
    drawn: NDArray[np.int64] | None = None
    """`(rows, layers)`: architectures of the current rollout; None before the first, or under another protocol."""
    counts: FloatArray
    """`(layers, candidates)`: number of draws of each candidate."""

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """Protocols among which the sampler may choose."""
        return (self.protocol,) if isinstance(self.protocol, str) else self.protocol

    @property
    def num_timesteps(self) -> int:
        """Number of env steps so far; training ends at `total_timesteps`."""
        return int(self.model.num_timesteps)

    def prepare(self) -> None:
        """Create state that depends on `layers`, `candidates` and `rows`; called once."""

    def begin_iteration(self) -> None:
        """Decide the architectures of the next rollout; by default those of `propose`."""
        self.set_activate_architecture(self.propose(self.rows))

    def propose(self, count: int) -> ArrayLike:
        """Return `count` architectures `(count, layers)`: the candidate of each layer.

        Args:
            count: Number of environments of the rollout.
        """
        raise NotImplementedError

    def learn(self, rewards: FloatArray) -> None:
        """Learn from the mean reward per step `(rows,)` of each architecture in the rollout that has ended.

        Args:
            rewards: `(rows,)`: mean reward per step.
        """

    # For `begin_iteration` ------------------------------------------------------------------------------------------

    def set_forward_state(self, protocol: Protocol, *, tau: float | None = None) -> None:
        """Set the protocol of the next passes.

        Args:
            protocol: A protocol in `protocol` of the class.
            tau: Temperature of a gate, above 0; None: the current temperature.

        Raises:
            ConfigError: Another protocol, or a temperature that is not above 0.
        """
        self._check_protocol(protocol, "set_forward_state", protocol)
        self.supernet.set_forward_state(protocol, tau=tau)

    def _check_protocol(self, protocol: str, method: str, value: Any) -> None:
        """Check that the class has a protocol, which `method` needs for `value`."""
        if protocol not in self.protocols:
            why = f"needs protocol {protocol}, which {type(self).__name__} does not have; add it to the class: protocol"
            raise ConfigError(bad_value(method, value, f"protocol {' or '.join(self.protocols)}", why))

    def set_activate_architecture(self, architecture: ArrayLike) -> None:
        """Set the protocol `single` and the candidates of the next rollout.

        Args:
            architecture: `(layers,)`: the candidate of each layer; or `(rows, layers)`: for each environment. The
                updates of an on-policy algorithm repeat the passes of its rollout.

        Raises:
            ConfigError: Another protocol, another shape, or no such candidate.
        """
        self._check_protocol("single", "set_activate_architecture", architecture)
        drawn = np.asarray(architecture)
        fits = drawn.shape in ((self.layers,), (self.rows, self.layers)) and drawn.dtype.kind in "iu"
        if not fits or not ((drawn >= 0) & (drawn < self.candidates)).all():
            allowed = f"whole numbers from 0 to {self.candidates - 1}, ({self.layers},) or ({self.rows}, {self.layers})"
            why = f"is not an architecture ({type(self).__name__})"
            raise ConfigError(bad_value("set_activate_architecture", drawn.tolist(), allowed, why))
        self.drawn = np.broadcast_to(drawn, (self.rows, self.layers)).astype(np.int64)
        self.counts += np.eye(self.candidates)[self.drawn].sum(0)
        self.supernet.set_forward_state("single", path=self.drawn[0].tolist())

    def set_arch_param(self, weights: ArrayLike) -> None:
        """Set the protocol `sum` and its weights, `(candidates,)` or `(layers, candidates)`, for the next passes.

        Args:
            weights: Weights of all candidates, for the whole network or for each layer.

        Raises:
            ConfigError: Another protocol, or invalid weights.
        """
        self._check_protocol("sum", "set_arch_param", weights)
        self.supernet.set_forward_state("sum", weights=weights)

    # Records --------------------------------------------------------------------------------------------------------

    def usage(self) -> FloatArray | None:
        """Return the share of each candidate in all draws, `(layers, candidates)`; None before the first draw."""
        total = self.counts.sum(-1, keepdims=True)
        return self.counts / total if total.all() else None

    def state_dict(self) -> dict[str, Any]:
        """Return the draws and the attributes in `checkpointed`."""
        return {name: copy.deepcopy(getattr(self, name)) for name in ("counts", "drawn", *self.checkpointed)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned.

        Args:
            state: The state of a checkpoint.
        """
        for name in ("counts", "drawn", *self.checkpointed):
            setattr(self, name, copy.deepcopy(state[name]))


@checked_registration
def register_sampler(name: str, *, help: str = "", override: bool = False) -> Callable[[type[S]], type[S]]:
    """Class decorator that registers a sampler for `strategy_params.sampler` of the strategy `mixture`.

    Args:
        name: Name in configs.
        help: One line for listings; by default the first line of the docstring.
        override: Replace a sampler of the same name.

    Raises:
        RegistryError: The name is taken, the class is not a subclass of `Sampler`, it decides nothing, or a method of
            it would never be called or gets other parameters.
    """
    return decorator(
        "sampler",
        name,
        check=lambda cls: inspect.isclass(cls) and issubclass(cls, Sampler),
        allowed="a subclass of Sampler",
        build=_checked,
        help=help,
        override=override,
    )


def _checked(cls: type[S]) -> type[S]:
    """Return a class of samplers whose methods fit."""
    check_hooks("sampler", Sampler, {"step": "begin_iteration or propose"})(cls)
    if all(getattr(cls, hook) is getattr(Sampler, hook) for hook in ("begin_iteration", "propose")):
        allowed = "a class with begin_iteration(self) or propose(self, count)"
        raise RegistryError(bad_value("register_sampler", cls.__name__, allowed, "decides nothing"))
    return cls


@register_sampler("fair")
class FairSampler(Sampler):
    """Each layer draws every candidate once before it repeats any (Chu et al., 2021)."""

    checkpointed = ("queues",)

    def prepare(self) -> None:
        """Start with empty queues."""
        self.queues: list[list[int]] = [[] for _ in range(self.layers)]
        """For each layer the candidates to draw next."""

    def propose(self, count: int) -> NDArray[np.int64]:
        """Draw from the queues; an empty queue is refilled in random order."""
        rows = []
        for _ in range(count):
            for queue in self.queues:
                if not queue:
                    queue.extend(np.random.permutation(self.candidates).tolist())  # noqa: NPY002
            rows.append([queue.pop(0) for queue in self.queues])
        return np.array(rows)


@register_sampler("uniform")
class UniformSampler(Sampler):
    """Candidates drawn with equal probability."""

    def propose(self, count: int) -> NDArray[np.int64]:
        """Draw independently for each layer."""
        return np.random.randint(self.candidates, size=(count, self.layers))  # noqa: NPY002


@register_sampler("differentiable")
class DifferentiableSampler(Sampler):
    """Candidates drawn with weights that gradient ascent learns from rewards (Sutton and Barto, 2018, section 2.8).

    Args:
        rate: Step size of the learned weights.
    """

    checkpointed = ("logits", "baseline")

    def __init__(self, *, rate: Annotated[float, Ge(0)] = 0.1) -> None:
        self.rate = rate

    def prepare(self) -> None:
        """Start with equal weights."""
        self.logits: FloatArray = np.zeros((self.layers, self.candidates))
        self.baseline = 0.0
        """Running mean of the reward of a step."""

    def propose(self, count: int) -> NDArray[np.int64]:
        """Draw with the learned weights."""
        shares = probabilities(self.logits)
        columns = [np.random.choice(len(row), size=count, p=row) for row in shares]  # noqa: NPY002
        return np.stack(columns, axis=1)

    def learn(self, rewards: FloatArray) -> None:
        """Take a step of the gradient bandit."""
        if self.drawn is not None:
            self.logits = bandit_step(self.logits, self.drawn, rewards - self.baseline, self.rate)
            self.baseline += self.rate * (float(rewards.mean()) - self.baseline)
