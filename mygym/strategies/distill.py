"""Strategy `distill`: a student learns from teachers, alone or in addition to an algorithm's objective."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch
from annotated_types import Ge
from gymnasium.spaces import Box
from numpy.typing import NDArray
from stable_baselines3.common.distributions import DiagGaussianDistribution, SquashedDiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from torch.distributions import Normal, kl_divergence

from mygym.envs.observation_builder import ObservationSpec
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, bad_value
from mygym.experts import ScriptedExpert, make_expert
from mygym.planning.derived import env_spec
from mygym.planning.plan import Plannable, plan_of
from mygym.planning.strategies import Variant
from mygym.registry import algorithm
from mygym.strategies.losses import actor_optimizer, add_loss, imitation_loss, weight_schedule
from mygym.strategies.strategy import Strategy
from mygym.training import directory, env_factory, model_factory
from mygym.training.buffers import ImitationBuffer
from mygym.training.checkpoints.states import load_random_state, random_state
from mygym.training.evaluation import stack_observations
from mygym.training.loading import load, plan_of_run
from mygym.training.policy import Policy
from mygym.training.vec_wrappers import observation_normalizer, without_route


def family(policy: Any) -> str | None:
    """Return the kind of Gaussian of a policy: `plain` (as PPO's), `squashed` by tanh (as SAC's), or None.

    State-dependent exploration is neither kind: its noise stays constant over several steps.
    """
    if isinstance(policy, ActorCriticPolicy):
        return "plain" if type(policy.action_dist) is DiagGaussianDistribution else None
    distribution = getattr(getattr(policy, "actor", None), "action_dist", None)
    return "squashed" if isinstance(distribution, SquashedDiagGaussianDistribution) else None


def gaussian(policy: Any, observations: Any) -> torch.Tensor:
    """Return mean and logarithm of the standard deviation of each action, before squashing.

    Args:
        policy: Policy with a `family`.
        observations: `(n, …)`, or a dictionary of such tensors, preprocessed as in training.

    Returns:
        `(n, 2A)`: the means, then the logarithms.
    """
    if isinstance(policy, ActorCriticPolicy):
        normal: Any = policy.get_distribution(observations).distribution
        return torch.cat([normal.mean, normal.stddev.log()], dim=-1)
    mean, log_std, _ = policy.actor.get_action_dist_params(observations)
    return torch.cat([mean, log_std], dim=-1)


def divergence(teacher: torch.Tensor, student: torch.Tensor) -> torch.Tensor:
    """Return KL(teacher ‖ student), averaged over states; squashing both by the same function does not change it.

    Args:
        teacher: `(n, 2A)`, see `gaussian`.
        student: `(n, 2A)`.

    Returns:
        `()`.
    """
    p, q = (Normal(mean, log_std.exp()) for mean, log_std in (t.chunk(2, dim=-1) for t in (teacher, student)))
    return kl_divergence(p, q).sum(dim=-1).mean()


class Trained:
    """Teacher from a run: its policy receives the observations of its training, from the student's environments."""

    def __init__(self, policy: Policy, observation_spec: ObservationSpec, env: Any) -> None:
        self.policy, self.observation_spec, self.env = policy, observation_spec, env
        self.family = family(policy.model.policy)

    def actions(self, indices: Sequence[int]) -> NDArray[np.float32]:
        """Return actions `(n, A)`, without exploration, for `n` of the environments, without acting in them."""
        return self.policy.predict(self._observations(indices), deterministic=True)[0]

    @torch.no_grad()
    def gaussians(self, indices: Sequence[int]) -> NDArray[np.float32]:
        """Return the parameters `(n, 2A)` of the policy's action distribution."""
        network = self.policy.model.policy
        observations, _ = network.obs_to_tensor(self.policy.normalized(self._observations(indices)))
        return gaussian(network, observations).cpu().numpy()

    def _observations(self, indices: Sequence[int]) -> Any:
        return stack_observations(self.env.env_method("observe_as", self.observation_spec, indices=indices))


Teacher = ScriptedExpert | Trained


