"""`mygym list`, `describe` and `schema`: components of every kind, and the JSON schema of configs."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from mygym.cli.command import JSON, argument, command, flag_value, registry_kind
from mygym.cli.output import print_json, print_table
from mygym.config import schedules
from mygym.config.hyperparameters import controller_rows, hyperparameter_rows, strategy_rows, training_rows
from mygym.errors import AssetError, ConfigError, MygymError, RegistryError, bad_value
from mygym.registry import REGISTRIES, Algorithm, Entry, parameters_of, registry
from mygym.registry.signatures import first_line, source_location
from mygym.robotics.assets import read_mapping
from mygym.training.files import to_yaml

COLUMNS = (
    "name",
    "letter",
    "frameworks",
    "requires",
    "gives",
    "category",
    "size",
    "mass",
    "friction",
    "grasp_width",
    "default",
    "allowed",
    "unit",
    "help",
)
"""Columns of the tables; empty columns are omitted."""


@command(
    "mygym list",
    argument("kind", nargs="?", metavar="KIND", help=f"{', '.join(REGISTRIES)}; algo is short for algorithm"),
    JSON,
    examples="""
mygym list
mygym list algo
mygym list robot --json
mygym list object             with category, size, mass, friction and width in a gripper that opens 8 cm
""",
)
def list_components(options: argparse.Namespace) -> None:
    """List the components that configs and flags can name."""
    kinds = [registry_kind(options.kind)] if options.kind else list(REGISTRIES)
    details = DETAILS.get(kinds[0]) if len(kinds) == 1 else None  # reading them takes time
    rows_of = {
        kind: [
            *(_row(entry) | (details(entry) if details else {}) for entry in registry(kind)),
            *(_row(entry) for entry in registry(kind).broken()),
        ]
        for kind in kinds
    }
    if options.json:
        print_json([row for rows in rows_of.values() for row in rows])
        return
    for kind, rows in rows_of.items():
        columns = [key for key in COLUMNS if key == "help" or any(row.get(key) for row in rows)]
        print_table([{key: _text(key, row.get(key)) for key in columns} for row in rows], title=kind)


def _row(entry: Entry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "frameworks": list(entry.frameworks),
        "requires": list(entry.listed_requirements),
        "help": entry.help,
        "origin": entry.origin,
    }


def _object_details(entry: Entry) -> dict[str, Any]:
    """Return category, size in m, mass in kg, …; the help of an invalid file is its error."""
    from mygym.robotics.objects import load_object

    try:
        spec = load_object(entry.load())
    except AssetError as error:
        return {"category": "", "size": [], "mass": None, "friction": None, "grasp_width": None, "help": str(error)}
    return {
        "category": spec.category,
        "size": [round(edge, 4) for edge in spec.size],
        "mass": round(spec.mass, 5),
        "friction": spec.friction,
        "grasp_width": round(spec.grasp_width, 4) if spec.graspable else None,
    }


def _stage_details(entry: Entry) -> dict[str, Any]:
    """Return the letter and the predicates of a stage; its help is the phrase."""
    stage = entry.load()
    predicates = {"requires": list(stage.requires), "gives": list(stage.gives)}
    return {"letter": stage.letter, **predicates, "help": stage.words()}


def _randomizer_details(entry: Entry) -> dict[str, Any]:
    randomizer = entry.load()
    return {"default": list(randomizer.default), "allowed": list(randomizer.allowed), "unit": randomizer.unit}


DETAILS: Mapping[str, Callable[[Entry], dict[str, Any]]] = {
    "object": _object_details,
    "stage": _stage_details,
    "randomizer": _randomizer_details,
}
"""Kind → further columns of a component, when only this kind is listed."""


def _text(key: str, value: Any) -> str:
    """Return the text of a table cell."""
    if value is None or value == []:
        return ""
    if key == "size":
        return " x ".join(f"{100 * edge:.1f}" for edge in value) + " cm"
    if key in ("default", "allowed"):
        return " to ".join(f"{end:g}" for end in value)
    if key == "mass":
        return f"{1000 * value:.3g} g" if value < 1 else f"{value:.3g} kg"
    if key == "grasp_width":
        return f"{100 * value:.1f} cm"
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else ", ".join(value)


ROBOT_KEYS = ("urdf", "base_position", "base_orientation", "joints", "end_effector", "gripper", "motor", "area_scale")
"""Keys of a robot's YAML file."""


