"""`Strategy`: the base class of what decides what trains next."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from mygym.errors import RegistryError, bad_value
from mygym.registry import registry
from mygym.registry.signatures import first_line

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.policies import BasePolicy
    from stable_baselines3.common.vec_env import VecEnv

    from mygym.config import RunConfig
    from mygym.runs.evaluation import Evaluation
    from mygym.runs.plan import RunPlan

S = TypeVar("S")


class Strategy:
    """Decides what trains next: which task, which network, which teacher. This one, `standard`, changes nothing.

    A subclass has its parameters as keyword-only parameters of its constructor, with annotations and defaults: the
    config's `strategy_params`. It overrides what it needs; everything else is as without a strategy. In the order in
    which they are called:

    1. `run_defaults`: config values. `variants` and `judged`: what the environments play, as parts of a config.
    2. `wrap_env`, `policy_class`: what the environments and the policy are made of.
    3. `requires`: what must be there, checked when all is built and before anything is written.
    4. `prepare_env`, `prepare_model`, `prepare_data`: once, before training; `model` and `training_env` are there.
    5. `step`: before every iteration. `on_step`, `on_episode`, `on_evaluation`: what came of it. `finish`: at the end.
       `outcome`: what to tell of it.
    6. `state_dict`, `load_state_dict`: what a resumed run goes on from.

    One object lives from 1 to 6. It is constructed again only after 1, where `settled` has completed its parameters.

    A strategy that goes on from random numbers draws them from torch's or numpy's global generators, or has the state
    of a generator of its own in `state_dict`.
    """

    phase: ClassVar[Literal["rollout", "gradient"]] = "rollout"
    """What `step` comes before: each rollout, or each phase of gradient steps that follows one."""

    identify: Literal["none", "one_hot", "stages"] = "none"
    """What the observation tells of the variant that is played, see `mygym.runs.variants.codes`; unless it is nothing,
    `judged` are all of them."""

    name: str
    """Under which it is registered."""
    section: str
    """Key of its parameters in the config."""
    plan: RunPlan
    """The run's plan, e.g. its task variants; available as soon as something is built."""
    config: RunConfig
    """The run's; complete as soon as it is built."""
    model: BaseAlgorithm
    training_env: VecEnv
    """Its environments; of several variants each is a `MultiTaskEnv`."""

    # Before anything is built ---------------------------------------------------------------------------------------

    def run_defaults(self) -> Mapping[str, Any]:
        """Config values that the strategy prefers; what the user says, which `config` has by now, comes over them."""
        return {}

    def settled(self) -> Mapping[str, Any]:
        """What the parameters come to that the user has left open: for the config that is written to the run."""
        return {}

    def variants(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        """What the training environments play, each a part of a config that is laid over the run's.

        More than one takes `training_env.env_method("set_weights", …)`, see `MultiTaskEnv`, to say how often each is
        played. One that names another `task` has that task's own workspace and numbers.
        """
        return ({},)

    def judged(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        """What evaluations and films play, in equal shares; by default the run's own config."""
        return ({},)

    def requires(self) -> Sequence[str]:
        """What the run must have: names in `mygym.strategies.requirements.REQUIREMENTS`."""
        return ()

    # When it is built -----------------------------------------------------------------------------------------------

    def wrap_env(self, env: VecEnv) -> VecEnv:
        """The training environments with what the strategy puts around them."""
        return env

    def policy_class(self, cls: type[BasePolicy]) -> type[BasePolicy]:
        """The class of the policy, in place of the algorithm's; `config` and `training_env` are there.

        Raises:
            ConfigError: The strategy is not for such a policy.
        """
        return cls

    def prepare_env(self) -> None:
        """Tell `training_env` how to begin."""

    def prepare_model(self) -> None:
        """Change `model` before it trains."""

    def prepare_data(self) -> None:
        """Read or collect what training needs besides the environments."""

    # While it trains ------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Decide what the next iteration trains. What it raises ends the run, with a checkpoint."""

    def on_step(self, observations: Any) -> None:
        """The training environments have begun, or made a step.

        Args:
            observations: `(n_envs, …)`, or a dictionary of such, on which the next actions are chosen; normalised where
                the run normalises.
        """

    def on_episode(self, variant: int, success: bool, total_reward: float) -> None:
        """A training episode has ended.

        Args:
            variant: Index in `variants`.
            success: Whether it ended in success, exploration included.
            total_reward: Sum of its rewards.
        """

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """An evaluation has been made; `record` is its entry in the result's `evaluations`."""

    def finish(self, judge: Callable[[], Evaluation]) -> None:
        """Learning is over: change `model` before it is saved and judged.

        Args:
            judge: Plays episodes with `model` as it is, the same ones in each call, which are not those of the result.
        """

    def outcome(self) -> Mapping[str, Any]:
        """What it has come to by now, in plain data: for the evaluations' records and lines, and for result.json."""
        return {}

    @property
    def logger(self) -> Logger:
        """The run's; what is recorded as `strategy/NAME` is in progress.jsonl and TensorBoard."""
        return self.model.logger

    @property
    def num_timesteps(self) -> int:
        """Env steps so far."""
        return int(self.model.num_timesteps)

    # Checkpoints ----------------------------------------------------------------------------------------------------

    kept: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that `state_dict` has: numbers, text, lists, dictionaries, arrays, tensors."""

    def state_dict(self) -> dict[str, Any]:
        """What the strategy goes on from; by default the attributes named in `kept`."""
        return {name: copy.deepcopy(getattr(self, name)) for name in self.kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        for name in self.kept:
            setattr(self, name, copy.deepcopy(state[name]))


def register_strategy(name: str, *, help: str = "", override: bool = False) -> Callable[[type[S]], type[S]]:
    """Class decorator that registers a strategy.

    Args:
        name: Keyword for `--strategy`.
        help: One line; by default the first of the docstring.
        override: Replace one of the same name.

    Raises:
        RegistryError: It is no strategy, or the name is taken.
    """

    def decorate(cls: type[S]) -> type[S]:
        if not (inspect.isclass(cls) and issubclass(cls, Strategy)):
            raise RegistryError(bad_value("register_strategy", name, "a subclass of Strategy", "decorates no strategy"))
        registry("strategy").register(name, cls, help or first_line(cls), override=override)
        return cls

    return decorate
