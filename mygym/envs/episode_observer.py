"""The observer of an episode: its observations with noise, and its current goal vectors."""

from __future__ import annotations

import numpy as np

from mygym.envs.camera_views import CameraViews
from mygym.envs.domain_randomizer import DomainRandomizer
from mygym.envs.episode import Episode
from mygym.envs.observation_builder import Memory, Observation, ObservationBuilder
from mygym.envs.observation_spec import ObservationSpec


class EpisodeObserver:
    """Observes an environment's episode.

    Args:
        spec: Contents and layout of the observations.
        episode: The episode.
        randomizer: Domain randomization, with the noise of observations.
        views: Views of the environment's cameras.

    Raises:
        ConfigError: See `ObservationBuilder`.
        RegistryError: Unknown component.
    """

    def __init__(
        self, spec: ObservationSpec, episode: Episode, randomizer: DomainRandomizer, views: CameraViews
    ) -> None:
        self._episode, self._randomizer, self.views = episode, randomizer, views
        self.builder = ObservationBuilder(spec, episode.context, views)
        """Builder of the observations."""
        self._builders = {spec: self.builder}
        self.achieved = np.zeros(self.builder.goal_space.size, dtype=np.float32)
        """`(G,)`: achieved goal of the last observation, exact."""
        self.desired = self.builder.desired_goal(episode.goals)
        """`(G,)`: desired goal."""

    def begin_episode(self) -> None:
        """Begin an episode, after its goals are drawn."""
        self.views.begin_episode()
        self.update_goal()

    def update_goal(self) -> None:
        """Set the desired goal to the episode's goals."""
        self.views.clear()
        self.desired = self.builder.desired_goal(self._episode.goals)

    def observe(self) -> Observation:
        """Return the observation in new arrays, and update the achieved goal."""
        self.views.clear()
        context = self._episode.context
        self.achieved = self.builder.achieved_goal(context)
        seen = self.builder.detected(context)
        achieved = self.achieved.copy() if seen is context else self.builder.achieved_goal(seen)
        observation = self.builder.vector(seen, self._randomizer.noise)
        return self.builder.arrange(context, observation, achieved, self.desired.copy())

    def builder_of(self, spec: ObservationSpec) -> ObservationBuilder:
        """Return the builder of another specification.

        Raises:
            ConfigError: See `ObservationBuilder`.
        """
        if spec not in self._builders:
            self._builders[spec] = ObservationBuilder(spec, self._episode.context, self.views)
        return self._builders[spec]

    def restore(self, memory: Memory) -> Observation:
        """Restore the memory of earlier steps, and return the observation."""
        self.builder.memory = memory
        self.update_goal()
        return self.observe()