class Teachers:
    """Several teachers of a student; in each state a teacher of the current task is drawn and queried.

    The student therefore learns from all teachers equally; the average of their actions would imitate none of them.

    Args:
        env: Environments of the student, an SB3 `VecEnv`.
        of_variant: Teachers of each variant of the environments.
    """

    def __init__(self, env: Any, of_variant: Sequence[Sequence[Teacher]]) -> None:
        self._env, self._of_variant = env, of_variant

    @property
    def family(self) -> str | None:
        """Kind of Gaussian of all teachers; None if they differ."""
        families = {getattr(teacher, "family", None) for teachers in self._of_variant for teacher in teachers}
        return families.pop() if len(families) == 1 else None

    def act(self, observations: Any) -> NDArray[np.float32]:
        """Return the teachers' actions `(n_envs, A)` in the current states; `observations` are not used."""
        return self._answers(lambda teacher, rows: teacher.actions(indices=rows))

    def gaussians(self) -> NDArray[np.float32]:
        """Return the parameters `(n_envs, 2A)` of the teachers' action distributions, if they have a `family`."""
        return self._answers(lambda teacher, rows: cast(Trained, teacher).gaussians(rows))

    def _answers(self, query: Callable[[Teacher, list[int]], NDArray[np.float32]]) -> NDArray[np.float32]:
        """Draw a teacher for each environment and return a row for each; each teacher is queried once."""
        drawn = [_drawn(self._of_variant[variant]) for variant in self._current_variants()]
        answers: dict[int, NDArray[np.float32]] = {}
        for teacher in dict.fromkeys(drawn):
            rows = [row for row, drawn_teacher in enumerate(drawn) if drawn_teacher is teacher]
            answers |= dict(zip(rows, query(teacher, rows), strict=True))
        return np.stack([answers[row] for row in range(len(drawn))])

    def _current_variants(self) -> list[int]:
        """Return the variant that each environment is playing."""
        if len(self._of_variant) == 1:
            return [0] * int(self._env.num_envs)
        return list(self._env.get_attr("variant"))


def _drawn(teachers: Sequence[Teacher]) -> Teacher:
    if len(teachers) == 1:
        return teachers[0]
    return teachers[np.random.randint(len(teachers))]  # noqa: NPY002  (checkpoints contain the global generator)


KEY = "strategy_params.teacher"

ORACLE = "oracle"
"""Name of the scripted expert."""

TeacherConfig = str | list[str] | dict[str, Any]
"""One teacher; several; or either of these for each task label."""


def absolute(teacher: TeacherConfig, key: str = KEY) -> Any:
    """Return the config with absolute paths, because a run can be resumed from any folder."""
    if isinstance(teacher, Mapping):
        return {label: absolute(each, f"{key}.{label}") for label, each in teacher.items()}
    if isinstance(teacher, list):
        return [absolute(each, f"{key}.{number}") for number, each in enumerate(teacher)]
    if not isinstance(teacher, str) or not teacher:
        raise ConfigError(bad_value(key, teacher, f"{ORACLE}, or the path of a run", "names no teacher"))
    return teacher if teacher == ORACLE else str(Path(teacher).expanduser().absolute())


def read_teachers(teacher: TeacherConfig, run: Plannable, env: Any) -> Teachers:
    """Load the teachers of a config.

    Raises:
        ConfigError: A run does not exist, or does not fit the student's environments.
        RunError: A policy cannot be loaded.
    """
    plan = plan_of(run)
    config, tasks = plan.config, plan.variants
    names_of = _names_by_variant(teacher, [variant.label for variant in tasks])
    teachers: dict[str, Teacher] = {ORACLE: make_expert(env)} if any(ORACLE in names for names in names_of) else {}
    random = random_state()  # loading builds networks and sets seeds, which must not change the student's training
    try:
        for name in dict.fromkeys(name for names in names_of for name in names if name != ORACLE):
            taught = [variant for variant, names in zip(tasks, names_of, strict=True) if name in names]
            teachers[name] = _trained(name, taught, env)
    finally:
        load_random_state(random)
        model_factory.use(config.framework, config.device, config.threads)
    return Teachers(env, [[teachers[name] for name in names] for names in names_of])


