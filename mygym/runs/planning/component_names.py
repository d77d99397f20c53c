"""Check of the names of components in a config, without their combinations."""

from __future__ import annotations

from collections.abc import Sequence

from mygym.config import RunConfig
from mygym.envs.randomizers import ranges
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.runs.callbacks import check_callbacks
from mygym.runs.planning.strategies import JOIN
from mygym.tasks.lookup import find_task
from mygym.tasks.rewards import find_reward


def check_names(config: RunConfig) -> None:
    """Refuse unknown names.

    Raises:
        ConfigError: A task, a framework, a callback or a randomizer is unknown or invalid.
        RegistryError: Another name is unknown.
    """
    find_task(config.task)
    find_reward(config.reward)
    registry("algorithm").get(config.algo, "algo")
    frameworks = {name for entry in registry("algorithm") for name in entry.frameworks}
    if config.framework not in frameworks:
        raise ConfigError(bad_value("framework", config.framework, sorted(frameworks)))
    params = config.task_params
    objects: dict[str, Sequence[str]] = {"object": [params.object] if params.object else []}
    objects |= {
        f"objects.{role}": [drawn] if isinstance(drawn, str) else drawn for role, drawn in params.objects.items()
    }
    objects |= {f"distractors.{n}": each.objects for n, each in enumerate(params.distractors or ())}
    names = [
        ("robot", "robot", config.robot),
        ("workspace", "workspace", config.workspace),
        ("controller", "control", config.control.name),
        *(("observation", "observations", name.partition(":")[0]) for name in config.observations or ()),
        *(("observation", "critic_observations", name) for name in config.critic_observations or ()),
        *(("strategy", "strategy", name) for name in config.strategy.split(JOIN)),
        *(("object", f"task_params.{key}", name) for key, drawn in objects.items() for name in drawn),
    ]
    for kind, key, name in names:
        if name is not None:
            registry(kind).get(name, key)
    ranges(config.randomize)
    check_callbacks(config.callbacks)
