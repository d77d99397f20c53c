"""`Strategy`: base class of strategies, which choose the task, network or teacher of the next training phase."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

from mygym.registry import check_hooks, decorator, registry
from mygym.registry.signatures import checked_registration

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.policies import BasePolicy
    from stable_baselines3.common.vec_env import VecEnv

    from mygym.config import RunConfig
    from mygym.planning.plan import RunPlan
    from mygym.training.evaluation import Evaluation


S = TypeVar("S")

OTHER_METHODS = {
    "get_strategy_name": "@register_strategy(NAME) above the class",
    "prepare_dataset": "prepare_data",
    "get_required_dataset_fields": "requires",
}
"""Method of strategies of other libraries → method or line that does its work here."""


class Requirement(NamedTuple):
    """A requirement on the run that a strategy describes itself."""

    words: str
    """The requirement, for the message, e.g. `two arms`."""
    is_met: Callable[[Strategy], bool]
    """Function that returns whether the run meets it; the strategy has `config`, `plan`, `training_env` and `model`."""
    allowed: str
    """Runs that meet it, in words, for the message."""


class Strategy:
    """Base class of strategies: a strategy decides which task, network or teacher trains next.

    The base class itself is the strategy `standard`, which changes nothing.

    A subclass declares its parameters as keyword-only constructor parameters with annotations and defaults; they are
    the config's `strategy_params`. It overrides the methods that it needs.

    Life cycle: a strategy belongs to a single run. It is constructed with its parameters, then `name`, `section` and
    `config` are set, and the methods are called in this order:

    1. While the config is resolved: `run_defaults`, then `variants`, `evaluation_variants` and `complete_params`. If
       the latter decides parameters, a second object is constructed with them, and takes the place of the first.
    2. While the run is built: `wrap_env`, then `policy_class` (`training_env` is set).
    3. Before anything is written: `requires` (`model` is set).
    4. Once before training: `prepare_env`, `prepare_model`, `prepare_data`.
    5. When training begins: `callbacks`, `create_trainer`; on a resumed run `load_state_dict`.
    6. During training: `on_step`, `on_episode`, `on_evaluation`, and `begin_iteration` before every iteration;
       `state_dict` for each checkpoint, `outcome` for each record.
    7. After training: `finish`.

    Methods of step 1 depend on the parameters and the config alone. A config may also be resolved without a run
    (`--explain`, `mygym evaluate`), so they have no side effects.

    Random numbers come from torch's or numpy's global generators, whose states checkpoints contain; a strategy with
    a separate generator adds its state to `state_dict`.
    """

    phase: ClassVar[Literal["rollout", "gradient"]] = "rollout"
    """Time of the call of `begin_iteration`: before each rollout, or before the gradient steps after each rollout."""

    identify: Literal["none", "one_hot", "stages"] = "none"
    """Task code that is appended to observations, see `planning.strategies.variant_codes`; unless it is `none`,
    `evaluation_variants` must be the same as `variants`."""

    name: str
    """Registered name."""
    section: str
    """Key of the parameters in the config: `strategy_params`; for joined strategies `strategy_params.NAME`."""
    config: RunConfig
    """Config of the run; complete when the run is built."""
    plan: RunPlan
    """Plan of the run, e.g. its task variants; set when the run is built."""
    model: BaseAlgorithm
    """Model that is trained."""
    training_env: VecEnv
    """Training environments; with several variants each of them is a `MultiTaskEnv`."""

    # 1. While the config is resolved --------------------------------------------------------------------------------

    def run_defaults(self) -> Mapping[str, Any]:
        """Return config values that the strategy prefers; values of the user override them."""
        return {}

    def complete_params(self) -> Mapping[str, Any]:
        """Return values for parameters that the user has left unset; they are written to the run's config."""
        return {}

    def variants(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        """Return the task variants of the training environments, each a partial config that overrides `config`.

        With several variants, `training_env.env_method("set_weights", weights)` sets the share of each variant, see
        `MultiTaskEnv`. A variant with another `task` gets the workspace and the numbers of that task.

        Args:
            config: The config of the run.
        """
        return ({},)

    def evaluation_variants(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        """Return the variants of evaluations and videos, in equal shares; by default the run's config alone.

        Args:
            config: The config of the run.
        """
        return ({},)

    # 2. While the run is built --------------------------------------------------------------------------------------

    def wrap_env(self, env: VecEnv) -> VecEnv:
        """Return the training environments with the strategy's wrappers around them.

        A reward that a wrapper changes reaches the algorithm only: monitor.csv and evaluations have the reward of the
        config, and hindsight computes it with the environment's `compute_reward`. For the same reward everywhere,
        register it (`register_reward`) and name it in the config.

        Args:
            env: The training environments, with the wrappers of earlier strategies.
        """
        return env

    def policy_class(self, cls: type[BasePolicy]) -> type[BasePolicy]:
        """Return the policy class to use in place of the algorithm's class `cls`.

        Raises:
            ConfigError: The strategy does not support this policy class.
        """
        return cls

    # 3. Before anything is written ----------------------------------------------------------------------------------

    def requires(self) -> Sequence[str | Requirement]:
        """Return the requirements on the run.

        They are names in `mygym.strategies.requirements.REQUIREMENTS`, or a `Requirement` of the strategy, such as
        `Requirement("a short horizon", lambda self: self.config.task_params.horizon < 50, "a task such as reach")`.
        """
        return ()

    # 4. Once before training ----------------------------------------------------------------------------------------

    def prepare_env(self) -> None:
        """Set the initial state of `training_env`, e.g. the weights of its variants."""

    def prepare_model(self) -> None:
        """Change `model`, e.g. add a loss."""

    def prepare_data(self) -> None:
        """Load or record data that training needs, e.g. demonstrations."""

    # 5. When training begins ----------------------------------------------------------------------------------------

    def callbacks(self) -> Sequence[BaseCallback]:
        """Return further SB3 callbacks; their `state_dict`, if any, is part of checkpoints."""
        return ()

    def create_trainer(self, callbacks: Sequence[BaseCallback]) -> Callable[[], object] | None:
        """Return a function that trains `model` in place of `model.learn`; None: the algorithm trains itself.

        The function must pass the callbacks to every call of `learn`, because they evaluate, write checkpoints and
        resume. Only one of several joined strategies may define this method.

        In a resumed run `num_timesteps` is that of the checkpoint when the function begins, and the first call of
        `learn` restores the rest. So a trainer of several phases chooses its phase by `num_timesteps`, and calls
        `learn(end - self.num_timesteps, callback=callbacks, reset_num_timesteps=False)` until the end of the phase.

        Args:
            callbacks: All callbacks of the run.
        """
        return None

    # 6. During training ---------------------------------------------------------------------------------------------

    def begin_iteration(self) -> None:
        """Prepare the next iteration, e.g. choose its task. An exception ends the run after a checkpoint is written."""

    def on_step(self, observations: Any) -> None:
        """Handle new observations: called when training begins and after every environment step.

        Args:
            observations: `(n_envs, …)`, or a dictionary of such arrays; the next actions are chosen from them.
                Normalised if the run normalises observations.
        """

    def on_episode(self, variant: int, success: bool, total_reward: float) -> None:
        """Handle the end of a training episode.

        Args:
            variant: Index of the variant in `variants`.
            success: Whether the episode ended in success (with exploration).
            total_reward: Sum of the rewards.
        """

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Handle an evaluation; `record` is its entry in the `evaluations` of result.json.

        Args:
            record: `steps`, `success_rate`, `mean_return` and more.
        """

    def outcome(self) -> Mapping[str, Any]:
        """Return the current outcome as plain data, for evaluation records, printed lines and result.json."""
        return {}

    # 7. After training ----------------------------------------------------------------------------------------------

    def finish(self, judge: Callable[[], Evaluation]) -> None:
        """Change `model` before it is saved and evaluated.

        Args:
            judge: Evaluates `model` on the same episodes in each call; the final evaluation uses other episodes.
        """

    # Logging --------------------------------------------------------------------------------------------------------

    @property
    def logger(self) -> Logger:
        """Logger of the run: values recorded as `strategy/NAME` appear in progress.jsonl and TensorBoard."""
        return self.model.logger

    @property
    def num_timesteps(self) -> int:
        """Number of env steps so far."""
        return int(self.model.num_timesteps)

    # Checkpoints ----------------------------------------------------------------------------------------------------

    checkpointed: ClassVar[tuple[str, ...]] = ()
    """Names of attributes in `state_dict`: numbers, text, lists, dictionaries, arrays or tensors."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which a resumed run continues; by default the attributes in `checkpointed`."""
        return {name: copy.deepcopy(getattr(self, name)) for name in self.checkpointed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned.

        Args:
            state: The state; its attributes replace those of the strategy, a tensor on the device of its predecessor.
        """
        for name in self.checkpointed:
            present: Any = getattr(self, name, None)
            value = copy.deepcopy(state[name])
            is_tensor = hasattr(present, "device") and hasattr(value, "to")
            setattr(self, name, value.to(present.device) if is_tensor else value)


@checked_registration
def register_strategy(name: str, *, help: str = "", override: bool = False) -> Callable[[type[S]], type[S]]:
    """Class decorator that registers a strategy.

    Args:
        name: Name in configs and for `--strategy`.
        help: One line for listings; by default the first line of the docstring.
        override: Replace a strategy of the same name.

    Raises:
        RegistryError: The name is taken, the class is not a subclass of `Strategy`, or a method of it would never be
            called or gets other parameters.
    """
    return decorator(
        "strategy",
        name,
        check=lambda cls: inspect.isclass(cls) and issubclass(cls, Strategy),
        allowed="a subclass of Strategy",
        build=check_hooks("strategy", Strategy, OTHER_METHODS),
        help=help,
        override=override,
    )


BUILT_IN = {
    "standard": ("strategy:Strategy", "one task, one network"),
    "curriculum": ("curriculum:Curriculum", "easier tasks first; advances by success rate"),
    "multitask": ("multitask:MultiTask", "several tasks in one run with one network"),
    "ewc": ("ewc:EWC", "several tasks one after the other; elastic weight consolidation against forgetting"),
    "reptile": ("reptile:Reptile", "meta-learning: weights from which each of several tasks is learned in few steps"),
    "mixture": ("mixture.mixture:Mixture", "several networks in one policy, chosen by stage, task, sampler or gate"),
    "demos": ("demos:Demos", "demonstrations in replay, as a warm start and as a loss"),
    "bitfit": ("fine_tuning:BitFit", "fine-tuning: trains the biases of a pretrained policy alone"),
    "lora": ("fine_tuning:LoRA", "fine-tuning: trains low-rank changes of a pretrained policy's layers"),
    "ia3": ("fine_tuning:IA3", "fine-tuning: trains factors of the activations of a pretrained policy"),
    "bottleneck": ("fine_tuning:Bottleneck", "fine-tuning: trains small networks after a pretrained policy's layers"),
    "distill": ("distill:Distill", "a student learns from the scripted expert or from trained runs"),
}

for _name, (_target, _help) in BUILT_IN.items():
    registry("strategy").register(_name, f"mygym.strategies.{_target}", _help, origin=__file__)
