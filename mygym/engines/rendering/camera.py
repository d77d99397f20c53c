"""Images of a world: colours, depth and segmentation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mygym.engines.bullet.client import bullet
from mygym.engines.rendering.appearance import background_of, light_of, view_of
from mygym.engines.rendering.scene import Scene, averaged, check_sizes, rendered
from mygym.engines.world import World
from mygym.errors import ConfigError, bad_value
from mygym.robotics.robot_spec import MountedCameraSpec
from mygym.robotics.workspace import CameraSpec
from mygym.tasks.observations import Frame, Image
from mygym.types import FloatArray

NEAR, NEAR_ON_ROBOT, FAR = 0.05, 0.01, 10.0
"""m: nearest distance that a camera of the workspace and of the robot sees, and farthest distance of both."""

OPENGL_AXES = np.diag([1.0, -1.0, -1.0, 1.0])
"""Axes of OpenGL's cameras (y upwards, z backwards) in those of `Frame.pose`."""


class Camera:
    """Software renderer of a world, with the cameras of its workspace and of its robot."""

    def __init__(self, world: World) -> None:
        self._world, self._scene = world, Scene(world)

    def render(
        self,
        width: int,
        height: int,
        camera: str = "main",
        goal: ArrayLike | None = None,
        shadow: bool = False,
        samples: int = 1,
    ) -> Image:
        """Return an image of the world in its current state.

        Args:
            width: Pixels.
            height: Pixels.
            camera: Name of a camera of the workspace or the robot.
            goal: `(3,)` m, position of the goal marker; None hides it.
            shadow: Cast shadows, at about twice the cost.
            samples: Anti-aliasing: render at this multiple of the size, and average.

        Returns:
            `(height, width, 3)` uint8, RGB, a new array.

        Raises:
            ConfigError: Unknown camera, or a size that is not positive.
        """
        check_sizes(render_width=width, render_height=height, samples=samples)
        image, *_ = self._capture(width * samples, height * samples, camera, goal, shadow)
        if samples > 1:
            image = averaged(image, samples)
        return np.ascontiguousarray(image)

    def capture(
        self, width: int, height: int, camera: str = "main", goal: ArrayLike | None = None, shadow: bool = False
    ) -> Frame:
        """Return colours, depth and segmentation of the world in its current state, from one rendering.

        The arguments, and errors, are those of `render`.
        """
        check_sizes(render_width=width, render_height=height)
        image, segments, buffer, view = self._capture(width, height, camera, goal, shadow)
        near = self._near(camera)
        depth = (FAR * near / (FAR - (FAR - near) * buffer)).astype(np.float32)
        depth[segments < 0] = np.inf
        marker = [("goal", self._scene.goal)] if goal is not None else []
        labels, bodies = zip(*self._scene.bodies(), *marker, strict=True)
        index = np.full(max(bodies) + 2, -1, dtype=np.int32)  # the last is for the background, which is body -1
        index[list(bodies)] = range(len(bodies))
        pose = np.linalg.inv(np.asarray(view, dtype=np.float64).reshape(4, 4).T) @ OPENGL_AXES
        focal = 0.5 * height / math.tan(0.5 * math.radians(self._world.cameras[camera].fov))
        return Frame(np.ascontiguousarray(image), depth, index[segments], labels, pose.astype(np.float64), focal)

    def robot_mask(self, width: int, height: int, camera: str = "main") -> NDArray[np.bool_]:
        """Return `(height, width)`: whether each pixel shows the robot."""
        _, segments, *_ = self._capture(width, height, camera)
        mask: NDArray[np.bool_] = segments == self._scene.robot
        return mask

    def link_pose(self, link: str) -> FloatArray:
        """Return the pose `(4, 4)` of a link of the robot's URDF in the world's current state."""
        self._scene.mirror()
        return self._scene.link_pose(link)

    def _capture(
        self, width: int, height: int, camera: str, goal: ArrayLike | None = None, shadow: bool = False
    ) -> tuple[Image, NDArray[np.int_], FloatArray, FloatArray]:
        """Show the current state, and return the images of `rendered`, with the background, and the view matrix.

        Raises:
            ConfigError: Unknown camera.
        """
        self._scene.mirror(goal)
        cameras, randomization = self._world.cameras, self._world.randomization
        if camera not in cameras:
            raise ConfigError(bad_value("camera", camera, cameras, "is not a camera of this workspace or robot"))
        spec = cameras[camera]
        view = self._view_on_robot(spec) if isinstance(spec, MountedCameraSpec) else view_of(spec, randomization)
        projection = bullet.computeProjectionMatrixFOV(spec.fov, width / height, self._near(camera), FAR)
        light = light_of(randomization)
        image, segments, depth = rendered(self._scene.client, width, height, view, projection, light, shadow)
        background = background_of(self._world.workspace.background, randomization)
        image[segments < 0] = (255 * np.array(background)).astype(np.uint8)
        return image, segments, depth, np.asarray(view)

    def _view_on_robot(self, camera: MountedCameraSpec) -> Any:
        """Return the view matrix of a camera on the robot."""
        pose = self._scene.link_pose(camera.link)
        eye, target = (pose[:3, :3] @ point + pose[:3, 3] for point in (camera.position, camera.target))
        return bullet.computeViewMatrix(eye.tolist(), target.tolist(), (pose[:3, :3] @ camera.up).tolist())

    def _near(self, camera: str) -> float:
        return NEAR_ON_ROBOT if camera in self._world.robot.cameras else NEAR

    def close(self) -> None:
        """Close the visual client; may be called repeatedly."""
        self._scene.close()


ROBOT_MARGIN = 1.25
"""Size of a robot's image relative to its collision shapes."""


def around(points: FloatArray, camera: CameraSpec, aspect: float) -> CameraSpec:
    """Return a camera with the angles of `camera` that sees points `(n, 3)` m."""
    target = (points.min(axis=0) + points.max(axis=0)) / 2
    view = np.array(
        bullet.computeViewMatrixFromYawPitchRoll((0.0, 0.0, 0.0), 1.0, camera.yaw, camera.pitch, 0.0, 2)
    ).reshape(4, 4)[:3, :3]  # column-major: rows times this are right, up, towards the camera
    right, up, near = ((points - target) @ view).T
    tangent = np.tan(np.radians(camera.fov) / 2)
    distance = float(np.max(near + ROBOT_MARGIN * np.maximum(np.abs(up), np.abs(right) / aspect) / tangent))
    x, y, z = target.tolist()
    return replace(camera, target=(x, y, z), distance=distance)
