"""Which files a new component of each kind consists of, from the templates beside this module."""

from __future__ import annotations

import ast
import builtins
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from mygym.cli.new.naming import check_free, check_identifier, check_place, class_name
from mygym.config.hyperparameters import Schema
from mygym.envs.ids import env_id
from mygym.errors import ConfigError, bad_value
from mygym.registry import Algorithm, algorithm

if TYPE_CHECKING:
    from mygym.models.robot import GripperSpec

RUNNER = "runner"
"""In place of an algorithm's name: the base class of those that write the training loop themselves."""


@dataclass(frozen=True)
class Request:
    """What the user wants."""

    name: str
    place: Path
    """The folder that has, or gets, `algos/`, `envs/`, `configs/` and `tests/`."""
    class_name: str | None = None
    """Of an algorithm or a policy; None: its name in CamelCase."""
    base: str | None = None
    """Of an algorithm or a policy: an algorithm; None: ppo."""
    framework: str = "pytorch"
    """Of the base."""
    urdf: Path | None = None
    """Of a robot or an object; None: one is made."""

    @property
    def cls(self) -> str:
        """Name of the class."""
        return self.class_name or class_name(self.name)


def new_files(kind: str, request: Request) -> dict[Path, str]:
    """Path and content of every file of a new component.

    Raises:
        ConfigError: The name is none or taken, or the base does not do.
    """
    check_identifier("name", request.name)
    if request.class_name is not None:
        check_identifier("--class", request.class_name)
    check_place(request.place)
    made = KINDS[kind](request)
    return {request.place / path: text for path, text in made.items()}


def _algorithm(request: Request) -> dict[str, str]:
    check_free("algorithm", request.name)
    base = request.base or "ppo"
    if base == RUNNER:
        code = _fill("runner.py", request)
        hyperparameter = "noise: 0.05"
    else:
        code = _fill("algorithm.py", request, **_subclass(base, request.framework))
        hyperparameter = "weight_decay: 0.0001"
    config = {"algo": request.name, "task": "reach", "algo_params": f"{{{hyperparameter}}}"}
    if request.framework != "pytorch":
        config["framework"] = request.framework
    said = "" if request.framework == "pytorch" else f', framework="{request.framework}"'
    tests = _test_of("algorithm", request.name, f'{said}, steps=300, config={{"n_envs": 2}}')
    return {
        f"algos/{request.name}.py": _with_class(code, request.cls),
        **_config(request, config, "What this algorithm does on the default task."),
        **_test(request, "algo", tests),
    }


def _subclass(base: str, framework: str) -> dict[str, str]:
    """What the template of an algorithm needs to know of its base."""
    entry = algorithm(base, framework)
    parent, _, _ = entry.combo()
    module, name = _import_of(entry, parent)
    hook, library = _hook(parent, framework, base)
    mine = "from mygym.registry import algorithm, register_algorithm"
    lines = sorted([f"from {module} import {name}", mine])
    return {
        "base": base,
        "framework": "" if framework == "pytorch" else f', framework="{framework}"',
        "framework_line": "" if framework == "pytorch" else f'\n    framework="{framework}",',
        "parent": name,
        "imports": "\n".join(lines),
        "library": library,
        "hook": hook,
    }


def _hook(parent: type, framework: str, base: str) -> tuple[str, str]:
    """A method in which the example's weights decay, and the package that it needs."""
    for name, (framework_of, method, library) in HOOKS.items():
        if framework_of == framework and hasattr(parent, method):
            return Template(_template(name)).substitute(base=base).rstrip(), library
    why = "has no method that a subclass could add to"
    raise ConfigError(bad_value("--base", base, f"an algorithm with train(), or {RUNNER}", why))


HOOKS: Mapping[str, tuple[str, str, str]] = {
    "hook_train.py": ("pytorch", "train", "torch"),
    "hook_ars.py": ("pytorch", "_do_one_update", "torch"),
    "hook_jax.py": ("jax", "train", "jax"),
}
"""Template of a method → the framework, the parent's method by which it is chosen, and what it imports."""


def _import_of(entry: Algorithm, parent: type) -> tuple[str, str]:
    """Module and name by which a file imports a class.

    Raises:
        ConfigError: It belongs to a program or a function.
    """
    module, name = (
        entry.target.split(":") if isinstance(entry.target, str) else (parent.__module__, parent.__qualname__)
    )
    if module == "__main__" or not name.isidentifier():
        why = f"is no class that another file can import ({entry.origin})"
        raise ConfigError(bad_value("--base", entry.name, "an algorithm of a module", why))
    return module, name