def describe_task(name: str) -> dict[str, Any]:
    """Return the description of a task: a name, letters, or a list as YAML; refuse any other text."""
    from mygym.tasks.goals import goal_space
    from mygym.tasks.lookup import find_task

    task = find_task(flag_value("task", name))
    workspace = read_mapping(Path(registry("workspace").get(task.workspace).load()))
    areas = [area for number in range(len(task.subtasks)) for area in task.goal_areas(number)]
    areas_of = {robot: (pose or {}).get("areas", {}) for robot, pose in (workspace.get("robots") or {}).items()}
    goals = {
        area: workspace["areas"].get(area)
        or {robot: robot_areas[area] for robot, robot_areas in areas_of.items() if area in robot_areas}
        or f"missing in workspace {task.workspace}: set task_params.areas.{area}"
        for area in areas
    }
    return {
        "task": task.name,
        "help": task.help,
        "in words": task.describe(),
        "stages": list(task.stage_names),
        "tolerance": _tolerance(task),
        "hold": f"{task.hold} steps",
        "horizon": f"{task.horizon} steps",
        "workspace": task.workspace,
        "objects": {role: task.asset(role) for role in task.roles} or "none",
        "needs a gripper": task.needs_gripper,
        "goals from": goals,
        "goal vector": list(goal_space(task).names),
        "a run takes": _taken({"task": flag_value("task", name)}),
    }


def _tolerance(task: Any) -> str:
    """Return the tolerance of a task; of its sub-tasks, where they differ. A part of another workspace has any unit."""
    from mygym.robotics.workspace import find_workspace

    parts = find_workspace(task.workspace).parts
    units = {"": "m"} | {name: "m" if part.slides else "rad" for name, part in parts.items()}
    tolerances = [
        f"{subtask.tolerance or task.tolerance} {units.get(subtask.part, 'm or rad')}" for subtask in task.subtasks
    ]
    return ", ".join(dict.fromkeys(tolerances))


def _taken(config: Mapping[str, Any]) -> Any:
    """Return algorithm and reward of the run of a config, and the other keys that a layer above the schema sets.

    Parameters are left out. A task without a run that can start has the reason instead.
    """
    from mygym.planning.resolve import resolve_config

    try:
        rows = resolve_config(overrides=config).rows()
    except MygymError as error:
        return str(error)
    return {
        key: {"value": value, "origin": origin}
        for key, value, origin in rows
        if "_params." not in key and (key in ("algo", "reward") or origin not in ("default", "flag"))
    }


def describe_component(entry: Entry) -> dict[str, Any]:
    """Return the description of a component other than a task."""
    target = entry.load()
    header: dict[str, Any] = {entry.kind: entry.name, "help": entry.help, "origin": entry.origin}
    if entry.kind in DESCRIBERS:
        return {**header, **DESCRIBERS[entry.kind](entry, target)}
    if entry.requires:
        header["requires"] = list(entry.requires)
    if isinstance(target, Mapping):
        return {**header, "frameworks": {framework: _network_component(entry, framework) for framework in target}}
    if is_dataclass(target) and not isinstance(target, type):
        return {**header, **{key: value for key, value in asdict(target).items() if not callable(value)}}
    return {**header, "documentation": inspect.getdoc(target) or ""}


def _algorithm(algorithm: Algorithm) -> dict[str, Any]:
    try:
        cls = algorithm.combo()[0]
    except RegistryError as error:  # its package is not installed
        return {"missing": str(error)}
    training = {row.pop("name"): row for row in training_rows(algorithm)}
    return {
        "class": f"{cls.__module__}.{cls.__qualname__}",
        "source": source_location(cls),
        "requires": list(algorithm.needs),
        "hindsight": algorithm.goal_relabelling,
        "example": {"algo": algorithm.name, "framework": algorithm.framework, **algorithm.run_defaults},
        "algo_params": {row.pop("name"): row for row in hyperparameter_rows(algorithm)},
        "may be scheduled": list(schedules.may_be_scheduled(cls)),
        **({"training_params": training} if training else {}),
        **({"search space": dict(algorithm.search_space)} if algorithm.search_space else {}),
    }