def _names_by_variant(teacher: TeacherConfig, labels: Sequence[str]) -> list[list[str]]:
    """Return the names of the teachers of each variant."""
    if not isinstance(teacher, Mapping):
        names = [teacher] if isinstance(teacher, str) else list(teacher)
        if not names:
            raise ConfigError(bad_value(KEY, teacher, f"{ORACLE}, the path of a run, or several", "names no teacher"))
        return [names] * len(labels)
    for label in teacher:
        if label not in labels:
            raise ConfigError(bad_value(f"{KEY}.{label}", teacher[label], labels, "is for a task that is not played"))
    for label in labels:
        if label not in teacher:
            raise ConfigError(bad_value(f"{KEY}.{label}", None, f"{ORACLE}, or the path of a run", "is missing"))
    return [_names_by_variant(teacher[label], [label])[0] for label in labels]


def _trained(name: str, taught: Sequence[Variant], student_env: Any) -> Trained:
    """Load the teacher of a path, for the variants `taught` of the student's environments."""
    plan = plan_of_run(directory.find_policy(name, KEY)[0])
    if plan.codes is not None:
        why = "needs a task code in its observations, which the student's environments cannot provide"
        raise ConfigError(bad_value(KEY, name, "a run without identify", why))
    policy = load(name)
    if hasattr(policy.model.policy, "lstm_actor"):
        why = "has a memory, but teachers are queried on single states"
        raise ConfigError(bad_value(KEY, name, "a run of an algorithm without memory, such as ppo", why))
    with contextlib.closing(env_factory.make_env(plan)) as teacher_env:
        for variant in taught:
            with contextlib.closing(RobotEnv.of(env_spec(variant.config))) as env:
                if mismatch := _mismatch(teacher_env, env):
                    why, allowed = mismatch
                    raise ConfigError(bad_value(KEY, name, allowed, f"does not fit {variant.label}: it {why}"))
        return Trained(policy, teacher_env.observation_spec, student_env)


def _mismatch(teacher: Any, student: RobotEnv) -> tuple[str, str] | None:
    """Return the difference between the teacher's and the student's environment, and allowed values; None if equal."""
    if teacher.control != student.control:
        why = f"uses control {teacher.control}, the student uses {student.control}"
        return why, f"control: {teacher.control}; or a run with control: {student.control}"
    if teacher.action_space != student.action_space:
        sizes = [env.world.action_size for env in (teacher, student)]
        allowed = "a run with the same actions: the same robot, and the same value of spaces"
        return f"has {sizes[0]} actions, the student has {sizes[1]}", allowed
    same = f"a run of the same task on {student.robot.name}, or both with spaces: shared"
    try:
        space = student.observation_space_as(teacher.observation_spec)
    except ConfigError as error:
        return f"needs an observation that the student's environment lacks ({error})", same
    if space != teacher.observation_space:
        return "was trained on observations of another size", same
    return None


WEIGHT = {"schedule": "linear", "from": 10.0, "to": 1.0}
"""Default weight: at first the teacher outweighs the untrained critic."""


