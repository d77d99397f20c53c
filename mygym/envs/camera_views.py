"""Views of cameras for observations: each camera is rendered once per step, however many components see through it."""

from __future__ import annotations

from mygym.config.schema import ImageParams
from mygym.envs.env_renderer import EnvRenderer
from mygym.envs.episode import Episode
from mygym.models.robot_spec import MountedCameraSpec
from mygym.sim.world import World
from mygym.tasks.camera_view import CameraView, Frame

DEPTH_ON_ROBOT = (0.0, 0.5)
"""m: default range of depths of cameras on the robot."""

DEPTH_MARGIN = 1.0
"""m: default range of depths to either side of the point that a camera of the workspace looks at."""


class CameraViews:
    """Views of a world's cameras in the current step.

    Args:
        world: The world.
        episode: Its episode, which has the visible goal.
        renderer: Its renderer.
    """

    def __init__(self, world: World, episode: Episode, renderer: EnvRenderer) -> None:
        self._world, self._episode, self._renderer = world, episode, renderer
        self._frames: dict[tuple[str, int, int, str], Frame] = {}
        self._episodes = 0

    @property
    def cameras(self) -> list[str]:
        """Names of the cameras."""
        return sorted(self._world.cameras)

    @property
    def moment(self) -> tuple[int, float]:
        """Number of the episode, and simulated seconds since its reset."""
        return self._episodes, float(self._world.state.time[0])

    def begin_episode(self) -> None:
        """Count an episode."""
        self._episodes += 1

    def targets(self, images: ImageParams) -> tuple[int, ...]:
        """Return `CameraView.targets`."""
        first = 1 + sum(fixture.visible for fixture in self._world.workspace.fixtures.values())
        roles = range(first, first + len(self._episode.task.roles))
        marker = [first + len(self._world.objects)] if images.goal == "image" else []
        return (*roles, *marker)

    def depth_range(self, camera: str, images: ImageParams) -> tuple[float, float]:
        """Return the distances, m, with the depths 0 and 255."""
        if images.depth_range is not None:
            return images.depth_range
        spec = self._world.cameras[camera]
        if isinstance(spec, MountedCameraSpec):
            return DEPTH_ON_ROBOT
        return max(0.0, spec.distance - DEPTH_MARGIN), spec.distance + DEPTH_MARGIN

    def view(self, camera: str, images: ImageParams) -> CameraView:
        """Return the view of a camera, from a new rendering if it is the first of its size in the step."""
        key = camera, images.width, images.height, images.goal
        if key not in self._frames:
            goal = self._episode.visible_goal() if images.goal == "image" else None
            self._frames[key] = self._renderer.camera.capture(images.width, images.height, camera, goal)
        return CameraView(self._frames[key], self.depth_range(camera, images), self.targets(images))

    def clear(self) -> None:
        """Forget all frames, because the world or the goal has changed."""
        self._frames.clear()