def _strategy(entry: Entry, target: Any) -> dict[str, Any]:
    text = (inspect.getdoc(target) or "").partition("\nArgs:")[0].strip()
    rows = strategy_rows(entry.name)
    return {"documentation": text, "strategy_params": {row.pop("name"): row for row in rows}}


def _stage(entry: Entry, stage: Any) -> dict[str, Any]:
    """Return the properties of a stage that determine its position in a composition, and explain its predicates."""
    registered = registry("predicate")
    predicates = {
        key: {name: registered.get(name).help if name in registered else "unknown" for name in getattr(stage, key)}
        for key in ("requires", "gives", "ends")
    }
    completion = (first_line(stage.complete) or "see its code") if stage.complete else "nothing else"
    acts_on = "the end effector alone"
    if stage.needs_object:
        acts_on = "a part of the workspace" if stage.needs_part else "an object, or a part of the workspace"
    needs = {"a gripper": stage.needs_gripper, "a turn of the tool": stage.needs_tool_yaw, "two arms": stage.arms > 1}
    return {
        **({"letter": stage.letter} if stage.letter else {}),
        **{key: meanings for key, meanings in predicates.items() if meanings},
        "also complete only if": completion,
        "acts on": acts_on,
        "needs": [name for name, needed in needs.items() if needed] or "nothing else",
        "moves the fingers": bool(stage.uses_gripper or stage.needs_gripper),
    }


def _predicate(entry: Entry, predicate: Any) -> dict[str, Any]:
    term = "a flag" if predicate.goal is None else getattr(predicate.goal, "name", "depends on the stage")
    return {
        "event": predicate.event,
        "must last": predicate.lasts,
        "excludes": list(predicate.excludes) or "nothing",
        "holds at reset": predicate.initial,
        "term in goal vectors": term,
    }


def _reward(entry: Entry, reward: Any) -> dict[str, Any]:
    return {
        "documentation": inspect.getdoc(reward.function) or "",
        "function of": "goal vectors" if reward.depends_on_goals_only else "the episode context",
        "takes": sorted(reward.takes) or "nothing else",
        "hindsight": reward.depends_on_goals_only,
    }


def _controller(entry: Entry, controller: Any) -> dict[str, Any]:
    return {
        "documentation": (inspect.getdoc(controller) or "").partition("\nArgs:")[0].strip(),
        "commands": controller.commands,
        "motor command": controller.mode,
        "remembers its command": controller.remembers_command,
        "control": {row.pop("name"): row for row in controller_rows(entry.name)},
    }


def _observation(entry: Entry, component: Any) -> dict[str, Any]:
    from mygym.tasks.observations import SYMBOLS

    symbols = {symbol: meaning for symbol, meaning in SYMBOLS.items() if symbol in component.shape}
    return {
        "shape": component.shape,
        **({"where": symbols} if symbols else {}),
        **({"unit": component.unit} if component.unit else {}),
        **({"frame": component.frame} if component.frame else {}),
        "bound": f"{'0 to' if component.channels else 'within ±'} {component.bound:g}",
        "describes": component.of,
        "depends on the goal": component.depends_on_goal,
    }


def _robot(entry: Entry, path: Path) -> dict[str, Any]:
    """Return the content of a robot's YAML file; of a robot that is inferred also the findings of the inference."""
    from mygym.robotics.robot import inferred_robot

    robot = inferred_robot(str(path))
    if robot is None:
        return dict(read_mapping(path))
    values = asdict(robot.spec)
    inferred = [asdict(finding) for finding in robot.findings]
    return {key: values[key] for key in ROBOT_KEYS if values[key] is not None} | {"inferred": inferred}


