"""The observer of an episode: observations with noise, current goals, and snapshots of an environment."""

from __future__ import annotations

import copy

import numpy as np

from mygym.engines.bullet.world import SavedWorld
from mygym.envs.camera_views import CameraViews
from mygym.envs.domain_randomizer import DomainRandomizer
from mygym.envs.episode import Episode
from mygym.envs.observation_builder import Memory, Observation, ObservationBuilder
from mygym.envs.observation_spec import ObservationSpec
from mygym.errors import RunError


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


EPISODE_STATE = ("goals", "progress", "memory", "stages_done", "failed", "touched", "saturated", "elapsed_steps")


class Snapshot:
    """State of an episode, which can be restored until the next reset.

    Args:
        episode: The episode.
        randomizer: Its domain randomization.
        memory: Memory of its observations.
    """

    def __init__(self, episode: Episode, randomizer: DomainRandomizer, memory: Memory) -> None:
        self.memory = memory
        self._episode, self._randomizer = episode, randomizer
        self._world = SavedWorld(episode.world)
        self._values = copy.deepcopy({name: getattr(episode, name) for name in EPISODE_STATE})
        self._actions = list(episode.actions)
        self._randomness = copy.deepcopy(randomizer.state())

    def restore(self, episode: Episode) -> None:
        """Restore the state of an environment's episode.

        Raises:
            RunError: The snapshot is that of another environment, or the environment was reset or closed since.
        """
        if episode is not self._episode:
            raise RunError("snapshot: it belongs to another environment")
        self._world.restore()
        for name, value in copy.deepcopy(self._values).items():
            setattr(episode, name, value)
        episode.actions = list(self._actions)
        self._randomizer.set_state(copy.deepcopy(self._randomness))
