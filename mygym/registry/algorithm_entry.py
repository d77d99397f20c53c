"""`Algorithm`, the registration of an algorithm in a framework."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mygym.registry.entries import resolve


@dataclass(frozen=True)
class Algorithm:
    """An algorithm in a framework."""

    name: str
    framework: str
    target: Any
    """The class or its import string `module:Class`."""
    policy: Any = "MultiInputPolicy"
    """First constructor argument: a policy name, a policy class, or its import string."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Constructor keyword arguments that differ from the defaults of the class."""
    run_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of the run's config (steps, n_envs, reward …) that this algorithm prefers."""
    stage_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values that it prefers for tasks of several stages, above `run_defaults`."""
    task_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Values that it prefers for named tasks, above `stage_defaults`; by the name of the task."""
    fused_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values that it prefers for the fused engine, above the others: its steps cost little."""
    fused_stage_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values that it prefers for the fused engine and tasks of several stages, above `fused_defaults`."""
    search_space: Mapping[str, Any] = field(default_factory=dict)
    """Hyperparameter → range of a sweep with `space: default`, e.g. `{"gamma": {"choice": [0.9, 0.95]}}`."""
    dict_observations: bool = True
    """Whether it takes goal dictionaries; otherwise it gets flat observations."""
    goal_relabelling: bool = False
    """Whether it takes hindsight replay (`her: true`)."""
    replaces_task_budget: bool = False
    """Whether its `steps` and `eval` replace the values of the task, which are meant for learning from rewards."""
    args: tuple[Any, ...] | None = None
    """Constructor arguments of the dictionary form (`implemented_combos`); None: `(policy, "env")`."""
    help: str = ""
    requires: tuple[str, ...] = ()
    """Requirements on the environment: names in `mygym.runs.planning.requirements`."""
    training_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Training parameters of a `Runner` that differ from the defaults in the signature of its `training`."""
    origin: str = ""
    """Place of the registration, `file:line`."""
    parent: str = ""
    """Algorithm from which this algorithm inherits; empty if it inherits nothing."""
    stated: Algorithm | None = None
    """The registration without inherited values; None if it inherits nothing."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Requirements on the environment and its observations, in words."""
        words = tuple(name.replace("_", " ") for name in self.requires)
        return words if self.dict_observations else (*words, "flat observations")

    def combo(self) -> tuple[type, tuple[Any, ...], dict[str, Any]]:
        """Return `(AlgoClass, args, kwargs)`; `"env"` or any environment in `args` stands for the run's environment."""
        wanted_by = f"algorithm {self.name!r} of framework {self.framework!r}"
        policy = self.policy
        if isinstance(policy, str) and ":" in policy:
            policy = resolve(policy, wanted_by)
        args = self.args if self.args is not None else (policy, "env")
        return resolve(self.target, wanted_by), args, copy.deepcopy(dict(self.defaults))
