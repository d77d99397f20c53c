"""Kinds that `mygym new` scaffolds, and the files of each, from templates and from examples of the repository."""

from __future__ import annotations

import ast
import builtins
import keyword
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from mygym.checks.suite import LEARNS
from mygym.cli.new.robot_yaml import robot_yaml
from mygym.config.hyperparameters import Schema
from mygym.config.loading import parse_value
from mygym.envs.ids import ANY_TASK, env_id
from mygym.errors import ConfigError, RegistryError, bad_value, counted
from mygym.registry import ASSETS, Algorithm, algorithm, registry
from mygym.registry.signatures import signature
from mygym.registry.user_files import FOLDERS, user_folders
from mygym.tasks.grammar import letters

MAX_LENGTH = 60
"""Maximum length of a name, because names become file names."""


def check_identifier(key: str, name: str) -> None:
    """Refuse a name that is not an identifier or not a file name."""
    if keyword.iskeyword(name):
        raise ConfigError(bad_value(key, name, "letters, digits and _", "is a keyword of Python"))
    if not re.fullmatch(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_LENGTH - 1}}}", name):
        allowed = f"at most {MAX_LENGTH} letters, digits and _, a letter first"
        raise ConfigError(bad_value(key, name, allowed, "is not a name"))
    if parse_value(name, key) != name:
        raise ConfigError(bad_value(key, name, "another name", "is not text in YAML"))


def check_free(kind: str, name: str) -> None:
    """Refuse a name that is already registered, or that would hide a task."""
    if name in registry(kind):
        try:
            origin = registry(kind).get(name).origin
        except RegistryError as error:  # the file of this name cannot be imported
            origin = str(error)
        raise ConfigError(bad_value("name", name, "a new name", f"is a registered {kind} already ({origin})"))
    if kind != "task":
        return
    if set(name) <= letters().keys():
        why = "is a composition of stages by their letters"
        raise ConfigError(bad_value("name", name, "a name that is not a string of stages' letters", why))
    ids = {env_id(task): task for task in registry("task").names()} | {ANY_TASK: "any task"}
    if env_id(name) in ids:
        why = f"would have the environment id {env_id(name)}, which belongs to {ids[env_id(name)]}"
        raise ConfigError(bad_value("name", name, "a name with a new environment id", why))


def check_folder(folder: Path) -> None:
    """Refuse a run directory, in which the registry does not look for components."""
    for name in FOLDERS:
        if (folder / name).is_dir() and folder / name not in user_folders():
            why = "is a run directory, where components are not looked up"
            raise ConfigError(bad_value("folder", str(folder), "the folder of train.py, or an empty folder", why))


def camel_case(name: str) -> str:
    """Return a name in CamelCase: `my_algo` → `MyAlgo`."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


Files = Mapping[str, str | bytes]
"""Path → content."""


@dataclass(frozen=True)
class Request:
    """Description of a new component."""

    name: str
    folder: Path
    """Folder for `algos/`, `envs/`, `configs/` and `tests/`, which are created if missing."""
    class_name: str | None = None
    """Name of the class; None: the component's name in CamelCase."""
    base: str | None = None
    """Base algorithm of an algorithm or a policy; None: ppo."""
    framework: str = "pytorch"
    """Framework of the base."""
    urdf: Path | None = None
    """URDF file of a robot or an object; None: the template."""
    policy: Path | None = None
    """Exported policy of a ROS 2 node."""

    @property
    def cls(self) -> str:
        """Name of the class."""
        return self.class_name or camel_case(self.name)


def template(file: str) -> str:
    """Return the text of a template."""
    return (files("mygym.cli.new") / "templates" / f"{file}.template").read_text(encoding="utf-8")


def example(file: str, names: Mapping[str, str] | None = None) -> str:
    """Return the text of an example of the repository's `envs/`, which is `mygym/examples/` in a wheel.

    `names` has texts of the example and those in their place.
    """
    folder = next(path for path in (ASSETS.parent / "examples", ASSETS.parents[1] / "envs") if path.is_dir())
    text = (folder / file).read_text(encoding="utf-8")
    return re.sub("|".join(map(re.escape, names)), lambda match: names[match[0]], text) if names else text


