"""Gymnasium environment: a robot, a workspace, a controller and a task in one simulated world."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mygym.config.schema import DEFAULT_ENGINE
from mygym.engines.arrays import Rows
from mygym.engines.world import World
from mygym.envs.arguments import check_open, check_options, checked_command
from mygym.envs.camera_views import CameraViews, EnvWindow
from mygym.envs.discrete_actions import discrete_actions
from mygym.envs.env_spec import EnvSpec
from mygym.envs.episode_seeds import EpisodeSeeds, make_generator
from mygym.envs.episodes import Episodes
from mygym.envs.observation_builder import (
    EpisodeObserver,
    Observation,
    ObservationBuilder,
    ObservationSpec,
    Snapshot,
    make_observation_spec,
)
from mygym.envs.randomization import DomainRandomizer
from mygym.envs.starts import DrawnStarts
from mygym.envs.task_world import TaskWorld, apply_task_params, make_task_world
from mygym.errors import ConfigError, bad_value
from mygym.tasks import goals
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.lookup import find_task
from mygym.tasks.observations import MAIN_CAMERA
from mygym.tasks.rewards import find_reward
from mygym.tasks.state import CONTROL_HZ, Progress
from mygym.tasks.task import WORLD_INDEPENDENT_PARAMS
from mygym.types import FloatArray

if TYPE_CHECKING:
    from mygym.engines.rendering.viewer import Viewer
    from mygym.tasks.observations import Frame


ONLY = Rows.all(1, World.arrays)
"""The only environment of a batch of one."""


class RobotEnv(gymnasium.Env[Observation, Any]):
    """A robot arm on a task.

    Action:
        `Box(-1, 1)`; the controller (`control`) gives its meaning. If the task grasps, the last component is the
        gripper. With `spaces="shared"` the gripper and the tool's yaw are always present. With `actions` a
        `MultiDiscrete` or `Discrete` space selects values of the same components.
    Observation:
        A goal dictionary of float32: `observation` (components by name, `mygym list observation`), `achieved_goal` and
        `desired_goal`; with `goal_env=False` all three in a flat vector. With `spaces="shared"` shapes and meanings
        are the same for every task of a robot and controller: `mygym.tasks.observations`. Camera components give a
        dictionary with an entry per image (uint8) and no goal vectors, see `image_params`.
    Rewards:
        `sparse` 0 at the goal and −1 elsewhere; `dense` minus the distance in metres; `shaped` the progress of all
        stages, −1 to 0; `timed` the same with a cost of time; `staged` sparse plus the discounted difference of the
        stages' potential; others by `register_reward`. A subclass may override `compute_reward`, which then gives the
        goal reward of `step` and of hindsight. `compute_reward` of a wrapper changes hindsight only, unless the wrapper
        changes `step`, too.
    Starting state:
        The robot at home, objects and goal drawn from the workspace's areas, never solved. `reset(seed=s)` gives the
        same episode to the bit after any history; the episodes after it follow from `s` and their number.
    Episode end:
        Terminated when success has held for `hold` steps; truncated after `horizon` steps. When an object leaves the
        workspace: terminated if the reward includes the cost of a failure (`shaped`, `timed`), otherwise truncated
        (termination would end the −1 per step, and reward throwing the object away).

    Copies:
        `copy.deepcopy(env)` and pickles are independent environments at the same step of the same episode, also in
        another process; they repeat the actions since the reset.

    Args:
        task: A named task, letters such as `AGMDW`, plain words such as `put the apple on the plate`, a list of stage
            names, or a list of sub-tasks.
        robot: A registered robot; the task's robot by default, usually `panda`.
        workspace: A registered workspace; the task's workspace by default.
        control: A controller, or its alias; or a mapping with its `name`, `action_repeat` (control steps for which an
            action is repeated), `max_force` (N m), `max_velocity` (rad/s), and the parameters of the controller.
        reward: A registered reward: `mygym list reward`.
        actions: `discrete` (number of values of each component; None: continuous) and `combined` (a single number for
            all components), see `DiscreteActions`.
        goal_env: False for flat observations.
        observations: Names of the components; by default those that the task needs.
        critic_observations: Names of components without a camera for the critic of an asymmetric actor-critic
            algorithm. They are exact, in a vector `critic` of the observation, which then is a dictionary.
        image_params: `width`, `height` (pixels), `depth_range` (m), `frames` (last images, as channels) and `goal` of
            images: `image` (a marker in images shows the goal) or `vector` (goal vectors, no marker). `detector`: a
            file of `mygym detector train`, whose positions of objects replace the simulator's in observations.
            `encoder`: a file of `mygym encoder train`, for the component `latent`.
        spaces: `own`, sized for this task, or `shared`, sized for any task.
        task_params: `tolerance` (m; rad for a part that turns), `hold` (steps), `horizon` (steps), `stages_done` (by
            the scripted expert before an episode begins; a fraction counts by the stage's potential), `object` (name),
            `objects` (role → name, or names to draw from in each episode), `distractors` (names, or mappings with
            `object`, `count`, `axis`, `speed` in m/s and `range` in m; several names and a lowest and highest count are
            drawn from), `rotation` (rad) and `areas` (name → `low` and `high` corners in metres, or a single corner);
            and, for training, `training_horizon` (steps), `starts` (`at_object`, `in_hand` and `along_expert` → share
            of episodes) and `goals_on_surface` (share of goals); override the task's values.
        randomize: Randomizer → `[low, high]`, a number or true, see `mygym list randomizer`; all are off by default.
        robot_params: `home` (rad): joint positions of all arms at the start of an episode.
        gamma: Discount of the rewards `staged`, `shaped` and `timed`.
        render_mode: `rgb_array` or `human`.
        render_width: Pixels.
        render_height: Pixels.
        camera: A camera of the workspace or the robot.
        engine: A registered engine with single worlds: `mygym list engine`.

    Raises:
        ConfigError: A value is invalid, the robot lacks something that the task needs, or an area is out of reach or
            without room.
        RegistryError: Unknown name.
    """

    _spec: Any = None

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": int(CONTROL_HZ)}  # noqa: RUF012  (as Gymnasium)

    def __init__(
        self,
        task: str | list[Any] = "reach",
        robot: str | None = None,
        workspace: str | None = None,
        control: str | Mapping[str, Any] = "ee_delta",
        reward: str = "sparse",
        *,
        actions: Mapping[str, Any] | None = None,
        goal_env: bool = True,
        observations: Sequence[str] | None = None,
        critic_observations: Sequence[str] | None = None,
        image_params: Mapping[str, Any] | None = None,
        spaces: str = "own",
        task_params: Mapping[str, Any] | None = None,
        randomize: Mapping[str, Any] | None = None,
        robot_params: Mapping[str, Any] | None = None,
        gamma: float = 0.99,
        render_mode: str | None = None,
        render_width: int = 480,
        render_height: int = 360,
        camera: str = "main",
        engine: str = DEFAULT_ENGINE,
    ) -> None:
        self._start(EnvSpec.of({name: value for name, value in locals().items() if name != "self"}))

    @classmethod
    def of(cls, spec: EnvSpec) -> RobotEnv:
        """Return the environment of a description.

        Args:
            spec: The description; `RobotEnv(**spec.arguments())` is the same, and validates it again.
        """
        env = cls.__new__(cls)
        env._start(spec)
        return env

    def _start(self, spec: EnvSpec) -> None:
        """Build world, task and spaces, and begin an episode; the only constructor."""
        self.env_spec, self.render_mode, self.gamma = spec, spec.render_mode, spec.gamma
        self._randomizer = DomainRandomizer(spec.randomize)
        self._named_task = find_task(spec.task)
        task_world = make_task_world(spec, self._named_task, self._randomizer.ranges.get("object_size", (1.0, 1.0))[1])
        self.world = task_world.world
        self.control = self.world.control.config.model_dump()
        """Name of the controller, or a mapping with its parameters."""
        rate = CONTROL_HZ / self.world.control.config.action_repeat
        self.metadata = {**self.metadata, "render_fps": int(rate) if rate.is_integer() else rate}
        self.robot, self.workspace = self.world.robot, self.world.workspace
        try:
            if spec.camera not in self.world.cameras:
                raise ConfigError(bad_value("camera", spec.camera, sorted(self.world.cameras)))
            self._prepare(task_world)
            self._begin_episode(np.random.default_rng(0))
            if not self._overrides_reward:  # the constructor of a subclass has not ended
                self._step_reward({})  # a result of a wrong shape is refused before a run begins
            self._randomizer.set_observation(self.builder.measured)
        except BaseException:
            self.world.close()
            raise

    def _prepare(self, task_world: TaskWorld) -> None:
        """Set task, reward, episode and observations; shared by the constructor and `in_same_world`."""
        description = self.env_spec
        self.task, self.areas = task_world.task, task_world.areas
        self.reward_kind, self._reward = description.reward, find_reward(description.reward)
        self._overrides_reward = type(self).compute_reward is not RobotEnv.compute_reward
        self._starts = DrawnStarts(task_world, self._randomizer)
        disturbances = self._randomizer if self._randomizer.is_on else None
        self._episodes = Episodes(self.task, self.world, self._starts, self.workspace.bounds, disturbances)
        self._actions: list[NDArray[Any]] = []
        """Actions since the reset, as the environment received them."""
        self._seeds = EpisodeSeeds()
        spec, views = make_observation_spec(description, self.task, self.world), CameraViews(self.world, self._episodes)
        self._observer = EpisodeObserver(spec, self._episodes, self._randomizer, views)
        self.goal_env = spec.goal_env and self.builder.has_goals
        """Whether observations have goal vectors, in a dictionary."""
        self.observation_space = self.builder.space
        self.discrete = discrete_actions(description.actions, self.world.control_names)
        """The discrete actions; None for continuous actions."""
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Box(-1.0, 1.0, (self.world.action_size,), np.float32)
        if self.discrete is not None:
            self.action_space = self.discrete.space
        self.binary_actions = 0 if self.discrete else self.world.arm_controllers.binary_actions
        """Number of the last components of an action that stand for 1 if they are positive, else for −1."""
        self._window = EnvWindow(self.world, self._episodes, self.render_mode == "human")

    def in_same_world(self, spec: EnvSpec) -> RobotEnv:
        """Return a new environment that shares the world of this environment, which saves 30 MB.

        Only one of the two environments can be in an episode at a time; `reset` of the new environment ends the
        current episode.

        Args:
            spec: The new environment; its reward and the `WORLD_INDEPENDENT_PARAMS` of its task may differ.

        Raises:
            ConfigError: A value is invalid.
        """
        other = object.__new__(type(self))
        vars(other).update(vars(self))  # `copy.copy` would build another world
        other.env_spec = spec
        changed, *_ = apply_task_params(self._named_task, spec.task_params)
        task = replace(self.task, **{name: getattr(changed, name) for name in WORLD_INDEPENDENT_PARAMS})
        other._prepare(TaskWorld(task, self.world, self.areas))
        return other

    @property
    def spec(self) -> Any:
        """Gymnasium's description, whose `max_episode_steps` is the horizon; None for environments without an id."""
        return self._spec

    @spec.setter
    def spec(self, spec: Any) -> None:
        self._spec = None if spec is None else replace(spec, max_episode_steps=self.task.horizon)

    def set_horizon(self, steps: int) -> None:
        """Truncate episodes after `steps` control steps.

        Args:
            steps: Control steps of 40 ms, from the next episode on; `max_episode_steps` of `gymnasium.make`.

        Raises:
            ConfigError: Not more than the steps for which success must hold.
        """
        hold = self.task.hold
        if steps <= hold:
            why = f"is too short: success must hold for {hold} control steps"
            raise ConfigError(bad_value("max_episode_steps", steps, f"more than {hold}", why))
        self.task = self._episodes.task = replace(self.task, horizon=steps)
        self.spec = self.spec

    # Gymnasium's methods ------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start the first episode of `seed`, or the next episode of the previous seed.

        Raises:
            ConfigError: Invalid seed.
            ClosedEnvironmentError: The environment is closed.
        """
        check_open(self, self.world.closed, "reset")
        check_options(options)
        self._np_random = make_generator(self._seeds.begin(seed))
        self._np_random_seed = self._seeds.seed
        self._begin_episode(self._np_random)
        # An episode with few steps may need more for the stages that are done at its start.
        if self._starts.play(self._episodes, max(self._named_task.horizon, self.task.horizon)):
            self._episodes.memory = self._reward.begin(self._episodes.context)
        self._window.begin_episode()
        return self._observer.observe(), self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Advance by one control step (40 ms), or by the `action_repeat` of the controller.

        Raises:
            DivergedError: The action, or the state after it, is not finite.
            ValueError: The action has the wrong shape, or a discrete action is not in the space.
            ClosedEnvironmentError: The environment is closed.
        """
        check_open(self, self.world.closed, "step")
        if self.discrete is None:
            command = checked_command(action, self.action_space.shape)
            self._actions.append(command)
        else:
            command = self.discrete.command(action)
            self._actions.append(np.array(action))
        self._episodes.advance(command[None])
        observation, info = self._observer.observe(), self._info()
        reward = self._step_reward(info)
        self._window.step(reward)
        achieved, desired = self._observer.achieved, self._observer.desired
        terminated = self.compute_terminated(achieved, desired, info)
        truncated = self.compute_truncated(achieved, desired, info)
        return observation, reward, bool(terminated), bool(truncated), info

    def _info(self) -> dict[str, Any]:
        """Return the `info` of a step."""
        episodes = self._episodes
        return {
            "is_success": bool(episodes.succeeded()[0]),
            "stage": int(episodes.progress.stage[0]),
            "stages_done": int(episodes.stages_done[0]),
            "failed": bool(episodes.failed[0]),
            "touched": bool(episodes.touched[0]),
            "saturation": float(round(episodes.saturated[0] / max(len(self._actions), 1), 4)),
            "elapsed_steps": int(episodes.elapsed[0]),
        }

    def _step_reward(self, info: dict[str, Any]) -> float:
        """Return the reward of the step that led to the current state."""
        episodes, observer = self._episodes, self._observer
        reward: Any = None
        if self._overrides_reward:
            reward = self.compute_reward(observer.achieved, observer.desired, info)
        elif self._reward.uses_goal_reward:
            reward = self._goal_reward(observer.achieved, observer.desired, info)
        if not self._reward.depends_on_goals_only:
            sparse = None if reward is None else np.array([reward])
            rewards, episodes.memory = self._reward.step_reward(
                episodes.context, episodes.memory, sparse=sparse, gamma=self.gamma, failed=episodes.failed
            )
            reward = rewards[0]
        return float(reward)

    def render(self) -> NDArray[np.uint8] | None:
        """Return the camera's image `(height, width, 3)`; in `human` mode update the window and return None."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs render_mode='rgb_array' or 'human' at construction")
            return None
        check_open(self, self.world.closed, "render")
        if self.render_mode == "human":
            self._window.update()
            return None
        return self.picture()

    def close(self) -> None:
        """Close the world; may be called repeatedly."""
        self._observer.views.close()
        self._window.close()
        self.world.close()

    # The goal environment's methods -------------------------------------------------------------------------------

    @property
    def compute_reward(self) -> Any:
        """Function `(achieved_goal, desired_goal, info)` → reward.

        Flat environments do not have it: this is how SB3 recognises goal environments.
        """
        if not self.goal_env:
            raise AttributeError("the observations have no goals")
        return self._goal_reward

    def _goal_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the reward of goal vectors `(…, size)`, exact for hindsight.

        For rewards of the context (`shaped`, `staged`) return the sparse reward.
        """
        return self._reward.goal_reward(self.builder.goal_space, achieved_goal, desired_goal)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return whether the episode ends: success or failure in a step's `info`, or else whether the goal is reached.

        A failure terminates the episode only if the reward includes its cost, otherwise it truncates it.

        Args:
            achieved_goal: Goal vector `(G,)`, or `(n, G)`.
            desired_goal: Goal vector of the same shape.
            info: Info of a step; empty for goal vectors without a step.
        """
        if isinstance(info, Mapping) and "is_success" in info:
            return info["is_success"] or (self._reward.includes_failure and info["failed"])
        return goals.goal_reached(self.builder.goal_space, achieved_goal, desired_goal)

    def compute_truncated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return whether a step's `info` shows a failure or the horizon; False for goal vectors without `info`.

        Args:
            achieved_goal: Goal vector `(G,)`, or `(n, G)`.
            desired_goal: Goal vector of the same shape.
            info: Info of a step; empty for goal vectors without a step.
        """
        if isinstance(info, Mapping) and "elapsed_steps" in info:
            failed = info["failed"] and not self._reward.includes_failure
            return failed or info["elapsed_steps"] >= self.task.limit
        return np.zeros(np.shape(achieved_goal)[:-1], dtype=bool)

    # Read access for experts, teachers and recordings ---------------------------------------------------------------

    @property
    def components(self) -> dict[str, slice]:
        """Slice of `observation` that holds each component that is no image."""
        return dict(self.builder.slices)

    @property
    def builder(self) -> ObservationBuilder:
        """Builder of the observations."""
        return self._observer.builder

    @property
    def observation_spec(self) -> ObservationSpec:
        """Contents and layout of the observations."""
        return self.builder.spec

    @property
    def context(self) -> EpisodeContext:
        """Input of observation components and rewards; the arrays are those of the environment."""
        return self._episodes.context

    @property
    def progress(self) -> Progress:
        """Task progress of the episode."""
        return self._episodes.progress

    @property
    def goals(self) -> FloatArray:
        """`(1, G, 3)` m, world frame: a copy of the task's goal points, see `StageBinding.goal_slot`."""
        goals: FloatArray = self._episodes.goals.copy()
        return goals

    @property
    def visible_goal(self) -> FloatArray | None:
        """Goal `(3,)` m of the active sub-task, where images show a marker; None if the goal is not a point."""
        goal = self._episodes.visible_goal()
        return None if goal is None else goal.copy()

    @property
    def episode_seed(self) -> tuple[int, int]:
        """Seed of the environment, and number of the episode since the seed was set; they decide the episode."""
        return self._seeds.seed, self._seeds.number

    @property
    def elapsed_steps(self) -> int:
        """Control steps since the reset."""
        return int(self._episodes.elapsed[0])

    def goal_distance(self) -> float:
        """Return the distance between achieved and desired goal, m."""
        return float(goals.goal_distance(self.builder.goal_space, self._observer.achieved, self._observer.desired))

    def goal_reward(self, kind: str) -> float:
        """Return a registered reward of the current goal vectors, see `Reward.goal_reward`.

        Args:
            kind: Name of the reward.
        """
        return float(
            find_reward(kind).goal_reward(self.builder.goal_space, self._observer.achieved, self._observer.desired)
        )

    def expert_action(self) -> NDArray[Any]:
        """Return the action of the active stage's scripted expert, or the nearest discrete action."""
        return self.nearest_action(self._episodes.expert_action()[0])

    def nearest_action(self, command: NDArray[Any]) -> NDArray[Any]:
        """Return the action that selects a command `(A,)`, or the nearest command; continuous actions are commands.

        Args:
            command: `(A,)` in [-1, 1].
        """
        return command if self.discrete is None else self.discrete.nearest(command)

    def observe_as(self, spec: ObservationSpec) -> Observation:
        """Return an observation of the current state by another specification, without noise.

        For a teacher with other observations; the environment does not change.

        Args:
            spec: Components and form of the observation.

        Raises:
            ConfigError: The task cannot have one of the components.
        """
        return self._observer.builder_of(spec).build(self._episodes.context)

    def observation_space_as(self, spec: ObservationSpec) -> gymnasium.Space[Any]:
        """Return the space of `observe_as`, which raises the same errors.

        Args:
            spec: Components and form of the observation.
        """
        return self._observer.builder_of(spec).space

    def picture(self, shadow: bool = False, samples: int = 1) -> NDArray[np.uint8]:
        """Return the camera's image `(height, width, 3)` in any `render_mode`, see `Camera.render`.

        Args:
            shadow: Whether objects cast shadows.
            samples: Rays along each edge of a pixel, which smooth the edges of objects.
        """
        check_open(self, self.world.closed, "picture")
        spec, goal = self.env_spec, self._episodes.visible_goal()
        camera = self._observer.views.camera
        return camera.render(spec.render_width, spec.render_height, spec.camera, goal, shadow, samples)

    def capture(self, camera: str = "main", width: int = 64, height: int = 64, *, marker: bool = False) -> Frame:
        """Return colours, depth and segmentation of a camera's view.

        Args:
            camera: A camera of the workspace or the robot.
            width: Pixels.
            height: Pixels.
            marker: Whether a marker shows the goal, if it is a point.

        Raises:
            ConfigError: Unknown camera, or a size that is not positive.
        """
        check_open(self, self.world.closed, "capture")
        return self._observer.views.camera.capture(width, height, camera, self.visible_goal if marker else None)

    def depth_range(self, camera: str = MAIN_CAMERA) -> tuple[float, float]:
        """Return the distances, m, with the values 0 and 255 of the observation component `depth`.

        Args:
            camera: Name of a camera of the workspace or the robot.
        """
        return self._observer.views.depth_range(camera, self.builder.spec.images)

    def watch(self) -> None:
        """Show all further steps in a window that does not slow them down, in any `render_mode`."""
        self._window.watch()

    @property
    def window(self) -> Viewer | None:
        """The window; None before the first reset."""
        return self._window.viewer

    def move_goal(self, position: FloatArray) -> None:
        """Move the goal of the active sub-task to `(3,)` m in the world frame, if it is a point.

        The episode is then not the episode of its seed any more; `state_dict` does not contain the change.

        Args:
            position: The goal, `(3,)` m.
        """
        goal = self._episodes.visible_goal()
        if goal is not None:
            goal[:] = position
            self._observer.update_goal()

    # State ----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return seed, number of the episode, actions since its reset, and the observation."""
        return {
            **self._seeds.state_dict(),
            "actions": np.array(self._actions).reshape(-1, *(self.action_space.shape or ())),
            "observation": self._observer.observe(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Observation:
        """Restore a `state_dict` by an exact reset and replay, and return the observation.

        Args:
            state: A `state_dict` of an environment with equal arguments.

        Returns:
            The observation of the restored state.
        """
        self._seeds.load_state_dict(state)
        if self._seeds.number < 0:  # saved before the first reset
            return self._observer.observe()
        self._seeds.number -= 1  # `reset` begins the next
        observation, _ = self.reset()
        for action in state["actions"]:
            observation, *_ = self.step(action)
        return observation

    def snapshot(self) -> Snapshot:
        """Return a quick snapshot for planners, which `restore` accepts until the next `reset`.

        It is not exact: the same actions then give nearly the same states. `state_dict` and `copy.deepcopy` are exact,
        and play the episode again.
        """
        check_open(self, self.world.closed, "snapshot")
        return Snapshot(self._episodes, self._randomizer, self.builder.memory, self._actions)

    def restore(self, snapshot: Snapshot) -> Observation:
        """Restore a snapshot of this episode, any number of times, and return the observation.

        Args:
            snapshot: A snapshot of this environment.

        Returns:
            The observation of the restored state.

        Raises:
            RunError: The snapshot is that of another environment, or of an earlier episode.
        """
        check_open(self, self.world.closed, "restore")
        self._actions = snapshot.restore(self._episodes)
        return self._observer.restore(snapshot.memory)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by construction with the same arguments, and replay of the episode."""
        space = copy.deepcopy(self.action_space)  # with its generator, which `copy.copy` would share
        state = {"spec": self.spec, "action_space": space, "episode": self.state_dict(), "horizon": self.task.horizon}
        return partial(type(self), **self.env_spec.arguments()), (), state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.spec, self.action_space = state["spec"], state["action_space"]
        self.set_horizon(state["horizon"])
        try:
            self.load_state_dict(state["episode"])
        except BaseException:
            self.close()
            raise

    # ---------------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        if "task" not in vars(self):  # under construction
            return super().__repr__()
        return f"<{type(self).__name__} {self.task.name}, {self.robot.name}, {self.control}>"

    def _begin_episode(self, rng: np.random.Generator) -> None:
        self._starts.rng = rng
        self._actions = []
        self._episodes.begin(ONLY)
        self._episodes.memory = self._reward.begin(self._episodes.context)
        self._observer.begin_episode()
