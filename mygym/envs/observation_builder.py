"""Observations of an environment: goal dictionaries, flat vectors or images, built from named components."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from mygym.config.schema import ImageParams
from mygym.engines.world import World
from mygym.envs.camera_views import (
    CameraViews,
    as_detected,
    check_cameras,
    check_detectable,
    check_encodable,
    last_seen,
)
from mygym.envs.env_spec import EnvSpec
from mygym.envs.episodes import Episodes
from mygym.envs.randomization import DomainRandomizer
from mygym.errors import ConfigError, DivergedError, RunError, bad_value
from mygym.registry import of_user, registry
from mygym.registry.signatures import wrong_result
from mygym.tasks import goals
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.observations import (
    CRITIC,
    CRITIC_KEY,
    ROBOTS,
    SLOTS,
    Component,
    Image,
    camera_of,
    default_components,
    find_component,
    no_room,
    shared_components,
    shared_goal_space,
)
from mygym.tasks.state import constant, namespace
from mygym.tasks.task import Task
from mygym.types import Array, FloatArray

IMAGES = ImageParams()
"""Default size and content of images."""


@dataclass(frozen=True)
class ObservationSpec:
    """Contents and layout of observations."""

    components: tuple[str, ...]
    """Names of the components, in order."""
    spaces: str
    """`own` or `shared`."""
    goal_env: bool
    """Whether observations are goal dictionaries; otherwise flat vectors."""
    images: ImageParams = IMAGES
    """Size and content of images."""
    critic: tuple[str, ...] = ()
    """Names of the components that only a critic observes, in order."""


def make_observation_spec(spec: EnvSpec, task: Task, world: World) -> ObservationSpec:
    """Return the contents and layout of the observations of a task."""
    images, critic = spec.image_params, tuple(spec.critic_observations or ())
    components = spec.observations or _default_components(task, world, spec.spaces == "shared", images)
    return ObservationSpec(tuple(components), spec.spaces, spec.goal_env, images, critic)


def _default_components(task: Task, world: World, shared: bool, images: ImageParams) -> tuple[str, ...]:
    """Return the names of the components that the task needs or, with shared spaces, that any task needs."""
    controller, arms = world.controller, len(world.robot.arms)
    cartesian, remembers = controller.commands == "cartesian", controller.remembers_command
    if not shared:
        names = default_components(task, cartesian=cartesian, remembers_command=remembers, arms=arms)
        return tuple(name for name in names if images.detector is None or find_component(name).detectable)
    gripper = world.robot.gripper is not None
    return shared_components(cartesian=cartesian, remembers_command=remembers, arms=arms, gripper=gripper)


def rooms_of(
    components: Mapping[str, Component], widths: Mapping[str, int], context: EpisodeContext, key: str
) -> list[int]:
    """Return the number of values of each component in shared spaces, for its number in this task, `widths`.

    Raises:
        ConfigError: A component needs more room than shared spaces have; the message names the config key `key`.
    """
    rooms = []
    for name, component in components.items():
        if component.of in ROBOTS:
            rooms.append(widths[name])
            continue
        if component.uses_camera:
            raise ConfigError(bad_value(key, name, "images; or spaces: own", "is not available in shared spaces"))
        if component.of not in SLOTS:
            why = f"has as many numbers as the task has {component.of}, and spaces are shared"
            raise ConfigError(bad_value(key, name, "stage_name in its place; or spaces: own", why))
        if not component.size:
            why = f"has no size, the count of numbers of each of its {component.of}, and spaces are shared"
            raise ConfigError(bad_value(key, name, "a component registered with size=…; or spaces: own", why))
        rooms.append(SLOTS[component.of] * component.size)
        if widths[name] > rooms[-1]:
            raise ConfigError(no_room(component.of, widths[name] // component.size, context.task.name))
    return rooms


def check_frames(components: Mapping[str, Component], images: ImageParams) -> None:
    """Check that images have fewer channels than rows and columns: SB3 would take their rows for channels.

    Raises:
        ConfigError: The number of frames is too large for the size of the images.
    """
    smallest = min(images.width, images.height)
    for name, component in components.items():
        if images.frames > 1 and component.channels * images.frames >= smallest:
            allowed = f"fewer than {-(-smallest // component.channels)} for {name}, or larger images"
            raise ConfigError(bad_value("image_params.frames", images.frames, allowed))


def check_present(widths: Mapping[str, int], context: EpisodeContext, key: str) -> None:
    """Check that each component of `widths` has values in this task.

    Raises:
        ConfigError: A component describes things that the task does not have.
    """
    for name, width in widths.items():
        if width == 0:
            allowed = [other for other in registry("observation").names() if _is_present(other, context)]
            why = f"describes {find_component(name).of}, and {context.task.name} has none"
            raise ConfigError(bad_value(key, name, allowed, why))


def _is_present(name: str, context: EpisodeContext) -> bool:
    component = find_component(name)
    return component.uses_camera or bool(component.function(context).shape[1] > 0)


Float32Array = NDArray[np.float32]
Observation = dict[str, NDArray[Any]] | Float32Array


@dataclass(frozen=True)
class Memory:
    """Memory of earlier steps of an episode."""

    images: Mapping[str, tuple[Image, ...]] = field(default_factory=dict)
    """Component → its last images, the newest last."""
    time: float = -1.0
    """s since the reset: when the newest images were taken."""
    positions: Mapping[str, FloatArray] = field(default_factory=dict)
    """Object → `(3,)` m, world frame, where the detector saw it last."""


class ObservationBuilder:
    """Builds observations of one task.

    Args:
        spec: Contents and layout; with shared spaces each component has the room that it needs in any task, see
            `mygym.tasks.observations`.
        context: Any context of the environment: widths follow from it.
        views: Views of the environment's cameras.
        key: Config key of the components, for messages.

    Raises:
        ConfigError: The task cannot have a component, shared spaces have no room for it, or a camera is unknown.
        RegistryError: Unknown component.
    """

    def __init__(
        self, spec: ObservationSpec, context: EpisodeContext, views: CameraViews, key: str = "observations"
    ) -> None:
        self.spec, self._views = spec, views
        shared = spec.spaces == "shared"
        self.goal_space = shared_goal_space(context.task) if shared else goals.goal_space(context.task)
        """Composition of the goal vectors."""
        by_name = {name: find_component(name) for name in spec.components}
        with_camera = [name for name, component in by_name.items() if component.uses_camera]
        check_cameras(with_camera, views.cameras, "has a camera that workspace and robot lack")
        self.has_goals = not (with_camera and spec.images.goal == "image")
        """Whether observations have goal vectors; else a marker shows the goal in images."""
        self._images = {name: component for name, component in by_name.items() if component.channels}
        check_frames(self._images, spec.images)
        if spec.images.detector is not None:
            check_detectable(by_name, spec.images, views.detector(spec.images), self.goal_space)
        if any(component.encoded for component in by_name.values()):
            check_encodable(by_name, spec.images, views.encoder(spec.images))
        self._critic = self._critic_builder(context)
        self.memory = Memory()
        """Memory of the current episode, for the next observation."""
        components = {name: component for name, component in by_name.items() if name not in self._images}
        self._functions = tuple(self._function(name, component) for name, component in components.items())
        self.widths = {name: self._width(name, component, context) for name, component in components.items()}
        """Number of values of each component that is no image; in shared spaces it may have more room."""
        widths = list(self.widths.values())
        rooms = rooms_of(components, self.widths, context, key) if shared else widths
        if not shared:
            check_present(self.widths, context, key)
        ends = np.cumsum(rooms, dtype=int).tolist()
        starts = [end - room for end, room in zip(ends, rooms, strict=True)]
        self.slices = {name: slice(start, end) for name, start, end in zip(components, starts, ends, strict=True)}
        """Slice of the observation vector that holds each component."""
        self._bound = np.repeat([component.bound for component in components.values()], rooms).astype(np.float32)
        self._lower, self._bounds = -self._bound, tuple(self._bound.tolist())
        self._positions: NDArray[np.intp] | None = None
        if rooms != widths:
            positions = [start + np.arange(width) for start, width in zip(starts, widths, strict=True)]
            self._positions = np.concatenate(positions)
        self.space = self._space()
        """Space of the observations."""

    @property
    def measured(self) -> FloatArray:
        """`(d,)`: 1 for values that `observation_noise` disturbs, else 0; before they are padded for shared spaces."""
        widths = self.widths
        return np.repeat([float(find_component(name).measured) for name in widths], list(widths.values()))

    def _critic_builder(self, context: EpisodeContext) -> ObservationBuilder | None:
        """Return the builder of the critic's vector, which has the goals if nothing else of the observation has them.

        Raises:
            ConfigError: A component uses a camera.
        """
        if not self.spec.critic:
            return None
        for name in self.spec.critic:
            if find_component(name, CRITIC_KEY).uses_camera:
                why = "uses a camera, and the critic observes the exact state"
                raise ConfigError(bad_value(CRITIC_KEY, name, "components without a camera", why))
        spec = ObservationSpec(self.spec.critic, self.spec.spaces, self.has_goals, ImageParams(goal="vector"))
        return ObservationBuilder(spec, context, self._views, CRITIC_KEY)

    def _function(self, name: str, component: Component) -> Callable[[EpisodeContext], Array]:
        """Return the function `(N, d)` of a context for a component that is no image."""
        if not component.uses_camera:
            return component.function
        camera, view = camera_of(name), self._views.encoded if component.encoded else self._views.view
        return lambda context: component.function(view(camera, self.spec.images))[None]

    def _width(self, name: str, component: Component, context: EpisodeContext) -> int:
        """Return the number of values of a component that is no image."""
        if component.encoded:
            return self._views.encoder(self.spec.images).network.latents
        if component.uses_camera:
            return component.size * len(self._views.targets(self.spec.images))
        values: Any = component.function(context)
        if len(getattr(values, "shape", ())) != 2:
            raise wrong_result(
                f"observation {name}", component.function, values, "shape (N, d), d numbers for each of N"
            )
        return int(values.shape[1])

    def _space(self) -> gymnasium.Space[Any]:
        goal = np.full(self.goal_space.size, goals.BOUND, dtype=np.float32)
        bounds = self._arranged(self._bound, goal, goal)
        if not isinstance(bounds, dict):
            return gymnasium.spaces.Box(-bounds, bounds, dtype=np.float32)
        spaces: dict[str, gymnasium.Space[Any]] = {
            key: gymnasium.spaces.Box(-bound, bound, dtype=np.float32) for key, bound in bounds.items()
        }
        if self._critic is not None:
            spaces[CRITIC] = _vector_of(self._critic.space)
        for name, component in self._images.items():
            images = self.spec.images
            shape = (images.height, images.width, component.channels * images.frames)
            spaces[name] = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        return gymnasium.spaces.Dict(spaces)

    def build(self, context: EpisodeContext) -> Observation:
        """Return the observation of a context without noise, in new arrays."""
        seen = self.detected(context)
        vectors = self.vector(seen), self.achieved_goal(seen), self.desired_goal(context.goals)
        return self.arrange(context, *vectors)

    def detected(self, context: EpisodeContext) -> EpisodeContext:
        """Return the context with objects where the detector sees them now; without a detector, the context itself."""
        if self.spec.images.detector is None:
            return context
        positions = last_seen(self.memory.positions, self._views.detections(self.spec.images))
        self.memory = replace(self.memory, positions=positions)
        return as_detected(context, self._views.objects, positions)

    def vector(self, context: EpisodeContext, noise: Float32Array | None = None) -> Float32Array:
        """Return the components `(d,)` of the only episode in a new array; see `values`.

        Raises:
            DivergedError: A value is not finite.
        """
        vector: Float32Array = self.values(context, noise)[0]
        return vector

    def values(self, context: EpisodeContext, noise: Array | None = None) -> Array:
        """Return the components `(N, d)` of all episodes in a new float32 array of the context's library.

        Noise `(N, d)` is added to the components before they are padded for shared spaces, see `widths`.

        Raises:
            DivergedError: A value of a single episode is not finite.
        """
        components = [function(context) for function in self._functions]
        xp, count = namespace(context.state.time), context.state.time.shape[0]
        if xp is np:  # numpy converts and joins in one call
            values = np.concatenate(components or [np.zeros((count, 0))], axis=1, dtype=np.float32)
            if count == 1 and not math.isfinite(values[0].dot(values[0])):  # three times faster than `isfinite().all()`
                parts = zip(self.widths, components, strict=True)
                wrong = [name.partition(":")[0] for name, part in parts if not np.isfinite(part).all()]
                giver = of_user("observation", wrong) or "the physics"
                raise DivergedError(f"{giver} gave an observation that is not finite: {values[0].tolist()}")
        else:
            values = xp.concat(components, axis=-1)
        if noise is not None:
            values = xp.astype(values + noise, xp.float32, copy=False)
        if self._positions is not None:
            padded = xp.zeros((count, len(self._bounds)), dtype=values.dtype, device=device(values))
            padded[:, self._positions] = values
            values = padded
        if xp is np:
            np.minimum(np.maximum(values, self._lower, out=values), self._bound, out=values)
            return values
        bound = constant(self._bounds, values)
        return xp.minimum(xp.maximum(values, -bound), bound)

    def build_batch(self, context: EpisodeContext, noise: Array | None = None) -> dict[str, Array]:
        """Return the goal dictionary of all episodes, with `critic` if there is one; entries are `(N, …)` float32."""
        xp = namespace(context.state.time)
        achieved = goals.achieved_goal(self.goal_space, context.progress, context.state, context.goals)
        desired = goals.desired_goal(self.goal_space, context.goals)
        observations = {
            "observation": self.values(context, noise),
            "achieved_goal": xp.astype(achieved, xp.float32),  # a copy: the caller may change it, and it may share
            "desired_goal": xp.astype(desired, xp.float32),  # the memory of the state or the goals
        }
        return observations if self._critic is None else observations | {CRITIC: self._critic.values(context)}

    def achieved_goal(self, context: EpisodeContext) -> Float32Array:
        """Return the achieved goal `(size,)` of the only episode in a new array."""
        achieved = goals.achieved_goal(self.goal_space, context.progress, context.state, context.goals)
        values: Float32Array = achieved[0].astype(np.float32)
        return values

    def desired_goal(self, goal_points: FloatArray) -> Float32Array:
        """Return the desired goal `(size,)` of the only episode's goal points `(1, G, 3)` in a new array."""
        values: Float32Array = goals.desired_goal(self.goal_space, goal_points)[0].astype(np.float32)
        return values

    def arrange(
        self, context: EpisodeContext, observation: Float32Array, achieved: Float32Array, desired: Float32Array
    ) -> Observation:
        """Arrange the vectors of a state, its images and the critic's vector in a dictionary or as one flat vector.

        The vectors are those of `vector` `(d,)`, `achieved_goal` and `desired_goal` `(size,)`.

        Raises:
            DivergedError: A value of a goal is not finite: it would have no distance from any other.
        """
        for kind, goal in (("achieved", achieved), ("desired", desired)):
            if not math.isfinite(goal.dot(goal)):
                sections = ((each.predicate.name, goal[each.first :][: each.size]) for each in self.goal_space.sections)
                giver = of_user("predicate", (name for name, values in sections if not np.isfinite(values).all()))
                why = f"gave a goal that is not finite ({kind}): {goal.tolist()}"
                raise DivergedError(f"{giver or 'the physics'} {why}")
        arranged = self._arranged(observation, achieved, desired)
        if self._critic is not None:
            assert isinstance(arranged, dict)
            arranged[CRITIC] = _vector_of(self._critic.build(context))
        if self._images:
            assert isinstance(arranged, dict)
            images = self.spec.images
            views = {name: self._views.view(camera_of(name), images) for name in self._images}
            newest = {name: component.function(views[name]).copy() for name, component in self._images.items()}
            arranged |= self._stacked(newest) if images.frames > 1 else newest
        return arranged

    def _stacked(self, newest: Mapping[str, Image]) -> dict[str, Image]:
        """Return the last images of each component as channels; before the first image, the first repeats."""
        memory, frames, stacked = self.memory, self.spec.images.frames, {}
        end = -1 if memory.time == self._views.time else None  # the same step is observed again
        for name, image in newest.items():
            stacked[name] = (*memory.images.get(name, ())[:end], image)[-frames:]
        self.memory = replace(memory, images=stacked, time=self._views.time)
        return {
            name: np.concatenate([*[images[0]] * (frames - len(images)), *images], axis=-1)
            for name, images in stacked.items()
        }

    def _arranged(self, observation: Float32Array, achieved: Float32Array, desired: Float32Array) -> Observation:
        """Arrange three vectors without copies: in a dictionary, or as one flat vector."""
        if self.has_goals and not self.spec.goal_env:
            observation = np.concatenate([observation, achieved, desired])
        if not self.spec.goal_env and not self._images and self._critic is None:
            return observation
        arranged = {"observation": observation} if len(observation) else {}
        if self.has_goals and self.spec.goal_env:
            arranged |= {"achieved_goal": achieved, "desired_goal": desired}
        return arranged