def fill(file: str, request: Request, /, **values: str) -> str:
    """Return a template with the placeholders `$name`, `$class_name` and `values` replaced."""
    return Template(template(file)).substitute(name=request.name, class_name=request.cls, **values)


def fill_class(file: str, request: Request, /, **values: str) -> str:
    """Return a template in which the class has the name of the request; see `with_class`."""
    return with_class(fill(file, request, **values), request)


def with_class(code: str, request: Request) -> str:
    """Return code whose class has the name of the request; refuse a name that the code or Python uses."""
    check_identifier("--class", request.cls)
    taken = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    } | {"BASE"}
    if request.cls in taken or hasattr(builtins, request.cls):
        raise ConfigError(bad_value("--class", request.cls, "another name", "is another object in the file"))
    return code


def complete(
    request: Request, files: Files, config: Mapping[str, str], help: str, *kinds: str, checks: str = ""
) -> Files:
    """Return files with a config, whose header has `help` and whose values are YAML by key, and a test that trains it.

    The test also performs the checks of some kinds, whose further arguments each follow a comma; without kinds, it
    validates the environment of the config.
    """
    path = f"configs/{request.name}.yaml"
    header = [f"# {train_command(request.folder)} --config {path}", f"# {help} --explain prints all keys."]
    content = "\n".join([*header, *(f"{key}: {value}" for key, value in config.items()), "seed: 0", ""])
    if kinds:
        tests = "\n\n".join(fill("test_checks.py", request, kind=kind, arguments=checks) for kind in kinds)
        imports = {"third_party": "", "mygym_imports": "from mygym.checks import check\n"}
    else:
        tests = fill("test_env.py", request)
        imports = {"third_party": "\nfrom gymnasium.utils.env_checker import check_env", "mygym_imports": ""}
    test = fill("test.py", request, tests=tests, **imports)
    return {**files, path: content, f"tests/test_{request.name}.py": test}


def one_file(
    request: Request, folder: str, code: str, config: Mapping[str, str], help: str, *kinds: str, checks: str = ""
) -> Files:
    """Return the files of a component whose code is one file in a folder, see `complete`."""
    return complete(request, {f"{folder}/{request.name}.py": code}, config, help, *kinds, checks=checks)


def train_command(folder: Path) -> str:
    """Return the command that trains in a folder."""
    return "python train.py" if (folder / "train.py").is_file() else "mygym train"


def _robot_files(request: Request) -> Files:
    """Return the files of a robot: the robot of a URDF with its picture, or the example."""
    folder = "envs/robots"
    descriptions: Files
    if request.urdf is None:
        descriptions = {
            f"{folder}/{request.name}.{suffix}": example(f"robots/desk_arm.{suffix}", {"desk_arm": request.name})
            for suffix in ("urdf", "yaml")
        }
    else:
        text, picture = _inferred_robot(request.urdf, request.folder / "envs" / "robots")
        descriptions = {f"{folder}/{request.name}.yaml": text, f"{folder}/{request.name}.png": picture}
    config = {"robot": request.name, "task": "reach"}
    return complete(request, descriptions, config, "Trains the default algorithm with this robot.", "robot")


def _workspace_files(request: Request) -> Files:
    config = {"workspace": request.name, "task": "reach"}
    files = {f"envs/workspaces/{request.name}.yaml": _workspace(request)}
    return complete(request, files, config, "Trains the default algorithm in this workspace.", "workspace")


def _workspace(request: Request) -> str:
    return example("workspaces/workbench.yaml", {"workbench": request.name})


def _object_files(request: Request) -> Files:
    """Return the files of an object: the object of a URDF, or the example."""
    text = example("objects/mallet.yaml") if request.urdf is None else _urdf_object(request, request.urdf)
    config = {"task": "push", "task_params": f"{{object: {request.name}}}"}
    files = {f"envs/objects/{request.name}.yaml": text}
    return complete(request, files, config, "Trains the default algorithm to push this object.", "object")


def _urdf_object(request: Request, urdf: Path) -> str:
    from mygym.robotics.objects import load_object

    spec = load_object(urdf)
    title = (
        f"# The object of {urdf.name}, {spec.mass:g} kg.\nurdf: {_path_from(request.folder / 'envs/objects', urdf)}\n"
    )
    return f"{title}friction: {spec.friction:g}               # relative to the surface that it lies on\n"


