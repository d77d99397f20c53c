"""The window of an environment, and its caption."""

from __future__ import annotations

from mygym.engines.bullet.rendering.viewer import Viewer
from mygym.envs.episode import Episode


class EnvWindow:
    """Window that shows an environment's episode, opened at the first update.

    Args:
        episode: The episode.
        is_live: Whether each reset and each step updates the window.
    """

    def __init__(self, episode: Episode, is_live: bool) -> None:
        self._episode, self._is_live, self._realtime = episode, is_live, True
        self._caption, self._total_reward = "", 0.0
        self.viewer: Viewer | None = None
        """The window; None before the first update."""

    def watch(self) -> None:
        """Show all further steps, without waiting for real time."""
        self._is_live, self._realtime = True, False

    def begin_episode(self) -> None:
        """Show the state after a reset."""
        if self._is_live:
            self._total_reward = 0.0
            self._show("")

    def step(self, reward: float) -> None:
        """Show the state after a step, with its reward and the sum of the rewards since the reset."""
        if self._is_live:
            self._total_reward += reward
            self._show(f"   reward {reward:.2f}   return {self._total_reward:.2f}")

    def update(self) -> None:
        """Show the current state with the last caption."""
        self.viewer = self.viewer or Viewer(self._episode.world, self._realtime)
        self.viewer.update(self._episode.visible_goal(), self._caption)

    def close(self) -> None:
        """Close the window; may be called repeatedly."""
        if self.viewer is not None:
            self.viewer.close()
        self.viewer = None

    def _show(self, rewards: str) -> None:
        """Show the current state, with the stage, the step and `rewards` as the caption."""
        stage = (*self._episode.task.labels, "done")[int(self._episode.progress.stage[0])]
        self._caption = f"{stage}   step {self._episode.elapsed_steps}{rewards}"
        self.update()