def _vector_of(observation: Any) -> Any:
    """Return `observation` of a goal dictionary, or the flat vector; the same of their spaces."""
    return observation["observation"] if isinstance(observation, dict | gymnasium.spaces.Dict) else observation


class EpisodeObserver:
    """Observes an environment's episode; errors are those of `ObservationBuilder`."""

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
        for builder in self._builders.values():
            builder.memory = Memory()
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
        """Return the builder of another specification; errors are those of `ObservationBuilder`."""
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
    """State of an episode, which can be restored until the next reset."""

    def __init__(
        self, episodes: Episodes, randomizer: DomainRandomizer, memory: Memory, actions: Sequence[NDArray[Any]]
    ) -> None:
        self.memory = memory
        self._episodes, self._randomizer, self._actions = episodes, randomizer, list(actions)
        world = episodes.worlds
        assert isinstance(world, World), "a single world"
        self._restore_world = world.save()
        self._values = copy.deepcopy({name: getattr(episodes, name) for name in EPISODE_STATE})
        self._randomness = copy.deepcopy(randomizer.state())

    def restore(self, episodes: Episodes) -> list[NDArray[Any]]:
        """Restore the state of an environment's episode; return the actions since the reset.

        Raises:
            RunError: The snapshot is that of another environment, or the environment was reset or closed since.
        """
        if episodes is not self._episodes:
            raise RunError("snapshot: it belongs to another environment")
        self._restore_world()
        for name, value in copy.deepcopy(self._values).items():
            setattr(episodes, name, value)
        self._randomizer.set_state(copy.deepcopy(self._randomness))
        return list(self._actions)