def _path_from(folder: Path, urdf: Path) -> str:
    """Return the path of a URDF for a description: relative inside the project folder, so that the folder can move."""
    project = folder.parents[1].resolve()
    inside = urdf.resolve().is_relative_to(project)
    return os.path.relpath(urdf.resolve(), folder.resolve()) if inside else str(urdf.resolve())


def _inferred_robot(urdf: Path, folder: Path) -> tuple[str, bytes]:
    """Return the description of the robot that is inferred from a URDF, for a file in `folder`, and its picture."""
    from mygym.engines.rendering.robot_sheet import robot_sheet
    from mygym.engines.rendering.thumbnails import as_png
    from mygym.robotics.robot import infer_robot

    robot = infer_robot(urdf)
    title = f"The arm of {urdf.name}: {counted(len(robot.spec.joints), 'joint')}. SI units. Limits: the URDF's."
    text = robot_yaml(robot.spec, _path_from(folder, urdf), robot.findings, title)
    return text, as_png(robot_sheet(robot.spec))


RUNNER = "runner"
"""Value of `--base` for algorithms with a custom training loop, in place of an algorithm's name."""

RUNNERS: Mapping[str, tuple[str, str]] = {
    "pytorch": ("runner.py", "noise: 0.05"),
    "jax": ("jax_runner.py", "gamma: 0.95"),
}
"""Framework → template of a runner, and a hyperparameter of it in the config."""

HOOKS: Mapping[str, tuple[str, str, str]] = {
    "hook_train.py": ("pytorch", "train", "torch"),
    "hook_ars.py": ("pytorch", "_do_one_update", "torch"),
    "hook_jax.py": ("jax", "train", "jax"),
}
"""Template of a method → framework, overridden method of the base class, imported package."""


def _algorithm_files(request: Request) -> Files:
    """Return the files of an algorithm: a subclass of the base's class, or of `Runner`."""
    base = request.base or "ppo"
    if base == RUNNER:
        if request.framework not in RUNNERS:
            raise ConfigError(bad_value("--framework", request.framework, RUNNERS))
        file, hyperparameter = RUNNERS[request.framework]
        code = fill_class(file, request)
    else:
        code = fill_class("algorithm.py", request, **_subclass_values(base, request.framework))
        hyperparameter = "weight_decay: 0.0001"
    config = {"algo": request.name, "task": "reach", "algo_params": f"{{{hyperparameter}}}"}
    if request.framework != "pytorch":
        config["framework"] = request.framework
    framework = "" if request.framework == "pytorch" else f', framework="{request.framework}"'
    skip = "" if base == RUNNER else f', skip=["{LEARNS}"]'  # which takes minutes
    checks = f'{framework}, steps=300, config={{"n_envs": 2}}{skip}'
    help = "Trains this algorithm on the task reach."
    return one_file(request, "algos", code, config, help, "algorithm", checks=checks)


def _subclass_values(base: str, framework: str) -> dict[str, str]:
    """Return the placeholders that depend on the base algorithm."""
    entry = algorithm(base, framework)
    parent, _, _ = entry.combo()
    module, name = _import_of(entry, parent)
    hook, library = _hook(parent, framework, base)
    imports = sorted([f"from {module} import {name}", "from mygym.registry import register_algorithm"])
    return {
        "base": base,
        "framework": "" if framework == "pytorch" else f', framework="{framework}"',
        "parent": name,
        "imports": "\n".join(imports),
        "library": library,
        "hook": hook,
    }


def _hook(parent: type, framework: str, base: str) -> tuple[str, str]:
    """Return a method that applies weight decay, and the package that it imports."""
    for file, (hook_framework, method, library) in HOOKS.items():
        if hook_framework == framework and hasattr(parent, method):
            return Template(template(file)).substitute(base=base).rstrip(), library
    why = "has no update method that a subclass can extend"
    raise ConfigError(bad_value("--base", base, f"an algorithm with train(), or {RUNNER}", why))


def _import_of(entry: Algorithm, parent: type) -> tuple[str, str]:
    """Return module and name that import the class of an algorithm."""
    module, name = (
        entry.target.split(":") if isinstance(entry.target, str) else (parent.__module__, parent.__qualname__)
    )
    if module == "__main__" or not name.isidentifier():
        why = f"is a class that cannot be imported ({entry.origin})"
        raise ConfigError(bad_value("--base", entry.name, "an algorithm of a module", why))
    return module, name


