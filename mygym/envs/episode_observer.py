"""The observer of an episode: observations with noise, current goals, and snapshots of an environment."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.engines.world import SavedWorld, World
from mygym.envs.camera_views import CameraViews
from mygym.envs.episodes import Episodes
from mygym.envs.observation_builder import Memory, Observation, ObservationBuilder
from mygym.envs.observation_spec import ObservationSpec
from mygym.envs.randomization import DomainRandomizer
from mygym.errors import RunError


class EpisodeObserver:
    """Observes an environment's episode.

    Args:
        spec: Contents and layout of the observations.
        episodes: The episode.
        randomizer: Domain randomization, with the noise of observations.
        views: Views of the environment's cameras.

    Raises:
        ConfigError: See `ObservationBuilder`.
        RegistryError: Unknown component.
    """

    def __init__(
        self, spec: ObservationSpec, episodes: Episodes, randomizer: DomainRandomizer, views: CameraViews
    ) -> None:
        self._episodes, self._randomizer, self.views = episodes, randomizer, views
        self.builder = ObservationBuilder(spec, episodes.context, views)
        """Builder of the observations."""
        self._builders = {spec: self.builder}
        self.achieved = np.zeros(self.builder.goal_space.size, dtype=np.float32)
        """`(G,)`: achieved goal of the last observation, exact."""
        self.desired = self.builder.desired_goal(episodes.goals)
        """`(G,)`: desired goal."""

    def begin_episode(self) -> None:
        """Begin an episode, after its goals are drawn."""
        self.views.begin_episode()
        self.update_goal()

    def update_goal(self) -> None:
        """Set the desired goal to the episode's goals."""
        self.views.clear()
        self.desired = self.builder.desired_goal(self._episodes.goals)

    def observe(self) -> Observation:
        """Return the observation in new arrays, and update the achieved goal."""
        self.views.clear()
        context = self._episodes.context
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
            self._builders[spec] = ObservationBuilder(spec, self._episodes.context, self.views)
        return self._builders[spec]

    def restore(self, memory: Memory) -> Observation:
        """Restore the memory of earlier steps, and return the observation."""
        self.builder.memory = memory
        self.update_goal()
        return self.observe()


EPISODE_STATE = ("goals", "progress", "memory", "stages_done", "failed", "touched", "saturated", "elapsed")


class Snapshot:
    """State of an episode, which can be restored until the next reset.

    Args:
        episodes: The episode.
        randomizer: Its domain randomization.
        memory: Memory of its observations.
        actions: Actions since the reset.
    """

    def __init__(
        self, episodes: Episodes, randomizer: DomainRandomizer, memory: Memory, actions: Sequence[NDArray[Any]]
    ) -> None:
        self.memory = memory
        self._episodes, self._randomizer, self._actions = episodes, randomizer, list(actions)
        world = episodes.worlds
        assert isinstance(world, World), "a single world"
        self._world = SavedWorld(world)
        self._values = copy.deepcopy({name: getattr(episodes, name) for name in EPISODE_STATE})
        self._randomness = copy.deepcopy(randomizer.state())

    def restore(self, episodes: Episodes) -> list[NDArray[Any]]:
        """Restore the state of an environment's episode; return the actions since the reset.

        Raises:
            RunError: The snapshot is that of another environment, or the environment was reset or closed since.
        """
        if episodes is not self._episodes:
            raise RunError("snapshot: it belongs to another environment")
        self._world.restore()
        for name, value in copy.deepcopy(self._values).items():
            setattr(episodes, name, value)
        self._randomizer.set_state(copy.deepcopy(self._randomness))
        return list(self._actions)