def _policy(request: Request) -> dict[str, str]:
    check_free("policy", request.name)
    base = request.base or "ppo"
    entry = algorithm(base, request.framework)
    if request.framework != "pytorch":
        raise ConfigError(bad_value("--framework", request.framework, ["pytorch"], "has no policies of one's own yet"))
    schema = Schema(entry, {})
    parent = schema.component(("policy",)) if schema.policy is not None else None
    if parent is None or "activation_fn" not in inspect.signature(parent).parameters:
        why = "has no networks with an activation, which the template sets"
        raise ConfigError(bad_value("--base", base, "an algorithm with networks, such as ppo or sac", why))
    name = parent.__name__
    code = _fill("policy.py", request, base=base, module=parent.__module__, parent=name)
    config = {"algo": base, "task": "reach", "algo_params": f"{{policy: {request.name}}}"}
    tests = _test_of("policy", request.name, f', steps=300, config={{"algo": "{base}", "n_envs": 2}}')
    return {
        f"algos/{request.name}.py": _with_class(code, request.cls),
        **_config(request, config, f"What {base} does with this policy."),
        **_test(request, "policy", tests),
    }


def _strategy(request: Request) -> dict[str, str]:
    check_free("strategy", request.name)
    config = {"strategy": request.name, "strategy_params": "{share: 0.8}", "algo": "ppo"}
    tests = _test_of("strategy", request.name, ', steps=300, config={"n_envs": 2, "algo_params": {"n_steps": 32}}')
    return {
        f"algos/{request.name}.py": _with_class(_fill("strategy.py", request), request.cls),
        **_config(request, config, "PPO on the default task, with this strategy."),
        **_test(request, "strategy", tests),
    }


def _task(request: Request) -> dict[str, str]:
    check_free("task", request.name)
    return {
        f"envs/{request.name}.py": _fill("task.py", request, env_id=env_id(request.name)),
        **_config(request, {"task": request.name, "reward": "sparse"}, "The default algorithm on this task."),
        **_test(request, "task", _test_of("task", request.name)),
    }


def _env(request: Request) -> dict[str, str]:
    for kind in ("task", "workspace", "object"):
        check_free(kind, request.name)
    tests = "\n\n".join(_test_of(kind, request.name) for kind in ("task", "workspace"))
    return {
        f"envs/{request.name}.py": _fill("env.py", request, env_id=env_id(request.name)),
        f"envs/workspaces/{request.name}.yaml": _template("workspace.yaml"),
        f"envs/objects/{request.name}.yaml": _template("object.yaml"),
        **_config(request, {"task": request.name, "reward": "sparse"}, "The default algorithm in this environment."),
        **_test(request, "task", tests),
    }


def _stage(request: Request) -> dict[str, str]:
    check_free("stage", request.name)
    config = {"task": f"[approach, grasp, {request.name}]", "reward": "staged"}
    return {
        f"envs/{request.name}.py": _fill("stage.py", request),
        **_config(request, config, "The default algorithm on a task that ends with this stage."),
        **_test(request, "stage", _test_of("stage", request.name)),
    }


def _workspace(request: Request) -> dict[str, str]:
    check_free("workspace", request.name)
    return {
        f"envs/workspaces/{request.name}.yaml": _template("workspace.yaml"),
        **_config(request, {"workspace": request.name, "task": "reach"}, "The default algorithm in this workspace."),
        **_test(request, "workspace", _test_of("workspace", request.name)),
    }


def _object(request: Request) -> dict[str, str]:
    check_free("object", request.name)
    text = _template("compound.yaml") if request.urdf is None else _object_of(request, request.urdf)
    values = {"task": "push", "task_params": f"{{object: {request.name}}}"}
    return {
        f"envs/objects/{request.name}.yaml": text,
        **_config(request, values, "The default algorithm, pushing this object."),
        **_test(request, "object", _test_of("object", request.name)),
    }


def _object_of(request: Request, urdf: Path) -> str:
    """The description of a URDF that stays where it is."""
    from mygym.models.objects import load_object

    spec = load_object(urdf)
    place = _relative(urdf, request.place / "envs" / "objects")
    values = {"file": urdf.name, "urdf": place, "mass": f"{spec.mass:g} kg", "friction": f"{spec.friction:g}"}
    return _fill("urdf_object.yaml", request, **values)


def _relative(urdf: Path, folder: Path) -> str:
    """How a description in a folder names a URDF: relative if that lies beside `envs/`, so that both can be moved."""
    near = urdf.resolve().is_relative_to(folder.parents[1].resolve())
    return os.path.relpath(urdf.resolve(), folder.resolve()) if near else str(urdf.resolve())


def _robot(request: Request) -> dict[str, str]:
    check_free("robot", request.name)
    made: dict[str, str] = {}
    if request.urdf is None:
        made[f"envs/robots/{request.name}.urdf"] = _fill("robot.urdf", request)
        values = {**OWN_ARM, "urdf": f"{request.name}.urdf"}
    else:
        values = _described(request.urdf, request.place / "envs" / "robots")
    made[f"envs/robots/{request.name}.yaml"] = _fill("robot.yaml", request, **values)
    return {
        **made,
        **_config(request, {"robot": request.name, "task": "reach"}, "The default algorithm with this robot."),
        **_test(request, "robot", _test_of("robot", request.name)),
    }


