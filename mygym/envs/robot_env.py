"""The Gymnasium environment: robot + workspace + controller + task in one PyBullet world."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mygym.config import Layer, resolve
from mygym.envs.composing import Composer, Composition, Observation, arranged, goal_space_of, space_of
from mygym.envs.domain_randomizer import DomainRandomizer
from mygym.envs.fitting import areas_of, check_areas, check_robot, in_workspace, load_objects
from mygym.envs.grasping import check_objects
from mygym.envs.observing import Observer
from mygym.envs.placement import draw_goals, draw_poses, moving_distractors
from mygym.errors import ConfigError, DivergedError, MygymError, bad_value
from mygym.models.controllers import Controller
from mygym.models.workspace import load_workspace
from mygym.registry import registry
from mygym.sim.inference import find_robot
from mygym.sim.rendering.camera import Camera, Viewer
from mygym.sim.world import World
from mygym.tasks import goals
from mygym.tasks.context import EpisodeContext
from mygym.tasks.episode import act, advance, is_success, potential
from mygym.tasks.lookup import find_task
from mygym.tasks.observations import default_components
from mygym.tasks.progress import Progress
from mygym.tasks.rewards import find_reward, task_potential
from mygym.tasks.shared import shared_components
from mygym.tasks.stage import CLOSED
from mygym.tasks.state import CONTROL_HZ
from mygym.tasks.task import Task
from mygym.tasks.task_params import change_task

__all__ = ["NUMBERS", "Observation", "RobotEnv"]

NUMBERS = ("tolerance", "hold", "horizon", "stages_done")
"""Of `task_params` those that the world has nothing of."""


class RobotEnv(gymnasium.Env[Observation, NDArray[np.float32]]):
    """A robot arm on a task.

    Action:
        `Box(-1, 1)`; what it means is the controller's (`control`). Where the task grasps, the last one is the gripper.
        With `spaces="shared"` the gripper and the tool's turn are always there, whatever the task needs.
    Observation:
        A goal dictionary of float32: `observation` (components by name, `mygym list observation`), `achieved_goal` and
        `desired_goal`; with `goal_env=False` the three in one flat vector. With `spaces="shared"` each is of the same
        shape, and a number of the same meaning, for every task of a robot and controller: `mygym.tasks.shared`.
    Rewards:
        `sparse` 0 at the goal and −1 elsewhere; `dense` minus the distance in metres; `staged` sparse plus the
        discounted difference of the stages' potential.
    Starting state:
        The robot at home, objects and goal drawn from the workspace's areas, never solved. `reset(seed=s)` gives the
        same episode to the bit after any history; the episodes after it follow from `s` and their number.
    Episode end:
        Terminated when success has held for `hold` steps; truncated after `horizon` steps, or when the object has left
        the workspace (terminating there would end the −1 a step, and make throwing the object away worth learning).

    Copies:
        `copy.deepcopy(env)` and pickles are environments of their own, at the same step of the same episode, in another
        process too; there the actions since its reset are repeated.

    Args:
        task: A named task, letters such as `AGMDW`, a list of stage names, or a list of sub-tasks.
        robot: A registered robot; the task's own by default, which is `panda` unless it takes another.
        workspace: A registered workspace; the task's own by default.
        control: A controller, or its alias.
        reward: A registered reward: `mygym list reward`.
        goal_env: False for flat observations.
        observations: Names of the components; those that the task needs by default.
        spaces: `own`, what this task needs, or `shared`, what any task needs.
        task_params: `tolerance` (m), `hold` (steps), `horizon` (steps), `stages_done` (by the scripted expert before an
            episode begins, a part of one by its potential), `object` (name), `objects` (role → name), `distractors`
            (names, or mappings with `object`, `axis`, `speed` in m/s and `range` in m), `rotation` (rad) and `areas`
            (name → `low` and `high` corners in metres, or one of them) in place of the task's own.
        randomize: Randomizer → `[low, high]`, a number or true, see `mygym list randomizer`; all are off by default.
        gamma: Discount of the staged reward.
        render_mode: `rgb_array` or `human`.
        render_width: Pixels.
        render_height: Pixels.
        camera: A camera of the workspace.

    Raises:
        ConfigError: A value is wrong, the robot lacks what the task needs, or an area is out of its reach or in
            something.
        RegistryError: A name is not known.
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": int(CONTROL_HZ)}  # noqa: RUF012  (Gymnasium's own)

    def __init__(
        self,
        task: str | list[Any] = "reach",
        robot: str | None = None,
        workspace: str | None = None,
        control: str = "ee_delta",
        reward: str = "sparse",
        *,
        goal_env: bool = True,
        observations: Sequence[str] | None = None,
        spaces: str = "own",
        task_params: Mapping[str, Any] | None = None,
        randomize: Mapping[str, Any] | None = None,
        gamma: float = 0.99,
        render_mode: str | None = None,
        render_width: int = 480,
        render_height: int = 360,
        camera: str = "main",
    ) -> None:
        self._arguments = copy.deepcopy({name: value for name, value in locals().items() if name != "self"})
        said: dict[str, Any] = {"spaces": spaces}
        said |= {} if observations is None else {"observations": list(observations)}
        resolve([Layer("argument", said)])
        self.task, params, areas = _task_with(task, task_params or {})
        self._randomizer = DomainRandomizer(randomize or {})
        self._reward = find_reward(reward)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigError(bad_value("render_mode", render_mode, self.metadata["render_modes"]))
        self.render_mode = render_mode
        self.reward_kind = reward
        self.goal_env = goal_env
        self.gamma = gamma
        robot = robot or self.task.robot
        self.robot = find_robot(robot)
        self.workspace = load_workspace(registry("workspace").get(workspace or self.task.workspace).load())
        if camera not in self.workspace.cameras:
            raise ConfigError(bad_value("camera", camera, sorted(self.workspace.cameras)))
        check_robot(self.task, self.robot, robot)
        objects = load_objects(self.task, params)
        largest = self._randomizer.ranges.get("object_size", (1.0, 1.0))[1]
        check_objects(self.task, objects, self.robot, largest, params)
        self.control = registry("controller").get(control, "control").name
        shared = spaces == "shared"
        self.world = World(
            self.robot,
            self.workspace,
            objects,
            self.control,
            control_hz=CONTROL_HZ,
            gripper=shared or self.task.uses_gripper,
            turning=shared or self.task.needs_turning,
            moving_distractors=moving_distractors(self.task),
        )
        self.robot, self.workspace = self.world.robot, self.world.workspace  # as they find each other
        try:
            parts = dict(zip(self.world.part_names, self.world.parts, strict=True))
            self.task = in_workspace(self.task, self.workspace, parts)
            self._areas = areas_of(self.task, self.workspace, areas)
            check_areas(self.task, self.world, self._areas, areas)
            self._settle()
            self._begin_episode(np.random.default_rng(0))
        except MygymError:
            self.world.close()
            raise
        self._randomizer.measures(self._observer.widths)
        self._camera: Camera | None = None
        self._viewer: Viewer | None = None
        self._view = (render_width, render_height, camera)

    def _settle(self) -> None:
        """Everything that is the environment's own, in a world that is there and stays as it is."""
        self._lead_in_steps = max(find_task(self._arguments["task"]).horizon, self.task.horizon)
        """The most that the expert has to do what is done when an episode begins, which may have little time itself."""
        self._seed = 0
        self._episode = -1
        self._seeded = False
        self._actions: list[NDArray[np.float64]] = []
        self._goals = np.zeros((1, self.task.goal_count, 3))
        self._progress = Progress.at_reset(self.world.state)
        self._potential = np.zeros(1)
        self._stages_done = 0
        self._failed = False
        spaces = self._arguments["spaces"]
        shared = spaces == "shared"
        observed = self._arguments["observations"] or self._default_components(shared)
        self._goal_space = goal_space_of(self.task, shared)
        self._achieved = np.zeros(self._goal_space.size, dtype=np.float32)
        self._observer = Observer(observed, self._context(), shared)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.world.action_size,), np.float32)
        self.observation_space = space_of(self._observer, self._goal_space, self.goal_env)
        self.composition = Composition(tuple(self._observer.slices), spaces, self.goal_env)
        """What its observations are made of."""
        self._composers: dict[Composition, Composer] = {}

    def in_same_world(self, task_params: Mapping[str, Any], reward: str) -> RobotEnv:
        """Another environment in this one's world, so that of the two one is played at a time: it saves 30 MB.

        Where the episode is, stays as it is; the other's begin with its first `reset`.

        Args:
            task_params: In place of this one's, from which they differ in `NUMBERS` alone.
            reward: In place of this one's.

        Raises:
            ConfigError: A value is wrong.
        """
        other = object.__new__(type(self))
        vars(other).update(vars(self))  # `copy.copy` makes a world of its own
        other._arguments = {**self._arguments, "task_params": dict(task_params), "reward": reward}
        asked, *_ = _task_with(self._arguments["task"], task_params)
        other.task = replace(self.task, **{name: getattr(asked, name) for name in NUMBERS})
        other._reward = find_reward(reward)
        other.reward_kind = reward
        other._camera = other._viewer = None
        other._settle()
        return other

    # Gymnasium's methods ------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode: the first of `seed`, or the next of the seed given before."""
        if seed is not None or not self._seeded:
            self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else int(seed)
            self._seeded = True
            self._episode = -1
        self._episode += 1
        self._np_random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, self._episode])))
        self._np_random_seed = self._seed
        self._begin_episode(self._np_random)
        self._begin_stages()
        if self.render_mode == "human":
            self.render()
        return self._observe(), self._info()

    def step(self, action: NDArray[np.float32]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Advance by one control step (40 ms).

        Raises:
            DivergedError: The action, or the state after it, is not finite.
        """
        command = np.array(action, dtype=np.float64)
        if command.shape != self.action_space.shape:
            raise ValueError(f"action has shape {command.shape}, needs {self.action_space.shape}")
        if not _is_finite(command):
            raise DivergedError(f"action {command.tolist()} is not finite")
        self._actions.append(command)
        self._advance(command)
        observation = self._observe()
        info = self._info()
        reward = self._goal_reward(self._achieved, self._desired, info)
        if not self._reward.of_goals:
            context = self._context()
            reward = self._reward.step_reward(context, reward, self._potential, self.gamma)[0]
            self._potential = task_potential(context)
        if self.render_mode == "human":
            self.render()
        terminated = self.compute_terminated(self._achieved, self._desired, info)
        truncated = self.compute_truncated(self._achieved, self._desired, info)
        return observation, float(reward), bool(terminated), bool(truncated), info

    def render(self) -> NDArray[np.uint8] | None:
        """The camera's picture `(height, width, 3)`, or None in `human` mode, which shows a window."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs render_mode='rgb_array' or 'human' at construction")
            return None
        if self.render_mode == "human":
            self._viewer = self._viewer or Viewer(self.world)
            self._viewer.update(goal=self._marked())
            return None
        return self.picture()

    def pressed_keys(self) -> frozenset[str] | None:
        """What is held down in the window of `human` mode, by character or name (`up`, `space`).

        None once it is closed, and without one.
        """
        return None if self._viewer is None else self._viewer.keys()

    def picture(self, shadow: bool = False, samples: int = 1) -> NDArray[np.uint8]:
        """`(height, width, 3)`: the camera's picture whatever `render_mode` is, see `Camera.render`."""
        self._camera = self._camera or Camera(self.world)
        width, height, name = self._view
        return self._camera.render(width, height, name, self._marked(), shadow, samples)

    def close(self) -> None:
        """Disconnect from PyBullet."""
        for watcher in (self._camera, self._viewer):
            if watcher is not None:
                watcher.close()
        self._camera = self._viewer = None
        self.world.close()

    # The goal environment's methods -------------------------------------------------------------------------------

    @property
    def compute_reward(self) -> Any:
        """`(achieved_goal, desired_goal, info)` → reward; only goal environments have it: so SB3 tells them apart."""
        if not self.goal_env:
            raise AttributeError("flat observations have no goals")
        return self._goal_reward

    def _goal_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Reward of goal vectors `(…, size)`, exact for hindsight; of the staged reward only its sparse part."""
        return self._reward.goal_reward(self._goal_space, achieved_goal, desired_goal)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Whether the episode ends here: as `info` of a step says, or, without one, where the goal is reached."""
        if isinstance(info, Mapping) and "is_success" in info:
            return info["is_success"]
        return goals.goal_reached(self._goal_space, achieved_goal, desired_goal)

    def compute_truncated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Whether time is up or the object has left: as `info` of a step says; goal vectors alone do not tell."""
        if isinstance(info, Mapping) and "elapsed_steps" in info:
            return info["failed"] or info["elapsed_steps"] >= self.task.horizon
        return np.zeros(np.shape(achieved_goal)[:-1], dtype=bool)

    @property
    def components(self) -> dict[str, slice]:
        """Where in `observation` each of its components is."""
        return dict(self._observer.slices)

    # Experts, teachers, recordings --------------------------------------------------------------------------------

    @property
    def progress(self) -> Progress:
        """How far the episode is."""
        return self._progress

    @property
    def goals(self) -> NDArray[np.float64]:
        """`(1, G, 3)` m, world frame: the goal points of the task, see `BoundStage.goal_slot`. A copy."""
        return self._goals.copy()

    @property
    def elapsed_steps(self) -> int:
        """Control steps since the reset."""
        return len(self._actions)

    def goal_distance(self) -> float:
        """Metres between what is achieved and what is desired now."""
        return float(goals.goal_distance(self._goal_space, self._achieved, self._desired))

    def goal_reward(self, kind: str) -> float:
        """What the part of a reward that goals alone decide pays for being where the episode is."""
        return float(find_reward(kind).goal_reward(self._goal_space, self._achieved, self._desired))

    def expert_action(self) -> NDArray[np.float32]:
        """`(A,)`: what the scripted expert of the active stage does now."""
        motion = act(self.task, self._progress, self.world.state, self._goals)
        # Where only shared spaces let the fingers move, they are held shut, as they are in the task's own.
        action = self.world.action_towards(
            motion.target[0],
            _first(motion.gripper) if self.task.uses_gripper else CLOSED,
            0.0 if motion.turn_by is None else _first(motion.turn_by),
            None if motion.second_target is None else motion.second_target[0],
            _first(motion.second_gripper),
        )
        return action.astype(np.float32)

    def composed(self, composition: Composition) -> Observation:
        """What is seen now in another composition, without noise: for a teacher that sees more. Changes nothing.

        Raises:
            ConfigError: The task cannot have one of its components.
        """
        return self._composer(composition)(self._context())

    def composed_space(self, composition: Composition) -> gymnasium.Space[Any]:
        """Where `composed` lies; raises what it raises."""
        return self._composer(composition).space

    def state_dict(self) -> dict[str, Any]:
        """Where the environment is: seed, number of the episode, actions since its reset, and what is seen there."""
        return {
            "seed": self._seed,
            "seeded": self._seeded,
            "episode": self._episode,
            "actions": np.array(self._actions).reshape(-1, self.world.action_size),
            "observation": self._observe(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Observation:
        """Go to where `state_dict` was taken, by an exact reset and replay; returns the observation there."""
        self._seed, self._seeded, self._episode = int(state["seed"]), bool(state["seeded"]), int(state["episode"])
        if self._episode < 0:  # taken before the first reset
            return self._observe()
        self._episode -= 1
        observation, _ = self.reset()
        for action in state["actions"]:
            observation, *_ = self.step(action)
        return observation

    def __reduce__(self) -> tuple[Any, ...]:
        """Of copies and pickles: made again with the same arguments, in a client of its own, and brought to here."""
        space = copy.deepcopy(self.action_space)  # which has a generator: `copy.copy` would share it
        state = {"spec": self.spec, "action_space": space, "episode": self.state_dict()}
        return _made_with, (type(self), self._arguments), state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.spec, self.action_space = state["spec"], state["action_space"]
        self.load_state_dict(state["episode"])

    # ---------------------------------------------------------------------------------------------------------------

    def _begin_episode(self, rng: np.random.Generator) -> None:
        if self._randomizer.is_on:
            self._randomizer.begin(rng, self.world)
        self.world.reset(draw_poses(rng, self.task, self.world.objects, self._areas))
        if self._randomizer.is_on:
            self._randomizer.start(self.world)
        state = self.world.state
        self._goals[0] = draw_goals(rng, self.task, self.world, self._areas)
        self._desired = goals.desired_goal(self._goal_space, self._goals)[0].astype(np.float32)
        self._progress = Progress.at_reset(state)
        self._potential = potential(self.task, self._progress, state, self._goals)
        self._stages_done = 0
        self._failed = False
        self._actions = []

    def _begin_stages(self) -> None:
        """Let the expert do what is done when an episode begins."""
        missing = self.task.stages_done - len(self.task.bound_stages)
        for _ in range(self._lead_in_steps):
            if self._progress.stage[0] >= math.floor(self.task.stages_done) and self._potential[0] >= missing:
                break
            self._advance(self.expert_action().astype(np.float64))
            self._potential = potential(self.task, self._progress, self.world.state, self._goals)

    def _advance(self, command: NDArray[np.float64]) -> None:
        self.world.step(self._randomizer.act(command) if self._randomizer.is_on else command)
        state = self.world.state
        self._progress = advance(self.task, self._progress, state, self._goals)
        self._stages_done = max(self._stages_done, int(self._progress.stage[0]))
        self._failed = any(map(self._has_left, state.object_position[0, : len(self.task.roles)].tolist()))
        if self._randomizer.is_on:
            self._randomizer.look()

    def _observe(self) -> Observation:
        """Fresh arrays, which the caller may keep or change."""
        observation = self._observer(self._context(), self._randomizer.noise)
        values = goals.achieved_goal(self._goal_space, self._progress, self.world.state, self._goals)
        self._achieved = values[0].astype(np.float32)
        return arranged(observation, self._achieved.copy(), self._desired.copy(), self.goal_env)

    def _context(self) -> EpisodeContext:
        return EpisodeContext(self.task, self._progress, self.world.state, self._goals)

    def _composer(self, composition: Composition) -> Composer:
        if composition not in self._composers:
            self._composers[composition] = Composer(composition, self._context())
        return self._composers[composition]

    def _default_components(self, shared: bool) -> tuple[str, ...]:
        """Names of those that are observed unless others are asked for."""
        controller: type[Controller] = registry("controller").get(self.control).load()
        arms, gripper = len(self.robot.arms), self.robot.gripper is not None
        cartesian, remembers = controller.commands == "cartesian", controller.remembers_command
        if shared:
            return shared_components(cartesian=cartesian, remembers_command=remembers, arms=arms, gripper=gripper)
        return default_components(self.task, cartesian=cartesian, remembers_command=remembers, arms=arms)

    def _info(self) -> dict[str, Any]:
        return {
            "is_success": bool(is_success(self.task, self._progress)[0]),
            "stage": int(self._progress.stage[0]),
            "stages_done": self._stages_done,
            "failed": self._failed,
            "elapsed_steps": len(self._actions),
        }

    def _has_left(self, position: list[float]) -> bool:
        low, high = self.workspace.bounds.low, self.workspace.bounds.high
        return not all(a <= x <= b for a, x, b in zip(low, position, high, strict=True))

    def _marked(self) -> NDArray[np.float64] | None:
        """`(3,)` m: the goal that is drawn, that of the sub-task under way; None where it is no point."""
        step = self.task.bound_stages[min(int(self._progress.stage[0]), len(self.task.bound_stages) - 1)]
        return None if step.part is not None else self._goals[0, step.goal_slot]


def _task_with(said: Any, task_params: Mapping[str, Any]) -> tuple[Task, dict[str, Any], dict[str, Any]]:
    """A task with the user's numbers; these; and the user's own areas.

    Raises:
        ConfigError: One of them is wrong.
    """
    config = resolve([Layer("argument", {"task_params": dict(task_params)})]).config
    params = config.task_params.model_dump(exclude_none=True)
    areas = params.pop("areas")
    return change_task(find_task(said), params), params, areas


def _made_with(kind: type[RobotEnv], arguments: Mapping[str, Any]) -> RobotEnv:
    """An environment, from a pickle."""
    return kind(**arguments)


def _is_finite(vector: NDArray[Any]) -> bool:
    """Whether every number is finite: their squares' sum is, at a third of the price of `isfinite().all()`."""
    return math.isfinite(vector.dot(vector))


def _first(value: Any) -> float:
    """Of a batch of one, or of a number for all."""
    return float(value) if isinstance(value, int | float) else float(value[0])
