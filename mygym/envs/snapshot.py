"""Quick snapshots of an environment for planners; `state_dict` and `copy.deepcopy` are exact, and slower."""

from __future__ import annotations

import copy

from mygym.engines.bullet.world import SavedWorld
from mygym.envs.domain_randomizer import DomainRandomizer
from mygym.envs.episode import Episode
from mygym.envs.observation_builder import Memory
from mygym.errors import RunError

EPISODE_STATE = ("goals", "progress", "potential", "stages_done", "failed", "touched", "saturated", "elapsed_steps")


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