def _described(urdf: Path, folder: Path) -> dict[str, str]:
    """What the template of a robot needs to know of a URDF that stays where it is."""
    from mygym.sim.inference import count_joints, infer_robot

    found = infer_robot(urdf)
    spec = found.spec
    rows = [
        f"  - {{name: {joint.name}, home: {joint.home:g}, lower: {joint.lower:g}, upper: {joint.upper:g}, "
        f"velocity: {joint.velocity:g}, effort: {joint.effort:g}}}"
        for joint in spec.joints
    ]
    told = "\n".join(f"# inferred: {note}" for note in found.notes)
    return {
        "help": f"The arm of {urdf.name}: {count_joints(len(rows))}. SI units. Limits: the URDF's.\n{told}",
        "urdf": _relative(urdf, folder),
        "base_position": _numbers(spec.base_position),
        "joints": "\n".join(rows),
        "link": spec.end_effector.link,
        "position": _numbers(spec.end_effector.position),
        "orientation": _numbers(spec.end_effector.orientation),
        "gripper": _gripper(spec.gripper),
    }


def _gripper(gripper: GripperSpec | None) -> str:
    if gripper is None:
        return ""
    lines = [
        f"  joints: [{', '.join(gripper.joints)}]",
        f"  links: [{', '.join(gripper.links)}]         # whose contacts count",
        f"  closed: {_numbers(gripper.closed)}           # m or rad",
        f"  open: {_numbers(gripper.open)}",
        f"  width: {gripper.width:g}            # m between the fingers when open",
        f"  force: {gripper.force:g}             # N or N m",
        f"  velocity: {gripper.velocity:g}         # m/s or rad/s",
    ]
    return "\n" + "\n".join(["gripper:", *lines])


def _numbers(values: Iterable[float]) -> str:
    return f"[{', '.join(f'{value:g}' for value in values)}]"


OWN_ARM: Mapping[str, str] = {
    "help": "Six joints between cylinders, a rod as the tool; 0.85 m to the wrist. SI units; limits as in the URDF.",
    "base_position": "[-0.6, 0.0, 0.0]",
    "joints": """\
  - {name: joint_1, home: 0.0, lower: -2.9, upper: 2.9, velocity: 2.5, effort: 100}
  - {name: joint_2, home: 0.716, lower: -2.0, upper: 2.0, velocity: 2.5, effort: 100}
  - {name: joint_3, home: 1.561, lower: -2.7, upper: 2.7, velocity: 2.5, effort: 60}
  - {name: joint_4, home: 0.0, lower: -2.9, upper: 2.9, velocity: 3.0, effort: 20}
  - {name: joint_5, home: 0.864, lower: -2.2, upper: 2.2, velocity: 3.0, effort: 20}
  - {name: joint_6, home: 0.0, lower: -3.0, upper: 3.0, velocity: 3.0, effort: 10}""",
    "link": "tool",
    "position": "[0.0, 0.0, 0.1]",
    "orientation": "[0.0, 0.0, 0.0, 1.0]",
    "gripper": "",
}
"""The arm of `robot.urdf.template`."""

KINDS: Mapping[str, Callable[[Request], dict[str, str]]] = {
    "algo": _algorithm,
    "policy": _policy,
    "strategy": _strategy,
    "task": _task,
    "stage": _stage,
    "robot": _robot,
    "workspace": _workspace,
    "object": _object,
    "env": _env,
}
"""Kinds that can be made anew → which files these are."""


# What they have in common ------------------------------------------------------------------------------------------


def _template(name: str) -> str:
    return (files("mygym.cli.new") / "templates" / f"{name}.template").read_text(encoding="utf-8")


def _fill(template: str, request: Request, **values: str) -> str:
    return Template(_template(template)).substitute(name=request.name, class_name=request.cls, **values)


def _with_class(code: str, cls: str) -> str:
    """A file's code.

    Raises:
        ConfigError: Its class would take a name that the file, or Python, needs for something else.
    """
    others = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    } | {"BASE"}
    if cls in others or hasattr(builtins, cls):
        raise ConfigError(bad_value("--class", cls, "another name", "is what the file calls something else"))
    return code


def _config(request: Request, values: Mapping[str, str], help: str) -> dict[str, str]:
    name = f"configs/{request.name}.yaml"
    lines = [f"# {train_command(request.place)} --config {name}", f"# {help} All keys: --explain."]
    return {name: "\n".join([*lines, *(f"{key}: {value}" for key, value in values.items()), "seed: 0"]) + "\n"}


def _test(request: Request, kind: str, tests: str) -> dict[str, str]:
    text = _fill("test.py", request, kind=kind, tests=tests, steps="300")
    return {f"tests/test_{request.name}.py": text}


def _test_of(kind: str, name: str, arguments: str = "") -> str:
    return Template(_template("test_function.py")).substitute(kind=kind, name=name, arguments=arguments)


def train_command(place: Path) -> str:
    """How training is begun in a folder."""
    return "python train.py" if (place / "train.py").is_file() else "mygym train"
