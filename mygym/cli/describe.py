"""`mygym describe`: everything about one component."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from mygym.cli.arguments import Parser, add_import_flag, import_modules, parse_task
from mygym.cli.list import kind_of
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import REGISTRIES, Algorithm, Entry, parameters_of, registry
from mygym.registry.signatures import first_line, place
from mygym.runs.directory import to_yaml

EXAMPLES = """\
examples:
  mygym describe task push
  mygym describe task "[approach, poke]"
  mygym describe algo sac
  mygym describe algo sac --yaml > sac.yaml     a config with every value written out, which runs as it is
  mygym describe robot panda --json
  mygym describe robot path/to/arm.urdf         what is inferred from a URDF
"""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = Parser(
        "mygym describe",
        description="Everything about one component.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", metavar="KIND", help=f"one of {', '.join(REGISTRIES)}, or algo")
    parser.add_argument(
        "name", metavar="NAME", help="a name of `mygym list KIND`, or a file; of a task also letters or a list"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--yaml", action="store_true", help="of an algorithm: print its complete config")
    parser.add_argument("--framework", default="pytorch", metavar="F", help="with --yaml: pytorch or jax")
    add_import_flag(parser)
    options = parser.parse_args(arguments)
    import_modules(options)
    kind = kind_of(options.kind)
    if options.yaml:
        if kind != "algorithm":
            raise ConfigError(bad_value("--yaml", kind, ["algorithm"], "has no config of its own"))
        print(complete_config(options.name, options.framework), end="")
        return
    content = _task(options.name) if kind == "task" else _component(registry(kind).get(options.name))
    print(json.dumps(content, indent=2, default=str) if options.json else to_yaml(_plain(content)), end="")
    if options.json:
        print()


def complete_config(name: str, framework: str) -> str:
    """A config of an algorithm with every value written out, as YAML that `strict: true` is content with."""
    from mygym.runs.factory import explained
    from mygym.runs.resolve_config import resolve_config

    said = {"algo": name, "framework": framework}
    values = {**explained(resolve_config(overrides=said)).values(), "strict": True}
    command = f"mygym describe algo {name}{'' if framework == 'pytorch' else f' --framework {framework}'} --yaml"
    help = registry("algorithm").get(name).help
    return f"# {help}\n# every value written out, as printed by: {command}\n{to_yaml(values)}"


def _task(name: str) -> dict[str, Any]:
    from mygym.tasks.goals import goal_space
    from mygym.tasks.lookup import find_task

    task = find_task(parse_task(name))
    workspace = yaml.safe_load(Path(registry("workspace").get(task.workspace).load()).read_text(encoding="utf-8"))
    areas = [area for number in range(len(task.subtasks)) for area in task.goal_areas(number)]
    homes = {robot: (home or {}).get("areas", {}) for robot, home in (workspace.get("robots") or {}).items()}
    goals = {
        area: workspace["areas"].get(area)
        or {robot: own[area] for robot, own in homes.items() if area in own}
        or f"none of workspace {task.workspace}: task_params.areas.{area} would be its box"
        for area in areas
    }
    return {
        "task": task.name,
        "help": task.help,
        "in words": task.describe(),
        "stages": list(task.stage_names),
        "tolerance": f"{task.tolerance} m",
        "hold": f"{task.hold} steps",
        "horizon": f"{task.horizon} steps",
        "workspace": task.workspace,
        "objects": {role: task.asset(role) for role in task.roles} or "none",
        "needs a gripper": task.needs_gripper,
        "goals from": goals,
        "goal vector": list(goal_space(task).names),
        "run defaults": dict(task.run_defaults),
    }


def _component(entry: Entry) -> dict[str, Any]:
    from mygym.models.assets import read_mapping

    target = entry.load()
    entry = registry(entry.kind).get(entry.name)  # a file that has been imported tells the line
    about: dict[str, Any] = {entry.kind: entry.name, "help": entry.help, "origin": entry.origin}
    if entry.kind == "object" and isinstance(target, Path):
        return {**about, **_object(target)}
    if entry.kind == "robot" and target.suffix == ".urdf":
        return {**about, **_inferred(target)}
    if isinstance(target, Path):
        return {**about, **read_mapping(target)}
    if entry.kind == "algorithm":
        return {**about, "frameworks": {name: _algorithm(algorithm) for name, algorithm in target.items()}}
    if entry.kind == "schedule":
        from mygym.config import schedules

        return {**about, "parameters": schedules.describe(target)}
    if entry.kind == "strategy":
        from mygym.cli.tables import strategy_parameters

        text = (inspect.getdoc(target) or "").partition("\nArgs:")[0].strip()
        return {
            **about,
            "documentation": text,
            "strategy_params": {row.pop("name"): row for row in strategy_parameters(entry.name)},
        }
    if entry.kind == "stage":
        return {**about, **_stage(target)}
    if entry.kind == "observation":
        return {**about, **_observation(target)}
    if entry.requires:
        about["requires"] = list(entry.requires)
    if isinstance(target, Mapping):
        return {**about, "frameworks": {name: _part(entry, name) for name in target}}
    if is_dataclass(target) and not isinstance(target, type):
        return {**about, **{k: v for k, v in asdict(target).items() if not callable(v)}}
    return {**about, "documentation": inspect.getdoc(target) or ""}


def _stage(stage: Any) -> dict[str, Any]:
    """What compositions need to know of it; facts with what they mean."""
    known = registry("predicate")
    facts = {
        key: {fact: known.get(fact).help if fact in known else "unknown" for fact in getattr(stage, key)}
        for key in ("requires", "gives", "ends")
    }
    completion = (first_line(stage.complete) or "what its code says") if stage.complete else "nothing else"
    acts_on = "the end effector alone"
    if stage.needs_object:
        acts_on = "a part of the workspace" if stage.needs_part else "an object, or a part of the workspace"
    needs = {"a gripper": stage.needs_gripper, "a turn of the tool": stage.needs_turning, "two arms": stage.arms > 1}
    return {
        **({"letter": stage.letter} if stage.letter else {}),
        **{key: meaning for key, meaning in facts.items() if meaning},
        "also complete only if": completion,
        "acts on": acts_on,
        "needs": [what for what, needed in needs.items() if needed] or "nothing else",
        "moves the fingers": bool(stage.uses_gripper or stage.needs_gripper),
    }


def _observation(component: Any) -> dict[str, Any]:
    from mygym.tasks.observations import SYMBOLS

    where = {symbol: meaning for symbol, meaning in SYMBOLS.items() if symbol in component.shape}
    return {
        "shape": component.shape,
        **({"where": where} if where else {}),
        **({"unit": component.unit} if component.unit else {}),
        **({"frame": component.frame} if component.frame else {}),
        "bound": f"within ± {component.bound:g}",
        "tells about": component.of,
        "tells the goal": component.tells_goal,
    }


def _inferred(urdf: Path) -> dict[str, Any]:
    """What `--robot FILE.urdf` takes the URDF for, as a robot's YAML file would say it."""
    from mygym.sim.inference import infer_robot

    found = infer_robot(urdf)
    said = ("urdf", "base_position", "base_orientation", "joints", "end_effector", "gripper", "motor")
    described = asdict(found.spec)
    return {key: described[key] for key in said if described[key] is not None} | {"inferred": list(found.notes)}


