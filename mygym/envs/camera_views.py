"""Views of cameras for observations: each camera is rendered once per step, however many components see through it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mygym.config.schema import ImageParams
from mygym.engines.rendering.camera import Camera
from mygym.engines.rendering.viewer import Viewer
from mygym.engines.world import World
from mygym.envs.detected_objects import open_detector
from mygym.envs.episodes import Episodes
from mygym.errors import ConfigError, bad_value
from mygym.robotics.robots import MountedCameraSpec
from mygym.tasks.observations import CameraView, Component, Frame, camera_of

if TYPE_CHECKING:
    from mygym.vision.detector import Detection, Detector
    from mygym.vision.encoder import Encoder


KEY = "image_params.encoder"


def open_encoder(images: ImageParams) -> Encoder:
    """Load the encoder of `image_params`, which imports torch.

    Raises:
        ConfigError: `image_params` name no encoder, or the file contains none.
    """
    from mygym.vision.encoder import load_encoder

    if images.encoder is None:
        why = "is missing: the observation component latent needs it"
        raise ConfigError(bad_value(KEY, None, "a file of `mygym encoder train`", why))
    return load_encoder(images.encoder, KEY)


def check_encodable(components: Mapping[str, Component], images: ImageParams, encoder: Encoder) -> None:
    """Refuse latents of images that differ from those of the encoder's data set.

    Raises:
        ConfigError: A camera is not in the data set, or the goal has another form.
    """
    for name, component in components.items():
        if component.encoded and camera_of(name) not in encoder.cameras:
            known = [f"{name.partition(':')[0]}:{camera}" for camera in encoder.cameras]
            raise ConfigError(bad_value("observations", name, known, f"has a camera that {KEY} does not know"))
    if images.goal != encoder.images.goal:
        saw = "saw the marker of the goal" if encoder.images.goal == "image" else "saw no marker of the goal"
        allowed = f"{encoder.images.goal}: {KEY} {saw}"
        raise ConfigError(bad_value("image_params.goal", images.goal, allowed))


DEPTH_ON_ROBOT = (0.0, 0.5)
"""m: default range of depths of cameras on the robot."""

DEPTH_MARGIN = 1.0
"""m: default range of depths to either side of the point that a camera of the workspace looks at."""


class CameraViews:
    """Views of a world's cameras in the current step, and the renderer of all its images."""

    def __init__(self, world: World, episodes: Episodes) -> None:
        self._world, self._episodes = world, episodes
        self._camera: Camera | None = None
        self._frames: dict[tuple[str, int, int, str], Frame] = {}
        self._detectors: dict[str, Detector] = {}
        self._detections: dict[tuple[str, str], Detection] = {}
        self._encoders: dict[str | None, Encoder] = {}
        self._encoded: dict[tuple[str, str | None], CameraView] = {}
        self._begun = 0

    @property
    def camera(self) -> Camera:
        """Renderer of the world's cameras, opened when it is first used."""
        self._camera = self._camera or Camera(self._world)
        return self._camera

    @property
    def cameras(self) -> list[str]:
        """Names of the cameras."""
        return sorted(self._world.cameras)

    @property
    def objects(self) -> list[str]:
        """Names of the objects, in the order of `State.object_position`."""
        return [spec.name for spec in self._world.objects]

    @property
    def moment(self) -> tuple[int, float]:
        """Number of the episode, and simulated seconds since its reset."""
        return self._begun, float(self._world.state.time[0])

    def begin_episode(self) -> None:
        """Count an episode."""
        self._begun += 1

    def targets(self, images: ImageParams) -> tuple[int, ...]:
        """Return `CameraView.targets`."""
        first = 1 + sum(fixture.visible for fixture in self._world.workspace.fixtures.values())
        roles = range(first, first + len(self._episodes.task.roles))
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
            goal = self._episodes.visible_goal() if images.goal == "image" else None
            self._frames[key] = self.camera.capture(images.width, images.height, camera, goal)
        frame = self._frames[key]
        if images.detector is not None:
            frame = self._as_detected(frame, camera, images)
        return CameraView(frame, self.depth_range(camera, images), self.targets(images))

    def detector(self, images: ImageParams) -> Detector:
        """Return the detector of `image_params`.

        Raises:
            ConfigError: See `open_detector`.
        """
        path = str(images.detector)
        if path not in self._detectors:
            self._detectors[path] = open_detector(images, self._world)
        return self._detectors[path]

    def detections(self, images: ImageParams) -> list[Detection]:
        """Return the bodies that the detector sees through each of its cameras."""
        return [self._detection(camera, images) for camera in self.detector(images).cameras]

    def _detection(self, camera: str, images: ImageParams) -> Detection:
        detector, key = self.detector(images), (camera, str(images.detector))
        if key not in self._detections:
            params = ImageParams(width=detector.width, height=detector.height, goal="vector")
            self._detections[key] = detector.detect(self.view(camera, params).frame)
        return self._detections[key]

    def _as_detected(self, frame: Frame, camera: str, images: ImageParams) -> Frame:
        """Return a frame with the segmentation of the detector, of which each pixel takes the nearest."""
        classes = self._detection(camera, images).classes
        index = [frame.labels.index(name) if name in frame.labels else -1 for name in self.detector(images).categories]
        height, width = frame.depth.shape
        rows, columns = (
            (np.arange(size) * count // size) for size, count in zip((height, width), classes.shape, strict=True)
        )
        return replace(frame, segmentation=np.array([-1, *index], dtype=np.int32)[classes[np.ix_(rows, columns)]])

    def encoder(self, images: ImageParams) -> Encoder:
        """Return the encoder of `image_params`.

        Raises:
            ConfigError: See `open_encoder`.
        """
        if images.encoder not in self._encoders:
            self._encoders[images.encoder] = open_encoder(images)
        return self._encoders[images.encoder]

    def encoded(self, camera: str, images: ImageParams) -> CameraView:
        """Return the view of a camera as the encoder sees it, with the latents."""
        encoder, key = self.encoder(images), (camera, images.encoder)
        if key not in self._encoded:
            view = self.view(camera, encoder.images)
            self._encoded[key] = replace(view, latent=encoder.encode(view))
        return self._encoded[key]

    def close(self) -> None:
        """Close the renderer; may be called repeatedly."""
        if self._camera is not None:
            self._camera.close()
        self._camera = None

    def clear(self) -> None:
        """Forget all frames, because the world or the goal has changed."""
        self._frames.clear()
        self._detections.clear()
        self._encoded.clear()


class EnvWindow:
    """Window that shows an environment's episode, opened at the first update; if `is_live`, each step updates it."""

    def __init__(self, world: World, episodes: Episodes, is_live: bool) -> None:
        self._world, self._episodes, self._is_live, self._realtime = world, episodes, is_live, True
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
        self.viewer = self.viewer or Viewer(self._world, self._realtime)
        self.viewer.update(self._episodes.visible_goal(), self._caption)

    def close(self) -> None:
        """Close the window; may be called repeatedly."""
        if self.viewer is not None:
            self.viewer.close()
        self.viewer = None

    def _show(self, rewards: str) -> None:
        """Show the current state, with the stage, the step and `rewards` as the caption."""
        stage = (*self._episodes.task.labels, "done")[int(self._episodes.progress.stage[0])]
        self._caption = f"{stage}   step {int(self._episodes.elapsed[0])}{rewards}"
        self.update()
