"""Positions of objects that a detector sees, in place of the simulator's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from mygym.config.schema import ImageParams
from mygym.engines.world import World
from mygym.errors import ConfigError, bad_value
from mygym.tasks import goals
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.observations import Component, camera_of
from mygym.tasks.predicates import END_EFFECTOR, END_EFFECTOR_FROM_OBJECT, OBJECT
from mygym.types import FloatArray

if TYPE_CHECKING:
    from mygym.vision.detector import Detection, Detector

KEY = "image_params.detector"

UPRIGHT = (0.0, 0.0, 0.0, 1.0)
"""Quaternion of an object whose orientation is not known."""

GOAL_TERMS = {OBJECT, END_EFFECTOR, END_EFFECTOR_FROM_OBJECT}
"""Terms of goals that follow from the end effector and positions of objects."""


@dataclass(frozen=True)
class DetectedObjects:
    """Last position of each object that the detector has seen in an episode."""

    episode: int = -1
    """Number of the episode."""
    positions: dict[str, FloatArray] = field(default_factory=dict)
    """Object → `(3,)` m, world frame."""

    def with_detections(self, episode: int, detections: Sequence[Detection]) -> DetectedObjects:
        """Return the positions after a new step; an object that no camera sees keeps its position.

        Args:
            episode: Number of the episode of the step.
            detections: Bodies in the frames of all cameras. Their estimates count by the number of pixels.
        """
        positions = dict(self.positions) if episode == self.episode else {}
        for name in {name for detection in detections for name in detection.positions}:
            seen = [detection for detection in detections if name in detection.positions]
            weights = [detection.pixels[name] for detection in seen]
            positions[name] = np.average([detection.positions[name] for detection in seen], axis=0, weights=weights)
        return DetectedObjects(episode, positions)

    def in_place_of(self, context: EpisodeContext, names: Sequence[str]) -> EpisodeContext:
        """Return a context with these positions; an object that was not seen yet is at the origin.

        Nothing else of the objects is known: they are upright and at rest, and no contact presses them down.
        """
        origin = np.zeros(3)
        positions = np.stack([self.positions.get(name, origin) for name in names])[None]
        state, at_rest = context.state, np.zeros_like(positions)
        state = replace(
            state,
            object_position=positions,
            object_orientation=np.zeros_like(state.object_orientation) + UPRIGHT,
            object_velocity=at_rest,
            object_angular_velocity=at_rest,
            object_depth=np.zeros_like(state.object_depth),
        )
        return replace(context, state=state)


def open_detector(images: ImageParams, world: World) -> Detector:
    """Load the detector of `image_params`, which imports torch.

    Raises:
        ConfigError: The file contains no detector, or the world lacks a camera, or has objects that it does not know.
    """
    from mygym.vision.detector import load_detector

    path = str(images.detector)
    detector = load_detector(path, KEY)
    names = [spec.name for spec in world.objects]
    if missing := [camera for camera in detector.cameras if camera not in world.cameras]:
        why = f"needs the camera {missing[0]}, which workspace and robot lack"
        raise ConfigError(bad_value(KEY, path, f"a detector for cameras of: {', '.join(sorted(world.cameras))}", why))
    if unknown := [name for name in names if name not in detector.objects]:
        why = f"knows {', '.join(detector.objects)}, and not {unknown[0]}"
        raise ConfigError(bad_value(KEY, path, f"a detector of {', '.join(dict.fromkeys(names))}", why))
    if len(set(names)) < len(names) or not names:
        why = "cannot distinguish objects of the same name" if names else "finds objects, and the task has none"
        raise ConfigError(bad_value(KEY, path, "null, or a task with objects of different names", why))
    return detector


def check_detectable(
    components: Mapping[str, Component], images: ImageParams, detector: Detector, space: goals.GoalSpace
) -> None:
    """Refuse observations that need more of the objects than their positions.

    Raises:
        ConfigError: A component, or a goal, needs the simulator; a marker shows the goal in images; or images have
            another shape or camera than the detector's.
    """
    same_shape = images.width * detector.height == images.height * detector.width
    for name, component in components.items():
        if component.uses_camera and images.goal == "image":
            why = "would show the marker of the goal, which the detector does not know"
            raise ConfigError(bad_value("observations", name, "image_params: {goal: vector}", why))
        is_detected = component.uses_camera and not component.encoded
        if is_detected and camera_of(name) not in detector.cameras:
            names = [f"{name.partition(':')[0]}:{camera}" for camera in detector.cameras]
            raise ConfigError(bad_value("observations", name, names, "sees through a camera unknown to the detector"))
        if is_detected and not same_shape:
            size = f"{images.width} x {images.height}"
            allowed = f"the shape of the detector's images, {detector.width} x {detector.height}"
            raise ConfigError(bad_value("image_params", size, allowed))
        if not component.detectable:
            why = f"cannot be computed from the positions that {KEY} gives"
            raise ConfigError(bad_value("observations", name, "observations without it", why))
    for section in space.sections:
        if section.term not in GOAL_TERMS:
            name = section.predicate.name if section.term is None else section.term.name
            why = f"cannot give {name}, a part of the task's goal vectors"
            raise ConfigError(bad_value(KEY, str(images.detector), "null, or another task", why))
