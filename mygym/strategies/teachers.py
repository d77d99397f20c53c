"""Teachers: the scripted expert and policies of runs, each looking at the student's environments in its own way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray

from mygym.config import RunConfig
from mygym.envs.observation_builder import ObservationSpec
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, bad_value
from mygym.runs import devices, directory, factory
from mygym.runs.checkpoints.state import load_random_state, random_state
from mygym.runs.loading import config_of_run, load
from mygym.runs.policy import Policy
from mygym.runs.variants import Variant, codes, variants
from mygym.strategies.mixture.gaussians import family, gaussian

KEY = "strategy_params.teacher"

ORACLE = "oracle"
"""The name of the scripted expert."""

Array = NDArray[np.float32]
Said = str | list[str] | dict[str, Any]
"""A teacher; several; or, for each task by its label, one of these."""


class Teacher(Protocol):
    """Says what it would do in the states that environments are in; it never acts."""

    @property
    def family(self) -> str | None:
        """Of its Gaussian, see `mygym.strategies.mixture.gaussians`; None: it has none."""

    def actions(self, env: Any, rows: Sequence[int]) -> Array:
        """`(n, A)`: what it would do, without exploration, in `n` of the environments of an SB3 `VecEnv`."""


class Oracle:
    """The scripted expert, which reads the state itself."""

    family: str | None = None

    def actions(self, env: Any, rows: Sequence[int]) -> Array:
        """See `Teacher`."""
        return np.stack(env.env_method("expert_action", indices=rows))


class Trained:
    """The policy of a run, which sees the student's environments as it saw its own: with more components, maybe.

    Args:
        policy: Of the run.
        composition: Of the observations that it was trained on.
    """

    def __init__(self, policy: Policy, composition: ObservationSpec) -> None:
        self.policy = policy
        self.composition = composition
        self.family = family(policy.model.policy)

    def actions(self, env: Any, rows: Sequence[int]) -> Array:
        """See `Teacher`."""
        return self.policy.predict(self._seen(env, rows), deterministic=True)[0]

    @torch.no_grad()
    def gaussians(self, env: Any, rows: Sequence[int]) -> Array:
        """`(n, 2A)`: what it would draw its actions from."""
        network = self.policy.model.policy
        seen, _ = network.obs_to_tensor(self.policy.normalized(self._seen(env, rows)))
        drawn_from: Array = gaussian(network, seen).cpu().numpy()
        return drawn_from

    def _seen(self, env: Any, rows: Sequence[int]) -> Any:
        seen = env.env_method("observe_as", self.composition, indices=rows)
        if isinstance(seen[0], Mapping):
            return {name: np.stack([one[name] for one in seen]) for name in seen[0]}
        return np.stack(seen)


class Teachers:
    """Several teachers of one student. In each state one of those of the task that is played is asked, drawn anew.

    So the student learns from all alike; the mean of two Gaussians' means would be what neither of them does.

    Args:
        env: The student's environments, an SB3 `VecEnv`.
        of_variant: Teachers of each variant that the environments play.
    """

    def __init__(self, env: Any, of_variant: Sequence[Sequence[Teacher]]) -> None:
        self._env, self._of_variant = env, of_variant

    @property
    def family(self) -> str | None:
        """Of the Gaussian that all of them have; None: they have none in common."""
        found = {teacher.family for several in self._of_variant for teacher in several}
        return found.pop() if len(found) == 1 else None

    def act(self, observations: Any) -> Array:
        """`(n_envs, A)`: what is to be done in the states that the environments are in, whatever the student sees."""
        return self._answers(lambda teacher, rows: teacher.actions(self._env, rows))

    def gaussians(self) -> Array:
        """`(n_envs, 2A)`: what that is drawn from, where they have a `family`."""
        return self._answers(lambda teacher, rows: cast(Trained, teacher).gaussians(self._env, rows))

    def _answers(self, ask: Callable[[Teacher, list[int]], Array]) -> Array:
        """A row for each environment, of the teacher that is drawn for it; each teacher is asked once."""
        asked = [_drawn(self._of_variant[variant]) for variant in self._played()]
        answers: dict[int, Array] = {}
        for teacher in dict.fromkeys(asked):
            rows = [row for row, one in enumerate(asked) if one is teacher]
            answers |= dict(zip(rows, ask(teacher, rows), strict=True))
        return np.stack([answers[row] for row in range(len(asked))])

    def _played(self) -> list[int]:
        """Which variant each environment is playing."""
        if len(self._of_variant) == 1:
            return [0] * int(self._env.num_envs)
        return list(self._env.get_attr("variant"))


def _drawn(several: Sequence[Teacher]) -> Teacher:
    if len(several) == 1:
        return several[0]
    return several[np.random.randint(len(several))]  # noqa: NPY002  (a run's state has this generator)


# What a config says -------------------------------------------------------------------------------------------------


def absolute(said: Said, key: str = KEY) -> Any:
    """The same with absolute paths: a run goes on from any folder.

    Raises:
        ConfigError: Something in it, which the user calls `key`, is no text.
    """
    if isinstance(said, Mapping):
        return {label: absolute(one, f"{key}.{label}") for label, one in said.items()}
    if isinstance(said, list):
        return [absolute(one, f"{key}.{number}") for number, one in enumerate(said)]
    if not isinstance(said, str) or not said:
        raise ConfigError(bad_value(key, said, f"{ORACLE}, or the path of a run", "names no teacher"))
    return said if said == ORACLE else str(Path(said).expanduser().absolute())


def read_teachers(said: Said, config: RunConfig, env: Any) -> Teachers:
    """The teachers that a config names.

    Args:
        said: As in the config.
        config: Of the student's run.
        env: Its training environments.

    Raises:
        ConfigError: There is no such run, or it does not fit the student's environments.
        RunError: Its policy cannot be loaded.
    """
    played = variants(config)
    named = _by_variant(said, [one.label for one in played])
    known: dict[str, Teacher] = {ORACLE: Oracle()}
    random = random_state()  # networks are built, and seed what the student's training draws from
    try:
        for name in dict.fromkeys(name for several in named for name in several if name != ORACLE):
            known[name] = _trained(name, [one for one, several in zip(played, named, strict=True) if name in several])
    finally:
        load_random_state(random)
        devices.use(config.framework, config.device, config.threads)
    return Teachers(env, [[known[name] for name in several] for several in named])


def _by_variant(said: Said, labels: Sequence[str]) -> list[list[str]]:
    """Names of the teachers of each variant.

    Raises:
        ConfigError: There is no variant of a label, or one without a teacher.
    """
    if not isinstance(said, Mapping):
        several = [said] if isinstance(said, str) else list(said)
        if not several:
            raise ConfigError(bad_value(KEY, said, f"{ORACLE}, the path of a run, or several", "names no teacher"))
        return [several] * len(labels)
    for label in said:
        if label not in labels:
            raise ConfigError(bad_value(f"{KEY}.{label}", said[label], labels, "is for a task that is not played"))
    for label in labels:
        if label not in said:
            raise ConfigError(bad_value(f"{KEY}.{label}", None, f"{ORACLE}, or the path of a run", "is missing"))
    return [_by_variant(said[label], [label])[0] for label in labels]


def _trained(name: str, played: Sequence[Variant]) -> Trained:
    """The teacher of a path, for what the student plays.

    Raises:
        ConfigError: It is no run, or one whose policy could not act there.
        RunError: Its policy cannot be loaded.
    """
    config = config_of_run(directory.find_policy(name, KEY)[0])
    if codes(config, variants(config)) is not None:
        why = "was told which of several tasks it plays, and here nobody can tell it"
        raise ConfigError(bad_value(KEY, name, "a run without identify", why))
    policy = load(name)
    if hasattr(policy.model.policy, "lstm_actor"):
        why = "acts on what it remembers, and a teacher is asked about single states"
        raise ConfigError(bad_value(KEY, name, "a run of an algorithm without memory, such as ppo", why))
    with contextlib.closing(factory.make_env(config)) as own:
        for one in played:
            with contextlib.closing(RobotEnv(**factory.env_arguments(one.config))) as env:
                if found := _differs(own, env):
                    why, allowed = found
                    raise ConfigError(bad_value(KEY, name, allowed, f"does not fit {one.label}: it {why}"))
        return Trained(policy, own.observation_spec)


def _differs(teacher: Any, student: RobotEnv) -> tuple[str, str] | None:
    """What of the teacher's own environment is not so in the student's, and what would be."""
    if teacher.control != student.control:
        why = f"moves the robot by {teacher.control}, and {student.control} is used here"
        return why, f"control: {teacher.control}; or a run with control: {student.control}"
    if teacher.action_space != student.action_space:
        own, here = (env.world.action_size for env in (teacher, student))
        allowed = "a run with the same actions: of the same robot, and both or neither with spaces: shared"
        return f"has {own} actions, and there are {here} here", allowed
    another = f"a run of the same task on {student.robot.name}, or both with spaces: shared"
    try:
        space = student.observation_space_as(teacher.observation_spec)
    except ConfigError as error:
        return f"needs to see what is not there ({error})", another
    if space != teacher.observation_space:
        return "was trained on observations of another size", another
    return None