def _policy_files(request: Request) -> Files:
    """Return the files of a policy: a subclass of the base's policy class."""
    base = request.base or "ppo"
    entry = algorithm(base, request.framework)
    if request.framework != "pytorch":
        why = "does not support custom policies yet"
        raise ConfigError(bad_value("--framework", request.framework, ["pytorch"], why))
    schema = Schema(entry, {})
    parent = schema.component(("policy",)) if schema.policy is not None else None
    if parent is None or "activation_fn" not in signature(parent).parameters:
        why = "has no networks with an activation function, which the template sets"
        raise ConfigError(bad_value("--base", base, "an algorithm with networks, such as ppo or sac", why))
    values = {"base": base, "module": parent.__module__, "parent": parent.__name__}
    config = {"algo": base, "task": "reach", "algo_params": f"{{policy: {request.name}}}"}
    code, checks = fill_class("policy.py", request, **values), f', steps=300, config={{"algo": "{base}", "n_envs": 2}}'
    return one_file(request, "algos", code, config, f"Trains {base} with this policy.", "policy", checks=checks)


IN_RUNS = ', steps=300, config={"n_envs": 2, "algo_params": {"n_steps": 32}}'
"""Arguments of the checks of components that take part in trainings."""


def _sampler_files(request: Request) -> Files:
    config = {"algo": "ppo", "strategy": "mixture", "strategy_params": f"{{sampler: {request.name}, candidates: 3}}"}
    help = "Trains the candidates of a super-network with this sampler."
    return one_file(request, "algos", fill_class("sampler.py", request), config, help, "sampler", checks=IN_RUNS)


def _callback_files(request: Request) -> Files:
    config = {"algo": "ppo", "callbacks": f"[{request.name}]"}
    code, help = fill_class("callback.py", request), "Trains PPO with this callback."
    return one_file(request, "algos", code, config, help, "callback", checks=IN_RUNS)


def _strategy_files(request: Request) -> Files:
    config = {"strategy": request.name, "strategy_params": "{share: 0.8}", "algo": "ppo"}
    help = "Trains PPO with this strategy on the default task."
    return one_file(request, "algos", fill_class("strategy.py", request), config, help, "strategy", checks=IN_RUNS)


def _task_files(request: Request) -> Files:
    help = "Trains the default algorithm on this task."
    return one_file(request, "envs", _task(request), _task_config(request), help, "task")


TASK_ASSETS = {"workspace": "table", "object": "cube"}
"""Workspace and object in the example of a task."""


def _env_files(request: Request) -> Files:
    """Return the files of an environment: a task, its workspace and its object."""
    names = {f'{kind}="{asset}"': f'{kind}="{request.name}"' for kind, asset in TASK_ASSETS.items()}
    files = {
        f"envs/{request.name}.py": _task(request, names),
        f"envs/workspaces/{request.name}.yaml": _workspace(request),
        f"envs/objects/{request.name}.yaml": (ASSETS / "objects/geometric/cube.yaml").read_text(encoding="utf-8"),
    }
    help = "Trains the default algorithm in this environment."
    return complete(request, files, _task_config(request), help, "task", "workspace")


def _task(request: Request, names: Mapping[str, str] | None = None) -> str:
    return example("nudge.py", {"nudge": request.name, env_id("nudge"): env_id(request.name), **(names or {})})


def _task_config(request: Request) -> dict[str, str]:
    return {"task": request.name, "reward": "sparse"}


def _stage_files(request: Request) -> Files:
    config = {"task": f"[approach, grasp, {request.name}]", "reward": "shaped"}
    help = "Trains the default algorithm on a task that ends with this stage."
    return one_file(request, "envs", fill("stage.py", request), config, help, "stage")


def _predicate_files(request: Request) -> Files:
    """Return the files of a predicate, and of a stage and a task with the same name that give it."""
    names = {f'"{name}"': f'"{request.name}"' for name in ("lifted", "lift")}
    code, config = example("lift.py", names), {"task": request.name, "reward": "shaped"}
    help = "Trains the default algorithm on a task that ends with this predicate."
    return one_file(request, "envs", code, config, help, "stage")