def _object(entry: Entry, path: Path) -> dict[str, Any]:
    """Return the content of an object's file and the measured properties of the object."""
    from mygym.robotics.objects import density, load_object

    spec = load_object(path)
    content = dict(read_mapping(path)) if path.suffix.lower() != ".urdf" else {"urdf": str(path)}
    measured = {
        "category": spec.category,
        "size": f"{' x '.join(f'{100 * edge:.2f}' for edge in spec.size)} cm",
        "mass": f"{spec.mass:.5g} kg",
        "density": f"{density(spec):.4g} kg/m³ of its material",
        "centre of mass": f"{100 * spec.half_height:.2f} cm above the surface it lies on",
        "moments of inertia": [float(f"{moment:.4g}") for moment in spec.body.moments],
        "pieces that collide": len(spec.body.pieces),
        "fits a gripper of 8 cm": f"with {100 * spec.grasp_width:.1f} cm" if spec.graspable else "no",
    }
    return {**content, "measured": measured}


def _network_component(entry: Entry, framework: str) -> dict[str, Any]:
    """Return source and parameters of a network component, such as a policy or an activation."""
    try:
        component = entry.load_for(framework)
    except RegistryError as error:  # its package is not installed
        return {"missing": str(error)}
    return {
        "source": source_location(component),
        "parameters": {name: parameter.help for name, parameter in parameters_of(entry, framework).items()},
    }


DESCRIBERS: Mapping[str, Callable[[Entry, Any], dict[str, Any]]] = {
    "algorithm": lambda entry, target: {"frameworks": {name: _algorithm(each) for name, each in target.items()}},
    "schedule": lambda entry, target: {"parameters": schedules.describe(target)},
    "strategy": _strategy,
    "stage": _stage,
    "predicate": _predicate,
    "reward": _reward,
    "observation": _observation,
    "controller": _controller,
    "workspace": lambda entry, path: dict(read_mapping(path)),
    "robot": _robot,
    "object": _object,
}
"""Kind → function of the entry and its target that returns the content; other kinds need none."""


@command(
    "mygym describe",
    argument("kind", metavar="KIND", help=f"{', '.join(REGISTRIES)}; algo is short for algorithm"),
    argument(
        "name", metavar="NAME", help="a name of `mygym list KIND`, a URDF or YAML file, or a task as letters or a list"
    ),
    JSON,
    argument("--yaml", action="store_true", help="print the complete config of an algorithm"),
    argument("--framework", metavar="F", help="framework of that config: pytorch or jax (default: its first)"),
    examples="""
mygym describe task push
mygym describe task "[approach, poke]"
mygym describe algo sac
mygym describe algo sac --yaml > sac.yaml     a config with every value, ready to run
mygym describe robot panda --json
mygym describe robot path/to/arm.urdf         properties inferred from a URDF
""",
)
def describe(options: argparse.Namespace) -> None:
    """Describe a component: parameters, sizes, units, requirements."""
    kind = registry_kind(options.kind)
    if options.yaml:
        if kind != "algorithm":
            raise ConfigError(bad_value("--yaml", kind, ["algorithm"], "has no run config"))
        print(complete_config(options.name, options.framework), end="")
        return
    content = describe_task(options.name) if kind == "task" else describe_component(registry(kind).get(options.name))
    text = json.dumps(content, indent=2, default=str)
    print(f"{text}\n" if options.json else to_yaml(json.loads(text)), end="")


def complete_config(name: str, framework: str | None) -> str:
    """Return the YAML config of an algorithm with every value and `strict: true`."""
    from mygym.planning.resolve import resolve_config
    from mygym.training.model_factory import explained

    resolved = resolve_config(overrides={"algo": name, **({"framework": framework} if framework else {})})
    values = {**explained(resolved).values(), "strict": True}
    line = f"mygym describe algo {name}{f' --framework {framework}' if framework else ''} --yaml"
    help = registry("algorithm").get(name).help
    return f"# {help}\n# every value written out, as printed by: {line}\n{to_yaml(values)}"


@command(
    "mygym schema",
    examples="mygym schema > mygym.schema.json",
    notes="""
An editor with YAML support then completes and validates every config that starts with the line
  # yaml-language-server: $schema=mygym.schema.json
The schema includes your components: print it again after you add a component.
""",
)
def schema(options: argparse.Namespace) -> None:
    """Print the JSON schema of configs, for editors."""
    from mygym.config.json_schema import json_schema

    print_json(json_schema())
