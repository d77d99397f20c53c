"""Teachers of a student: the scripted expert and policies of trained runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray

from mygym.envs.observation_spec import ObservationSpec
from mygym.runs.policy import Policy
from mygym.strategies.gaussians import family, gaussian


class Teacher(Protocol):
    """Protocol of teachers: return actions for the current states of environments, without acting in them."""

    @property
    def family(self) -> str | None:
        """Kind of Gaussian, see `mygym.strategies.gaussians`; None: no Gaussian."""

    def actions(self, env: Any, rows: Sequence[int]) -> NDArray[np.float32]:
        """Return actions `(n, A)` without exploration, for `n` environments (indices `rows`) of an SB3 `VecEnv`."""


class Oracle:
    """Teacher that queries the scripted expert of each environment."""

    family: str | None = None

    def actions(self, env: Any, rows: Sequence[int]) -> NDArray[np.float32]:
        """Return the expert's actions, see `Teacher`."""
        return np.stack(env.env_method("expert_action", indices=rows))


class Trained:
    """Teacher from a run: its policy receives the observations of its training, built from the student's environments.

    Args:
        policy: Policy of the run.
        observation_spec: Observations of its training.
    """

    def __init__(self, policy: Policy, observation_spec: ObservationSpec) -> None:
        self.policy = policy
        self.observation_spec = observation_spec
        self.family = family(policy.model.policy)

    def actions(self, env: Any, rows: Sequence[int]) -> NDArray[np.float32]:
        """Return the policy's actions, see `Teacher`."""
        return self.policy.predict(self._observations(env, rows), deterministic=True)[0]

    @torch.no_grad()
    def gaussians(self, env: Any, rows: Sequence[int]) -> NDArray[np.float32]:
        """Return the parameters `(n, 2A)` of the policy's action distribution."""
        network = self.policy.model.policy
        observations, _ = network.obs_to_tensor(self.policy.normalized(self._observations(env, rows)))
        parameters: NDArray[np.float32] = gaussian(network, observations).cpu().numpy()
        return parameters

    def _observations(self, env: Any, rows: Sequence[int]) -> Any:
        observations = env.env_method("observe_as", self.observation_spec, indices=rows)
        if isinstance(observations[0], Mapping):
            return {name: np.stack([o[name] for o in observations]) for name in observations[0]}
        return np.stack(observations)


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
        families = {teacher.family for teachers in self._of_variant for teacher in teachers}
        return families.pop() if len(families) == 1 else None

    def act(self, observations: Any) -> NDArray[np.float32]:
        """Return the teachers' actions `(n_envs, A)` in the current states; `observations` are not used."""
        return self._answers(lambda teacher, rows: teacher.actions(self._env, rows))

    def gaussians(self) -> NDArray[np.float32]:
        """Return the parameters `(n_envs, 2A)` of the teachers' action distributions, if they have a `family`."""
        return self._answers(lambda teacher, rows: cast(Trained, teacher).gaussians(self._env, rows))

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
