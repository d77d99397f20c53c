"""Load the config and the policy of a trained run."""

from __future__ import annotations

import contextlib
import shlex
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.envs.arguments import checked_arguments
from mygym.errors import ConfigError, RunError
from mygym.planning.plan import Config, RunPlan, make_plan, plan_from_python, plan_of
from mygym.registry import registry
from mygym.training import directory, env_factory, model_factory
from mygym.training.result import Result

if TYPE_CHECKING:
    from mygym.training.policy import Policy


def plan_of_run(run: str | Path) -> RunPlan:
    """Return the plan of a run; raise `ConfigError` if the path is not a run."""
    return make_plan(read_config(directory.find(run)))


def read_config(run: Path) -> dict[str, Any]:
    """Return the content of a run's config.yaml.

    Raises:
        ConfigError: The algorithm is not registered in this process; the message names the file that registered it.
    """
    values = directory.saved_config(run)
    algo = values.get("algo")
    if isinstance(algo, str) and algo not in registry("algorithm") and (result := Result.read(run)):
        file = Path(result.algo_source.rpartition(":")[0])
        if file.suffix == ".py" and not file.resolve().is_relative_to(run.resolve()):  # code in a run is not trusted
            remedy = f"{result.algo_source} registered it: add --import {shlex.quote(str(file))}"
            raise ConfigError(f"algo: {algo!r} is not registered; {remedy}")
    return values


def find_plan(source: Config | str | Path) -> RunPlan:
    """Return the plan of a config, or of the run at a path; raise `ConfigError` for a wrong config or path."""
    return plan_of_run(source) if isinstance(source, str | Path) else plan_from_python(source)


def is_saved_policy(policy: str | Path) -> bool:
    """Return whether `policy` is a path, of a run or its policy, and not the name of a built-in policy."""
    return str(policy) not in registry("policy").names() and Path(policy).exists()


@checked_arguments
def load(run: str | Path, *, trust: bool = False) -> Policy:
    """Return the policy of a run, with SB3's `predict(observation, deterministic=True) → (action, state)`.

    Reads `config.yaml` and `policy.safetensors`; nothing is unpickled.

    Args:
        run: A run directory; or a file in it: `best_policy.safetensors`, or an SB3 file such as `model.zip`.
        trust: Open an SB3 file of another machine or program, although the pickles in it can run any code.

    Raises:
        ConfigError: The path is not a run, or it is an SB3 file of unknown origin.
        RunError: The file is missing, damaged, or belongs to another network.
    """
    from mygym.training.policy import load_policy, open_model

    folder, file = directory.find_policy(run)
    plan = plan_of_run(folder)
    config, acting = plan.config, plan_of(model_factory.for_acting(plan))
    with contextlib.closing(env_factory.make_vec_env(acting)) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a rollout in a single environment; training has printed its warnings
        if file.suffix == ".zip":
            model_factory.use(config.framework, acting.config.device, config.threads)
            policy = open_model(file, model_factory.loadable(acting, env), trust, acting.config.device)
        else:
            policy = load_policy(file, model_factory.build_model(acting, env))
    policy.model.env = None  # acting does not need it, and it cannot be pickled
    if config.normalize != bool(policy.normalizer):
        has = "has a normaliser" if policy.normalizer else "has no normaliser"
        raise RunError(f"{file}: {has}, but {folder / directory.CONFIG} has normalize: {str(config.normalize).lower()}")
    return policy