class Distill(Strategy):
    """A student learns from teachers: the scripted expert, or trained runs.

    With `--algo dagger` or `bc` the student learns from the teacher alone, and only `teacher` is used. With an
    algorithm that learns from rewards, a loss with a decreasing weight draws the student towards the teacher's actions
    in the states that the student visits (kickstarting, Schmitt et al., 2018). If both have the same kind of Gaussian,
    the loss is KL(teacher ‖ student), else the mean absolute error of the student's actions, exploration included.
    Imitation works better on normalised observations (`normalize: true`). With `trpo` the loss is an Adam step after
    the line search, not limited by `target_kl`.

    A teacher run receives the observations of its training, built from the student's environments and without noise.
    The student may therefore observe less than its teacher. A run trained with `mixture` teaches with all of its
    candidates: the stage, the gate or the selected path determines the candidate; a file of `mygym search --out` has
    another path.

    Args:
        teacher: `oracle`, the scripted expert; the path of a run; a list of these (in each state, a teacher is drawn
            from the list); or a mapping from the label of each task to these.
        weight: Weight of the added loss: a number or a schedule. null: linear from 10 to 1 over the run. While it is 0
            the teacher is not queried.
        batch_size: States in a minibatch; one minibatch for each step of the actor's optimiser.
        buffer_size: Number of latest states from which minibatches are drawn; checkpoints contain them.
    """

    checkpointed = ("losses",)

    def __init__(
        self,
        *,
        teacher: str | list[str] | dict[str, Any] = "oracle",
        weight: float | dict[str, Any] | None = None,
        batch_size: Annotated[int, Ge(1)] = 256,
        buffer_size: Annotated[int, Ge(1)] = 20_000,
    ) -> None:
        self.teacher = teacher
        self.weight: Any = WEIGHT if weight is None else weight
        self.batch_size, self.buffer_size = batch_size, buffer_size
        weight_schedule(self.weight)
        self.losses: list[float] = []
        """Losses since the last `begin_iteration`."""
        self.labels: ImitationBuffer | None = None
        """Observations of the student and answers of the teachers; None if the algorithm stores them."""

    def run_defaults(self) -> Mapping[str, Any]:
        """Return normalised observations, except for imitation algorithms, which standardise them."""
        return {} if algorithm(self.config.algo, self.config.framework).replaces_task_budget else {"normalize": True}

    def complete_params(self) -> Mapping[str, Any]:
        """Return the schedule, and absolute paths of the teachers."""
        return {"teacher": absolute(self.teacher), "weight": self.weight}

    def requires(self) -> Sequence[str]:
        """Require a gradient-based, memoryless actor of continuous actions: teachers are queried on single states.

        Raises:
            ConfigError: A teacher is not a run.
        """
        labels = [variant.label for variant in self.plan.variants]
        for name in [name for names in _names_by_variant(self.teacher, labels) for name in names if name != ORACLE]:
            directory.find_policy(name, KEY)
        return ("continuous_actions", "actor_optimizer", "trained_actor", "no_memory")

    def prepare_model(self) -> None:
        """Load the teachers and add their loss to the student's."""
        model: Any = self.model
        self.teachers: Teachers = read_teachers(self.teacher, self.plan, self.training_env)
        if hasattr(model, "teacher"):  # imitation algorithms, see `BC`
            model.teacher = self.teachers
            return
        self.has_gaussians = self.teachers.family is not None and self.teachers.family == family(model.policy)
        width = int(np.prod(model.action_space.shape)) * (2 if self.has_gaussians else 1)
        answers = Box(-np.inf, np.inf, (width,), np.float32)
        spaces = without_route(self.training_env.observation_space), answers
        self.labels = ImitationBuffer(self.buffer_size, *spaces, model.device, self.training_env.num_envs)
        self.normalizer = observation_normalizer(self.training_env)
        self.schedule = weight_schedule(self.weight, self.config.steps)
        optimizer = actor_optimizer(model)
        assert optimizer is not None  # see `requires`
        add_loss(optimizer, self.loss)

    def on_step(self, observations: Any) -> None:
        """Query the teachers in the current states."""
        if self.labels is None or self.current_weight() == 0.0:
            return
        # Stored raw; normalised when sampled, with the current statistics, like the student's inputs.
        raw = observations if self.normalizer is None else self.normalizer.get_original_obs()
        self.labels.add(raw, self.teachers.gaussians() if self.has_gaussians else self.teachers.act(raw))

    def begin_iteration(self) -> None:
        """Log weight and mean loss."""
        if self.labels is None:
            return
        self.logger.record("strategy/weight", self.current_weight())
        if self.losses:
            self.logger.record("strategy/loss", float(np.mean(self.losses)))
            self.losses = []

    def current_weight(self) -> float:
        """Return the current weight of the loss."""
        return self.schedule.value(self.num_timesteps, self.config.steps)

    def loss(self) -> torch.Tensor | None:
        """Return the weighted loss `()` of a minibatch; None without weight or answers."""
        weight = self.current_weight()
        if self.labels is None or weight == 0.0 or self.labels.size() == 0:
            return None
        observations, answers = self.labels.sample(self.batch_size, self.normalizer)
        policy: Any = self.model.policy
        if self.has_gaussians:
            loss = divergence(answers, gaussian(policy, observations))
        else:  # with exploration noise, so that the student also learns to explore less
            deterministic = getattr(self.model, "use_sde", False)
            loss = imitation_loss(policy, observations, answers, deterministic=deterministic)
        self.losses.append(loss.item())
        return weight * loss

    def state_dict(self) -> dict[str, Any]:
        """Return the state with observations and answers."""
        return {**super().state_dict(), "labels": None if self.labels is None else self.labels.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        if self.labels is not None:
            self.labels.load_state_dict(state["labels"])
