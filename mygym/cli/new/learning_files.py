"""Files of new algorithms, policies and strategies, in `algos/`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from string import Template

from mygym.checks.suite import LEARNS
from mygym.cli.new.naming import check_free
from mygym.cli.new.request import Request
from mygym.cli.new.templating import checks_test, checks_test_file, config_file, fill_class, template
from mygym.config.hyperparameters import Schema
from mygym.errors import ConfigError, bad_value
from mygym.registry import Algorithm, algorithm

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


def algorithm_files(request: Request) -> dict[str, str]:
    """Return the files of an algorithm: a subclass of the base's class, or of `Runner`."""
    check_free("algorithm", request.name)
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
    return {
        f"algos/{request.name}.py": code,
        **config_file(request, config, "Trains this algorithm on the task reach."),
        **checks_test_file(
            request, checks_test("algorithm", request, f'{framework}, steps=300, config={{"n_envs": 2}}{skip}')
        ),
    }


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
    """Return module and name that import the class of an algorithm.

    Raises:
        ConfigError: The class is local to a function or to the running program.
    """
    module, name = (
        entry.target.split(":") if isinstance(entry.target, str) else (parent.__module__, parent.__qualname__)
    )
    if module == "__main__" or not name.isidentifier():
        why = f"is a class that cannot be imported ({entry.origin})"
        raise ConfigError(bad_value("--base", entry.name, "an algorithm of a module", why))
    return module, name


def policy_files(request: Request) -> dict[str, str]:
    """Return the files of a policy: a subclass of the base's policy class."""
    check_free("policy", request.name)
    base = request.base or "ppo"
    entry = algorithm(base, request.framework)
    if request.framework != "pytorch":
        why = "does not support custom policies yet"
        raise ConfigError(bad_value("--framework", request.framework, ["pytorch"], why))
    schema = Schema(entry, {})
    parent = schema.component(("policy",)) if schema.policy is not None else None
    if parent is None or "activation_fn" not in inspect.signature(parent).parameters:
        why = "has no networks with an activation function, which the template sets"
        raise ConfigError(bad_value("--base", base, "an algorithm with networks, such as ppo or sac", why))
    values = {"base": base, "module": parent.__module__, "parent": parent.__name__}
    config = {"algo": base, "task": "reach", "algo_params": f"{{policy: {request.name}}}"}
    test = checks_test("policy", request, f', steps=300, config={{"algo": "{base}", "n_envs": 2}}')
    return {
        f"algos/{request.name}.py": fill_class("policy.py", request, **values),
        **config_file(request, config, f"Trains {base} with this policy."),
        **checks_test_file(request, test),
    }


def sampler_files(request: Request) -> dict[str, str]:
    """Return the files of a sampler."""
    check_free("sampler", request.name)
    config = {"algo": "ppo", "strategy": "mixture", "strategy_params": f"{{sampler: {request.name}, candidates: 3}}"}
    arguments = ', steps=300, config={"n_envs": 2, "algo_params": {"n_steps": 32}}'
    return {
        f"algos/{request.name}.py": fill_class("sampler.py", request),
        **config_file(request, config, "Trains the candidates of a super-network with this sampler."),
        **checks_test_file(request, checks_test("sampler", request, arguments)),
    }


def callback_files(request: Request) -> dict[str, str]:
    """Return the files of a callback."""
    check_free("callback", request.name)
    arguments = ', steps=300, config={"n_envs": 2, "algo_params": {"n_steps": 32}}'
    return {
        f"algos/{request.name}.py": fill_class("callback.py", request),
        **config_file(request, {"algo": "ppo", "callbacks": f"[{request.name}]"}, "Trains PPO with this callback."),
        **checks_test_file(request, checks_test("callback", request, arguments)),
    }


def strategy_files(request: Request) -> dict[str, str]:
    """Return the files of a strategy."""
    check_free("strategy", request.name)
    config = {"strategy": request.name, "strategy_params": "{share: 0.8}", "algo": "ppo"}
    arguments = ', steps=300, config={"n_envs": 2, "algo_params": {"n_steps": 32}}'
    return {
        f"algos/{request.name}.py": fill_class("strategy.py", request),
        **config_file(request, config, "Trains PPO with this strategy on the default task."),
        **checks_test_file(request, checks_test("strategy", request, arguments)),
    }
