"""Conversion of the config files of the original myGym toolkit (`task_type`, `robot_action`, `task_objects` …)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.config.loading import load_file
from mygym.config.schema import RunConfig
from mygym.errors import ConfigError, bad_value, did_you_mean, nearest
from mygym.registry import registry


@dataclass(frozen=True)
class Conversion:
    """Config that replaces a file of another system."""

    config: dict[str, Any]
    """Keys of `RunConfig`."""
    notes: list[str]
    """A line for each key of the file without a meaning here, and for each value that is only approximated."""


REPLACED_BY: Mapping[str, str] = {
    "task_type": "task",
    "task_objects": "task_params.object and task_params.areas",
    "robot_action": "control",
    "robot_init": "robot_params.home",
    **{key: f"control.{key}" for key in ("max_velocity", "max_force", "action_repeat")},
    "dimension_velocity": "control.step",
    "object_sampling_area": "task_params.areas",
    **dict.fromkeys(("used_objects", "distractors", "distractor_moveable"), "task_params.distractors"),
    **dict.fromkeys(("distractor_constant_speed", "distractor_movement_dimensions"), "task_params.distractors"),
    "distractor_movement_endpoints": "task_params.distractors",
    "color_dict": "task_params.colors",
    **dict.fromkeys(("observation", "observed_links_num"), "observations"),
    "natural_language": "task, in plain words",
    **dict.fromkeys(("predicates", "num_subgoals"), "task, a list of stages"),
    "distance_type": "task_params.tolerance, a Euclidean distance",
    "reward_type": "reward for sparse or dense, observations for what the agent sees",
    "vae_path": "image_params.encoder, with observations [latent]",
    **dict.fromkeys(("yolact_path", "yolact_config"), "image_params.detector"),
    "train_framework": "framework",
    "num_networks": "algo multippo, which has a network for each stage",
    "network_switcher": "algo multippo, which follows the active stage",
    "max_episode_steps": "task_params.horizon",
    "algo_steps": "algo_params.n_steps",
    **dict.fromkeys(("pretrained_model", "model_path"), "pretrained"),
    **dict.fromkeys(("multiprocessing", "vectorized_envs"), "n_envs"),
    "eval_freq": "eval.every",
    "eval_episodes": "eval.episodes",
    "record": "video.episodes",
    "env_name": "task, robot and workspace, which describe the environment mygym/Gym-v0",
    "render": "video.episodes for videos, or the flag --gui for a window",
    "camera": "video.camera",
    **dict.fromkeys(("gui", "visualize"), "the flag --gui"),
    "visgym": "workspace",
    **dict.fromkeys(("coefficient_kd", "coefficient_kw", "coefficient_ka"), "reward"),
}
"""Key of the toolkit → the key, or words, that replace it here."""

SHARED = frozenset({"robot", "workspace", "engine", "seed", "algo", "steps", "logdir", "reward"})
"""Keys of the toolkit that keep their names."""

DISTINCT = frozenset({"env_name", "robot_action", "task_objects", "used_objects", "train_framework"}) | frozenset(
    {"max_episode_steps", "algo_steps", "eval_freq", "num_networks", "distance_type"}
)
"""Keys of which three make a file one of the toolkit, without a `task_type`."""

ROBOTS: Mapping[str, str] = {
    **dict.fromkeys(("g1", "g16DOF", "g1_rotslide"), "g1"),
    "g1_full": "g1_dual",
    **dict.fromkeys(("jaco", "jaco_fixed", "jaco_gripper"), "jaco"),
    **dict.fromkeys(("kuka", "kuka_push"), "kuka"),
    **dict.fromkeys(("kuka_gripper", "kuka_realrobot"), "kuka_gripper"),
    **dict.fromkeys(("panda", "panda1", "panda2", "panda_boxgripper", "panda_sgripper", "panda_gripper"), "panda"),
    **dict.fromkeys(("tiago", "tiago_single", "tiago_simple", "tiago_omni_single"), "tiago"),
    **dict.fromkeys(("tiago_dual", "tiago_dual_fix", "tiago_dual_rot", "tiago_dual_rotslide"), "tiago_dual"),
    **dict.fromkeys(("tiago_dual_rotslide2", "tiago_dual_hand", "tiago_dual_fingers"), "tiago_dual"),
    **{name: name for name in ("ur3", "ur5", "ur10")},
}
"""Robot of the toolkit → robot."""

WITH_GRIPPER: Mapping[str, str] = {name: f"{name}_gripper" for name in ("kuka", "ur3", "ur5", "ur10")}
"""Robot without fingers, which grasps by a magnet in the toolkit → the same with a gripper."""

BASES: Mapping[str, float] = {"g1": -0.3, "g1_dual": -0.3, "tiago": -0.3, "tiago_dual": -0.3}
"""m by which a robot's base is ahead of the toolkit's world origin."""

TASKS: Mapping[str, str] = {
    **{name: name for name in ("reach", "push", "pick_and_place", "poke", "press", "switch", "throw", "turn")},
    **dict.fromkeys(("pnp", "pick_n_place", "picknplace"), "pick_and_place"),
    **dict.fromkeys(("pnr", "pick_and_rotate"), "AGR"),
    **dict.fromkeys(("dropmag", "FMR"), "AGMD"),
    "btn": "press",
    "FM": "AGM",
    "F": "A",
}
"""Task of the toolkit that is no string of letters → task."""

WORKSPACES: Mapping[str, str] = {
    **dict.fromkeys(("table", "table_complex", "table_nico", "table_tiago", "table_uni"), "table"),
    **{name: name for name in ("baskets", "collabtable", "darts", "drawer", "football", "fridge")},
    **{name: name for name in ("maze", "stairs", "verticalmaze")},
    "modularmaze": "maze",
}
"""Workspace of the toolkit → workspace."""

CONTROLLERS: Mapping[str, str] = {
    "step": "ee_delta",
    "absolute": "ee_absolute",
    "joints": "joint_position",
    "joints_step": "joint_delta",
    "torque": "joint_torque",
}
"""`robot_action` of the toolkit, without `_gripper` → controller."""

ALGORITHMS: Mapping[str, str] = {
    "ppo2": "ppo",
    "acktr": "trpo",
    "multi": "multippo",
    **dict.fromkeys(("multippo2", "multiacktr"), "multippo"),
    "her": "ddpg",
}
"""Algorithm of the toolkit with another name here → algorithm."""

ON_POLICY = ("ppo", "a2c", "trpo", "multippo", "recurrent_ppo")
"""Algorithms with a length of the rollout."""

REWARDS: Mapping[str, str] = {**dict.fromkeys(("distance", "complex_distance"), "dense"), "sparse": "sparse"}
"""Reward of the toolkit → reward; the others, which know the stages of a task, are `shaped`."""

OBJECTS: Mapping[str, str] = {
    **dict.fromkeys(("tuna_can", "soup_can"), "can"),
    **dict.fromkeys(("kostka", "poke", "simple"), "cube"),
    "sphere": "ball",
    "dice": "die",
    "bar": "stick",
    "mugycb": "mug",
    "bowlycb": "bowl",
    **dict.fromkeys(("cracker_box", "crackerbox"), "cereal_box"),
    "glass": "beaker",
    **dict.fromkeys(("bus", "lorry", "tractor"), "car"),
    "prism": "triangular_prism",
}
"""Object of the toolkit with another name here → object."""

MARKS = ("target", "cube_target", "bar_target", "bus_target", "apple_target", "mugycb_target", "towertarget")
"""Objects of the toolkit that only show the goal."""

STEP = 0.04
"""s: control step of this package; a distractor of the toolkit moves by a distance for each step."""

DISTRACTOR_STEPS = (0.0055, 0.003)
"""m for each step: a distractor with changing speed, on average, and with `constant_speed`."""

NO_COUNTERPART = "has no counterpart here"

Box = tuple[list[float], list[float]]


def recognises(data: Mapping[str, Any]) -> bool:
    """Return whether the content of a config file is in the form of the toolkit."""
    if data.keys() & (RunConfig.model_fields.keys() - SHARED):
        return False
    return "task_type" in data or len(data.keys() & DISTINCT) >= 3


def convert(data: Mapping[str, Any], path: str | Path, env_id: str | None = None) -> Conversion:
    """Return the config for a file of the toolkit, which describes a single environment: `env_id` is None.

    Raises:
        ConfigError: The robot, the task or another value has no counterpart here, or has the wrong type.
    """
    if env_id is not None:
        raise ConfigError(bad_value("--env", env_id, "no --env", "cannot be chosen: the file has a single environment"))
    return _Converter(data).convert()


class _Converter:
    """Collects the config and the notes, key by key; a key that no method takes is noted at the end."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data, self.taken, self.notes = data, set[str](), list[str]()
        self.config: dict[str, Any] = {}
        self.task_params: dict[str, Any] = {}
        self.along_x = data.get("workspace") in ("table_complex", "table_nico") or "reward" not in data
        """Whether the robot looks along x, as in the newest files, which name no `reward`; in older files, along y."""

    def convert(self) -> Conversion:
        """Return the conversion of all keys."""
        task = self.convert_task()
        robot = self.convert_robot(task)
        self.convert_control()
        self.convert_objects(task, robot)
        self.convert_distractors()
        self.convert_algorithm()
        self.convert_numbers()
        if self.task_params:
            self.config["task_params"] = self.task_params
        for key in self.data:
            if key in self.taken or (self.data[key] is None and key in KEPT_NULL):
                continue
            if key in REPLACED_BY:
                self.note(key, f"is left out; here: {REPLACED_BY[key]}")
            else:
                self.note(key, f"is not a key of the toolkit{did_you_mean(key, [*REPLACED_BY, *SHARED])}; left out")
        order = {key: self.config[key] for key in RunConfig.model_fields if key in self.config}
        return Conversion(order, self.notes)

    # Access -----------------------------------------------------------------------------------------------------------

    def take(self, key: str, types: type | tuple[type, ...], allowed: str) -> Any:
        """Return the value of a key, which has one of `types`; None if it is missing, null or `"null"`."""
        value = self.data.get(key)
        if key not in self.data or value is None or value == "null":
            return None
        self.taken.add(key)
        if not isinstance(value, types) or (isinstance(value, bool) and types is int):
            raise ConfigError(bad_value(key, value, allowed))
        return value

    def note(self, key: str, text: str) -> None:
        """Add a note with the key and its value."""
        value = self.data.get(key)
        shown = f" {value!r}" if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
        self.notes.append(f"{key}{shown}: {text}")
        self.taken.add(key)

    # Task and robot ---------------------------------------------------------------------------------------------------

    def convert_task(self) -> str:
        """Set task and workspace; return the task."""
        given = self.take("task_type", str, "letters such as AGM, or a name such as reach")
        letters = {given: given} if given and set(given) <= set("AGMRTFDW") else {}
        task = counterpart("task_type", given or "reach", {**letters, **TASKS}, ["letters such as AGM", *TASKS])
        if given not in (None, task):
            self.note("task_type", f"task {task}")
        self.config["task"] = task
        if (workspace := self.take("workspace", str, "a name such as table")) is not None:
            known = counterpart("workspace", workspace, WORKSPACES)
            if known != workspace:
                self.note("workspace", f"workspace {known}")
            if known != "table":  # the table is the default of the tasks that work on it
                self.config["workspace"] = known
        return task

    def convert_robot(self, task: str) -> str:
        """Set the robot and its home; return the robot."""
        given = self.take("robot", str, "a name such as panda") or "kuka"
        here = {given: given} if given in registry("robot") else {}
        robot = counterpart("robot", given, {**here, **ROBOTS}, ROBOTS)
        if robot in WITH_GRIPPER and ("G" in task or task == "pick_and_place"):
            robot = WITH_GRIPPER[robot]
            self.note("robot", f"{robot}: objects are held by a gripper, not by a magnet")
        elif robot != given:
            self.note("robot", f"{robot} is the nearest robot")
        self.config["robot"] = robot
        if self.data.get("robot_init") == "default":
            self.taken.add("robot_init")
        elif isinstance(home := self.data.get("robot_init"), list):
            kind = "a point, from which the toolkit computes the posture" if len(home) == 3 else "a list of angles"
            self.note("robot_init", f"is {kind}; left out, the arm starts at the workspace's home; here: {ROBOT_HOME}")
        return robot

    def convert_control(self) -> None:
        """Set the controller and its limits."""
        control: dict[str, Any] = {}
        if (action := self.take("robot_action", str, "a name such as step")) is not None:
            with_gripper = {f"{name}_gripper": controller for name, controller in CONTROLLERS.items()}
            control["name"] = counterpart("robot_action", action, {**CONTROLLERS, **with_gripper})
        for key in ("max_velocity", "max_force"):
            if (value := self.take(key, (int, float), "a number above 0")) is not None:
                control[key] = float(value)
        if (repeat := self.take("action_repeat", int, "a whole number, at least 1")) not in (None, 1):
            control["action_repeat"] = repeat
            self.note("action_repeat", "steps of 40 ms, longer than those of the toolkit")
        if control:
            self.config["control"] = {"name": "ee_delta", **control}

    # Objects ----------------------------------------------------------------------------------------------------------

    def convert_objects(self, task: str, robot: str) -> None:
        """Set the object, its rotation and colour, and the areas of object and goal."""
        start, goal = self.task_objects()
        acts = task not in ("A", "reach")
        names = {part: self.object_name(values, part) for part, values in (("init", start), ("goal", goal))}
        areas: dict[str, Box] = {}
        moves = any(letter in task for letter in "MRTFDW") or task == "pick_and_place" or not task.isupper()
        if acts:
            source = start if names["init"] or moves else goal
            name = names["init"] or ("" if moves else names["goal"])
            if name:
                self.task_params["object"] = name
            if source.get("rand_rot"):
                self.task_params["rotation"] = [-round(math.pi, 4), round(math.pi, 4)]
                self.notes.append("task_objects.0.init.rand_rot: the object turns about the vertical alone")
            self.add_area(areas, "object", source, on_table=True)
            if moves:
                held = task == "pick_and_place" or (task.isupper() and "D" not in task)
                self.add_area(areas, "air" if held else "surface", goal, on_table=not held)
                if names["goal"]:
                    self.notes.append(f"task_objects: the goal {names['goal']} is a point here; task stack has objects")
        else:
            self.add_area(areas, "reach", goal or start, on_table=False)
            unused = " and ".join(dict.fromkeys(name for name in names.values() if name))
            if unused:
                self.notes.append(f"task_objects: {unused} left out: task {task} reaches a point")
        if "object_sampling_area" in self.data and not areas:
            values = {"sampling_area": self.take("object_sampling_area", list, "a list of 6 numbers")}
            self.add_area(areas, "object" if acts else "reach", values, on_table=acts)
        if areas:
            self.task_params["areas"] = self.in_our_frame(areas, robot)
        self.convert_colors(acts)

    def task_objects(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the descriptions of the object and of the goal; empty if missing."""
        given = self.take("task_objects", (list, dict), "a list of {init: {…}, goal: {…}}")
        pairs = given if isinstance(given, list) else [given or {}]
        if pairs and all(isinstance(item, str) for item in pairs):  # old files: names of the object and of the goal
            names = [{"obj_name": name} for name in pairs]
            if len(names) > 1:
                return names[0], names[1]
            return ({}, names[0]) if self.config["task"] in ("A", "reach") else (names[0], {})
        for number, pair in enumerate(pairs):
            if not isinstance(pair, Mapping) or not all(isinstance(pair.get(k, {}), Mapping) for k in ("init", "goal")):
                raise ConfigError(bad_value(f"task_objects.{number}", pair, "{init: {…}, goal: {…}}"))
        if len(pairs) > 1:
            self.notes.append(
                "task_objects: the first pair is converted; further pairs are a list of sub-tasks in task"
            )
        first = pairs[0] if pairs else {}
        for extra in first.keys() - {"init", "goal"}:
            self.notes.append(f"task_objects.0.{extra}: is left out; here: task_params.distractors")
        return first.get("init", {}), first.get("goal", {})

    def object_name(self, values: Mapping[str, Any], part: str) -> str:
        """Return the name of the nearest object; empty for no object and for marks of the goal."""
        given = values.get("obj_name")
        if part == "init" and values.get("fixed"):
            self.notes.append("task_objects.0.init.fixed 1: is left out; objects move when they are pushed")
        if given is None or given == "null" or given in MARKS:
            return ""
        if not isinstance(given, str):
            raise ConfigError(bad_value(f"task_objects.0.{part}.obj_name", given, "a name, or null"))
        name = nearest_object(given)
        if name != given:
            self.notes.append(f"task_objects.0.{part}.obj_name {given!r}: {name} is the nearest object")
        return name

    def add_area(self, areas: dict[str, Box], name: str, values: Mapping[str, Any], on_table: bool) -> None:
        """Add the sampling area of an object or a goal, in the toolkit's frame."""
        given = values.get("sampling_area")
        if given is None:
            return
        numbers = given[0] if given and isinstance(given, list) and isinstance(given[0], list) else given
        if numbers is not given and len(given) > 1:
            self.notes.append(f"sampling_area: the first of {len(given)} boxes is converted")
        if not isinstance(numbers, list) or len(numbers) != 6 or not all(isinstance(x, int | float) for x in numbers):
            allowed = "six numbers, [x_min, x_max, y_min, y_max, z_min, z_max] in m"
            raise ConfigError(bad_value("task_objects.0.sampling_area", given, allowed))
        low = [float(min(numbers[2 * axis : 2 * axis + 2])) for axis in range(3)]
        high = [float(max(numbers[2 * axis : 2 * axis + 2])) for axis in range(3)]
        if on_table:
            low[2] = high[2] = 0.0
        areas[name] = low, high

    def in_our_frame(self, areas: Mapping[str, Box], robot: str) -> dict[str, dict[str, list[float]]]:
        """Return areas at the same places as seen from the robot's base, from which the toolkit measures as well."""
        x, y, yaw = _base(robot, self.config.get("workspace", "table"))
        placed = {}
        for name, corners in areas.items():
            points = []
            for corner in corners:
                ahead, left = (corner[0], corner[1]) if self.along_x else (corner[1], -corner[0])
                ahead -= BASES.get(robot, 0.0)
                placed_x = round(x + ahead * math.cos(yaw) - left * math.sin(yaw), 4) + 0.0
                placed_y = round(y + ahead * math.sin(yaw) + left * math.cos(yaw), 4) + 0.0
                points.append((placed_x, placed_y, corner[2]))
            low, high = ([pick(axis) for axis in zip(*points, strict=True)] for pick in (min, max))
            placed[name] = {"low": low, "high": high}
        axis = "x" if self.along_x else "y"
        self.notes.append(f"sampling_area: measured from the robot's base, which looks along {axis} of the file")
        return placed

    def convert_colors(self, acts: bool) -> None:
        """Set the colour of the object."""
        colors = self.take("color_dict", dict, "{object: [color]}")
        if not colors:
            return
        names = {str((values or {}).get("obj_name")) for values in self.pairs()}
        task = self.config["task"]
        roles = registry("task").get(task).load().roles if task in registry("task") else ("cube",)  # that of letters
        left_out = []
        for name, given in colors.items():
            color = _rgba(given[0] if isinstance(given, list) and given else given)
            if acts and name in names and color and roles:
                self.task_params.setdefault("colors", {}).setdefault(roles[0], color)
            else:
                left_out.append(str(name))
        if left_out:
            self.notes.append(f"color_dict: {', '.join(left_out)} left out; here: task_params.colors, by role")

    def pairs(self) -> list[Any]:
        """Return the descriptions of all task objects."""
        given = self.data.get("task_objects")
        items = given if isinstance(given, list) else [given]
        return [item.get(part) for item in items if isinstance(item, Mapping) for part in ("init", "goal")]

    def convert_distractors(self) -> None:
        """Set the objects that lie or move in the way."""
        distractors: list[dict[str, Any]] = []
        used = self.take("used_objects", (dict, list), "{num_range: [lowest, highest], obj_list: [names]}")
        if isinstance(used, list):
            used = {"obj_list": used, "num_range": self.take("num_objects_range", list, "[lowest, highest]")}
        if used and used.get("obj_list"):
            names = list(dict.fromkeys(nearest_objects("used_objects.obj_list", used["obj_list"])))
            numbers = used.get("num_range") or [0, len(names)]
            if not isinstance(numbers, list) or [type(number) for number in numbers] != [int, int]:
                raise ConfigError(bad_value("used_objects.num_range", numbers, "[lowest, highest], whole numbers"))
            low, high = numbers
            if high > 0:
                distractors.append({"object": names, "count": high if low == high else [low, min(high, 20)]})
                self.notes.append(f"used_objects: distractors of the nearest objects, {', '.join(names)}")
        given = self.take("distractors", (dict, list), "{list: [names], …}, or null")
        moving = given if isinstance(given, dict) else {"list": given} if given else {}
        flat = {key for key in self.data if key.startswith("distractor_")}
        moving = {**{key.removeprefix("distractor_"): self.data[key] for key in flat}, **moving}
        self.taken |= flat
        listed = nearest_objects("distractors.list", moving.get("list") or [])
        distractors += [{"object": name, **self.motion(moving)} for name in listed]
        if listed:
            self.notes.append(f"distractors: the nearest objects, {', '.join(listed)}; each moves on a line")
        if distractors:
            self.task_params["distractors"] = distractors

    def motion(self, moving: Mapping[str, Any]) -> dict[str, Any]:
        """Return the motion of a distractor."""
        if not moving.get("moveable"):
            return {}
        ends = moving.get("movement_endpoints") or [-0.1, 0.1]
        if not isinstance(ends, list) or len(ends) < 2 or not all(isinstance(end, int | float) for end in ends):
            raise ConfigError(bad_value("movement_endpoints", ends, "two numbers for each dimension, in m"))
        speed = DISTRACTOR_STEPS[1 if moving.get("constant_speed") else 0] / STEP
        half = min(1.0, max(0.01, abs(float(ends[1]) - float(ends[0])) / 2))
        axis = [1.0, 0.0, 0.0] if self.along_x else [0.0, 1.0, 0.0]
        return {"axis": axis, "speed": round(speed, 4), "range": round(half, 4)}

    # Learning ---------------------------------------------------------------------------------------------------------

    def convert_algorithm(self) -> None:
        """Set algorithm, framework, reward, length of the rollout, environments and physics engine."""
        algo = given = self.take("algo", str, "a name such as ppo")
        networks = self.take("num_networks", int, "a whole number, at least 1") or 1
        if given is not None:
            algo = ALGORITHMS.get(given, given)
            if algo not in registry("algorithm"):
                raise ConfigError(bad_value("algo", given, registry("algorithm").names(), NO_COUNTERPART))
            if networks > 1 and algo == "ppo":
                algo = "multippo"
            elif networks > 1 and algo != "multippo":
                self.note("num_networks", f"is left out; {algo} has one network; here: {REPLACED_BY['num_networks']}")
            if given == "her":
                self.config["her"] = True
            if algo != given:
                self.note("algo", f"{algo}{' with hindsight replay' if given == 'her' else ''}")
            self.config["algo"] = algo
        framework = self.take("train_framework", str, "pytorch, tensorflow or ray")
        if framework is not None:
            self.config["framework"] = "pytorch"
            if framework != "pytorch":
                self.note("train_framework", "pytorch")
        if (reward := self.take("reward", str, "a name such as distance")) is not None:
            self.config["reward"] = REWARDS.get(reward, "shaped")
            self.note("reward", f"{self.config['reward']} is the nearest reward")
        envs = self.take("multiprocessing", (int, bool), "a number of environments, or null")
        envs = self.take("vectorized_envs", int, "a number of environments") or envs
        if algo in ON_POLICY:
            rollout = self.take("algo_steps", int, "a whole number, at least 1")
            if rollout is not None:
                self.config["n_envs"] = max(1, int(envs or 1))
                self.config["algo_params"] = {"n_steps": rollout, "batch_size": min(64, rollout)}
                if algo in ("a2c", "trpo"):
                    del self.config["algo_params"]["batch_size"]
        elif "algo_steps" in self.data:
            self.note("algo_steps", f"is left out; {algo or 'the algorithm'} has no rollouts of a fixed length")
        if envs and int(envs) > 1:
            self.config |= {"n_envs": int(envs), "env_processes": True}
        if (engine := self.take("engine", str, "pybullet or mujoco")) is not None:
            known = engine in registry("engine")
            self.config["engine"] = engine if known else "pybullet"
            if not known:
                self.note("engine", "pybullet")

    def convert_numbers(self) -> None:
        """Set seed, steps, horizon, evaluation, videos and the folder of the runs."""
        whole = "a whole number, at least 1"
        for key in ("seed", "steps"):
            if (value := self.take(key, int, whole)) is not None:
                self.config[key] = value
        if (horizon := self.take("max_episode_steps", int, whole)) is not None:
            self.task_params["horizon"] = horizon
        evaluation = {}
        for key, name in (("eval_freq", "every"), ("eval_episodes", "episodes")):
            if value := self.take(key, int, whole):
                evaluation[name] = value
            elif value == 0:
                self.note(key, f"is left out: a run is always evaluated; here: {REPLACED_BY[key]}")
        if evaluation:
            self.config["eval"] = evaluation
        if self.take("record", int, "0, 1 or 2") == 0:
            self.config["video"] = {"episodes": 0}
        if (logdir := self.take("logdir", str, "a folder")) is not None:
            self.config["logdir"] = logdir


KEPT_NULL = frozenset({"multiprocessing", "vectorized_envs", "pretrained_model", "distractors", "used_objects"})
"""Keys whose null is the default here as well."""

ROBOT_HOME = "robot_params.home, joint angles in rad"


def counterpart(key: str, given: str, known: Mapping[str, str], allowed: Iterable[str] = ()) -> str:
    """Return the value here for a value of the toolkit; raise `ConfigError` if there is none."""
    if given not in known:
        raise ConfigError(bad_value(key, given, allowed or known, NO_COUNTERPART))
    return known[given]


def nearest_objects(key: str, given: Any) -> list[str]:
    """Return the names of the objects here that are the nearest to a list of objects of the toolkit.

    Raises:
        ConfigError: The value of the key is no list.
    """
    if not isinstance(given, list):
        raise ConfigError(bad_value(key, given, "a list of names"))
    return [nearest_object(str(name)) for name in given]


def nearest_object(given: str) -> str:
    """Return the name of the object here that is the nearest to an object of the toolkit."""
    names = registry("object").names()
    stem = re.sub(r"_?\d+$", "", given)
    words = [given, stem, *given.split("_")]
    for word in words:
        if word in names:
            return word
        if word in OBJECTS:
            return OBJECTS[word]
    return next(iter(nearest(stem, names)), "cube")


def _base(robot: str, workspace: str) -> tuple[float, float, float]:
    """Return x, y (m) and yaw (rad) of a robot's base in a workspace."""
    values: dict[str, Any] = load_file(registry("robot").get(robot).target)
    home = (load_file(registry("workspace").get(workspace).target).get("robots") or {}).get(robot) or {}
    position: Sequence[float] = home.get("base_position") or values.get("base_position") or (0.0, 0.0, 0.0)
    turned: Sequence[float] = home.get("base_orientation") or values.get("base_orientation") or (0.0, 0.0, 0.0, 1.0)
    return position[0], position[1], 2.0 * math.atan2(turned[2], turned[3])


def _rgba(color: Any) -> list[float] | None:
    """Return red, green, blue and opacity of a named color, or of a list of numbers; None if it is neither."""
    from PIL import ImageColor

    if isinstance(color, list) and len(color) in (3, 4) and all(isinstance(x, int | float) for x in color):
        return [*map(float, color), 1.0][:4]
    try:
        red, green, blue = ImageColor.getrgb(str(color).replace(" ", "").replace("_", ""))[:3]
    except ValueError:
        return None
    return [round(part / 255, 3) for part in (red, green, blue)] + [1.0]