def _reward_files(request: Request) -> Files:
    code, config = example("quadratic.py", {"quadratic": request.name}), {"task": "reach", "reward": request.name}
    help = "Trains the default algorithm on the task reach with this reward."
    return one_file(request, "envs", code, config, help)


def _observation_files(request: Request) -> Files:
    config = {"task": "reach", "observations": f"[ee_position, ee_velocity, command_offset, {request.name}]"}
    help = "Trains the default algorithm on the task reach with this observation."
    return one_file(request, "envs", fill("observation.py", request), config, help)


def _controller_files(request: Request) -> Files:
    code = example("smooth.py", {"ee_delta_smooth": request.name, "EndEffectorDeltaSmooth": request.cls})
    config = {"task": "reach", "control": request.name}
    help = "Trains the default algorithm on the task reach with this controller."
    return one_file(request, "envs", with_class(code, request), config, help)


COMMANDS = {
    "position": "joint_trajectory    trajectory_msgs/JointTrajectory: a point for the end of the period",
    "velocity": "velocity_commands   std_msgs/Float64MultiArray, rad/s",
}
"""Mode of a controller → line of the node's documentation."""


def _ros2_files(request: Request) -> dict[str, str]:
    """Return the files of a ROS 2 package.

    Raises:
        ConfigError: The request has no policy, or a node cannot run it.
        RegistryError: onnxruntime is not installed.
    """
    from mygym.exporting.deployment import DeployedPolicy

    if request.policy is None:
        raise ConfigError(bad_value("--policy", None, "an .onnx file of `mygym export`", "is missing"))
    policy = DeployedPolicy(request.policy)
    needed = "\n".join(f"        {name}: {size} numbers" for name, size in policy.needs.items()) or "        none"
    values = {"policy": str(request.policy.resolve()), "needed": needed, "commands": COMMANDS[policy.mode]}
    folder = f"ros2/{request.name}"
    return {
        f"{folder}/{request.name}/node.py": fill("ros2_node.py", request, **values),
        f"{folder}/{request.name}/__init__.py": "",
        f"{folder}/package.xml": fill("ros2_package.xml", request),
        f"{folder}/resource/{request.name}": "",
        f"{folder}/setup.cfg": fill("ros2_setup.cfg", request),
        f"{folder}/setup.py": fill("ros2_setup.py", request),
    }


SCAFFOLDS: Mapping[str, Callable[[Request], Files]] = {
    "algo": _algorithm_files,
    "policy": _policy_files,
    "strategy": _strategy_files,
    "sampler": _sampler_files,
    "callback": _callback_files,
    "task": _task_files,
    "stage": _stage_files,
    "predicate": _predicate_files,
    "reward": _reward_files,
    "observation": _observation_files,
    "controller": _controller_files,
    "robot": _robot_files,
    "workspace": _workspace_files,
    "object": _object_files,
    "env": _env_files,
}
"""Kind on the command line → function that returns path and content of the files."""

PACKAGES: Mapping[str, Callable[[Request], Files]] = {"ros2-node": _ros2_files}
"""Further kinds, which are not components: packages for a robot."""

KINDS_TO_REGISTER: Mapping[str, tuple[str, ...]] = {
    "algo": ("algorithm",),
    "predicate": ("predicate", "stage", "task"),
    "env": ("task", "workspace", "object"),
    "ros2-node": (),
}
"""Kind → kinds of the registry in which its name must be free, if they differ from the kind."""

KINDS_TO_CHECK: Mapping[str, tuple[str, ...]] = {"predicate": ("predicate", "stage"), "env": ("task", "workspace")}
"""Kind → kinds for `mygym check`, if they differ from the kind."""


def new_files(kind: str, request: Request) -> dict[Path, str | bytes]:
    """Return path and content of every file of a new component, of a kind of `SCAFFOLDS` or `PACKAGES`.

    Raises:
        ConfigError: A name is invalid or already registered, or the base is not suitable.
    """
    check_identifier("name", request.name)
    check_folder(request.folder)
    for registered in KINDS_TO_REGISTER.get(kind, (kind,)):
        check_free(registered, request.name)
    return {request.folder / path: content for path, content in {**SCAFFOLDS, **PACKAGES}[kind](request).items()}