def _object(path: Path) -> dict[str, Any]:
    """What its file says, and what follows."""
    from mygym.models.objects import density, load_object

    spec = load_object(path)
    said = yaml.safe_load(path.read_text(encoding="utf-8")) if path.suffix != ".urdf" else {"urdf": str(path)}
    measured = {
        "category": spec.category,
        "size": f"{' x '.join(f'{100 * edge:.2f}' for edge in spec.size)} cm",
        "mass": f"{spec.mass:.5g} kg",
        "density": f"{density(spec):.4g} kg/m³ of what it is made of",
        "centre of mass": f"{100 * spec.half_height:.2f} cm above what it lies on",
        "moments of inertia": [float(f"{moment:.4g}") for moment in spec.body.moments],
        "pieces that collide": len(spec.body.pieces),
        "fits a gripper of 8 cm": f"with {100 * spec.grasp_width:.1f} cm" if spec.graspable else "no",
    }
    return {**said, "measured": measured}


def _part(entry: Entry, framework: str) -> dict[str, Any]:
    """A part of networks in one framework."""
    try:
        component = entry.load_for(framework)
    except RegistryError as error:  # its package is not installed
        return {"missing": str(error)}
    return {
        "source": place(component),
        "parameters": {name: parameter.help for name, parameter in parameters_of(entry, framework).items()},
    }


def _algorithm(algorithm: Algorithm) -> dict[str, Any]:
    from mygym.cli.tables import hyperparameters, training_parameters
    from mygym.config.hyperparameters import may_be_scheduled

    try:
        cls = algorithm.combo()[0]
    except RegistryError as error:  # its package is not installed
        return {"missing": str(error)}
    return {
        "class": f"{cls.__module__}.{cls.__qualname__}",
        "source": place(cls),
        "requires": list(algorithm.needs),
        "hindsight": algorithm.goal_relabelling,
        "example": {"algo": algorithm.name, "framework": algorithm.framework, **algorithm.run_defaults},
        "algo_params": {row.pop("name"): row for row in hyperparameters(algorithm)},
        "may be scheduled": list(may_be_scheduled(cls)),
        **(
            {"training_params": {row.pop("name"): row for row in rows}}
            if (rows := training_parameters(algorithm))
            else {}
        ),
    }


def _plain(content: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(content, default=str))
    return plain
