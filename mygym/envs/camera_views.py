"""Images for observations: views of cameras, and the networks that find objects in them or encode them.

Each camera is rendered once per step, however many components see through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mygym.config.schema import ImageParams
from mygym.engines.rendering.camera import Camera
from mygym.engines.rendering.viewer import Viewer
from mygym.engines.world import World
from mygym.envs.episodes import Episodes
from mygym.errors import ConfigError, bad_value
from mygym.robotics.robot_spec import MountedCameraSpec
from mygym.tasks import goals
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.observations import CameraView, Component, Frame, camera_of
from mygym.tasks.predicates import END_EFFECTOR, END_EFFECTOR_FROM_OBJECT, OBJECT
from mygym.types import FloatArray

if TYPE_CHECKING:
    from mygym.vision.detector import Detection, Detector
    from mygym.vision.encoder import Encoder

DETECTOR, ENCODER = "image_params.detector", "image_params.encoder"

UPRIGHT = (0.0, 0.0, 0.0, 1.0)
"""Quaternion of an object whose orientation is not known."""

GOAL_TERMS = {OBJECT, END_EFFECTOR, END_EFFECTOR_FROM_OBJECT}
"""Terms of goals that follow from the end effector and positions of objects."""

DEPTH_ON_ROBOT = (0.0, 0.5)
"""m: default range of depths of cameras on the robot."""

DEPTH_MARGIN = 1.0
"""m: default range of depths to either side of the point that a camera of the workspace looks at."""


def check_cameras(components: Iterable[str], cameras: Sequence[str], why: str) -> None:
    """Check that components see through some of `cameras`.

    Raises:
        ConfigError: A component sees through another camera.
    """
    for name in components:
        if camera_of(name) not in cameras:
            allowed = [f"{name.partition(':')[0]}:{camera}" for camera in cameras]
            raise ConfigError(bad_value("observations", name, allowed, why))


def open_detector(images: ImageParams, world: World) -> Detector:
    """Load the detector of `image_params`, which imports torch.

    Raises:
        ConfigError: The file contains no detector, or the world lacks a camera, or has objects that it does not know.
    """
    from mygym.vision.detector import load_detector

    path = str(images.detector)
    detector = load_detector(path, DETECTOR)
    names = [spec.name for spec in world.objects]
    if missing := [camera for camera in detector.cameras if camera not in world.cameras]:
        why = f"needs the camera {missing[0]}, which workspace and robot lack"
        raise ConfigError(
            bad_value(DETECTOR, path, f"a detector for cameras of: {', '.join(sorted(world.cameras))}", why)
        )
    if unknown := [name for name in names if name not in detector.objects]:
        why = f"knows {', '.join(detector.objects)}, and not {unknown[0]}"
        raise ConfigError(bad_value(DETECTOR, path, f"a detector of {', '.join(dict.fromkeys(names))}", why))
    if len(set(names)) < len(names) or not names:
        why = "cannot distinguish objects of the same name" if names else "finds objects, and the task has none"
        raise ConfigError(bad_value(DETECTOR, path, "null, or a task with objects of different names", why))
    return detector


def check_detectable(
    components: Mapping[str, Component], images: ImageParams, detector: Detector, space: goals.GoalSpace
) -> None:
    """Refuse observations that need more of the objects than their positions.

    Raises:
        ConfigError: A component, or a goal, needs the simulator; a marker shows the goal in images; or images have
            another shape or camera than the detector's.
    """
    for name, component in components.items():
        if component.uses_camera and images.goal == "image":
            why = "would show the marker of the goal, which the detector does not know"
            raise ConfigError(bad_value("observations", name, "image_params: {goal: vector}", why))
        if not component.detectable:
            why = f"cannot be computed from the positions that {DETECTOR} gives"
            raise ConfigError(bad_value("observations", name, "observations without it", why))
    seen = [name for name, component in components.items() if component.uses_camera and not component.encoded]
    check_cameras(seen, detector.cameras, "sees through a camera unknown to the detector")
    if seen and images.width * detector.height != images.height * detector.width:
        allowed = f"the shape of the detector's images, {detector.width} x {detector.height}"
        raise ConfigError(bad_value("image_params", f"{images.width} x {images.height}", allowed))
    for section in space.sections:
        if section.term not in GOAL_TERMS:
            name = section.predicate.name if section.term is None else section.term.name
            why = f"cannot give {name}, a part of the task's goal vectors"
            raise ConfigError(bad_value(DETECTOR, str(images.detector), "null, or another task", why))


def last_seen(before: Mapping[str, FloatArray], detections: Sequence[Detection]) -> dict[str, FloatArray]:
    """Return object → `(3,)` m, where it was last seen; an object that no camera sees now keeps its position.

    Args:
        before: The positions in the step before.
        detections: Bodies in the frames of all cameras. Their estimates count by the number of pixels.
    """
    positions = dict(before)
    for name in {name for detection in detections for name in detection.positions}:
        seen = [detection for detection in detections if name in detection.positions]
        weights = [detection.pixels[name] for detection in seen]
        positions[name] = np.average([detection.positions[name] for detection in seen], axis=0, weights=weights)
    return positions


def as_detected(context: EpisodeContext, names: Sequence[str], positions: Mapping[str, FloatArray]) -> EpisodeContext:
    """Return a context with objects at positions `(3,)` m; an object that was not seen yet is at the origin.

    Nothing else of the objects is known: they are upright and at rest, and no contact presses them down.
    """
    origin = np.zeros(3)
    position = np.stack([positions.get(name, origin) for name in names])[None]
    state, at_rest = context.state, np.zeros_like(position)
    state = replace(
        state,
        object_position=position,
        object_orientation=np.zeros_like(state.object_orientation) + UPRIGHT,
        object_velocity=at_rest,
        object_angular_velocity=at_rest,
        object_depth=np.zeros_like(state.object_depth),
    )
    return replace(context, state=state)


def open_encoder(images: ImageParams) -> Encoder:
    """Load the encoder of `image_params`, which imports torch.

    Raises:
        ConfigError: `image_params` name no encoder, or the file contains none.
    """
    from mygym.vision.encoder import load_encoder

    if images.encoder is None:
        why = "is missing: the observation component latent needs it"
        raise ConfigError(bad_value(ENCODER, None, "a file of `mygym encoder train`", why))
    return load_encoder(images.encoder, ENCODER)


def check_encodable(components: Mapping[str, Component], images: ImageParams, encoder: Encoder) -> None:
    """Refuse latents of images that differ from those of the encoder's data set.

    Raises:
        ConfigError: A camera is not in the data set, or the goal has another form.
    """
    encoded = (name for name, component in components.items() if component.encoded)
    check_cameras(encoded, encoder.cameras, f"has a camera that {ENCODER} does not know")
    if images.goal != encoder.images.goal:
        saw = "saw the marker of the goal" if encoder.images.goal == "image" else "saw no marker of the goal"
        allowed = f"{encoder.images.goal}: {ENCODER} {saw}"
        raise ConfigError(bad_value("image_params.goal", images.goal, allowed))


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
    def time(self) -> float:
        """Simulated seconds since the reset."""
        return float(self._world.state.time[0])

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
        """Return the detector of `image_params`; errors are those of `open_detector`."""
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
        """Return the encoder of `image_params`; errors are those of `open_encoder`."""
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
