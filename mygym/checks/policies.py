"""Conformance suite of policies, with and without training."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mygym import api
from mygym.checks.algorithms import Subject
from mygym.checks.suite import Check, demand
from mygym.config import merged
from mygym.errors import RegistryError, bad_value
from mygym.registry import registry
from mygym.training.evaluation import evaluate_policy

EPISODES = 8


def policy_checks(name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]) -> Iterator[Check]:
    """Yield the checks of a policy.

    Args:
        name: Name of the policy.
        framework: Framework of a policy that is trained.
        steps: Env steps of a training.
        folder: Folder for the runs.
        config: Further config values of the runs; `algo` is the algorithm that trains the policy.
    """
    entry = registry("policy").get(name)
    if not entry.frameworks and not isinstance(entry.load(), Mapping):
        yield from _acting_checks(entry.load())
        return
    chosen = {"algo": trainer(entry.load_for(framework), framework), "algo_params": {"policy": name}}
    complete = merged(chosen, config)
    subject = Subject(complete["algo"], framework, steps, folder, complete)
    yield Check("constructs", subject.constructs)
    yield Check("honest requirements", subject.meets_its_registration, needs=("constructs",))
    yield Check("trains", subject.trains, needs=("honest requirements",))
    yield Check("save and load", subject.saves_and_loads, needs=("trains",))
    yield Check("result and config", subject.records_everything, needs=("trains",))
    yield Check("deterministic", subject.repeats_exactly, needs=("trains",))


def trainer(policy: Any, framework: str) -> str:
    """Return the algorithm whose policy is the nearest base class of a policy class; `ppo` of several algorithms.

    Raises:
        RegistryError: No algorithm has a policy that is a base class.
    """
    candidates: list[tuple[int, bool, str]] = []
    for entry in registry("algorithm"):
        try:
            cls = entry.load_for(framework).combo()[0]
        except RegistryError:  # not in this framework, or its package is missing
            continue
        bases = [base for base in set(cls.policy_aliases.values()) if base in policy.__mro__]
        if bases:
            candidates.append((min(map(policy.__mro__.index, bases)), entry.name != "ppo", entry.name))
    if not candidates:
        allowed = f"a subclass of a policy of an algorithm of {framework}"
        raise RegistryError(bad_value("policy", policy.__name__, allowed, "has no algorithm that trains it"))
    return min(candidates)[2]


def _acting_checks(cls: Any) -> Iterator[Check]:
    def acts() -> None:
        envs = [api.make_env({}) for _ in range(2)]
        try:
            policy = cls(envs, 0)
            singles: list[Any] = [env.reset(seed=seed)[0] for seed, env in enumerate(envs)]
            observation = {key: np.stack([single[key] for single in singles]) for key in singles[0]}
            before = copy.deepcopy(observation)
            actions, _ = policy.predict(observation, None, np.ones(2, dtype=bool), deterministic=True)
            shape, space = (2, *(envs[0].action_space.shape or ())), envs[0].action_space
            demand(np.shape(actions) == shape, f"predict gives actions of shape {np.shape(actions)}, not {shape}")
            for action in actions:
                demand(space.contains(action), f"predict gives {action!r}, not in {space}")
            same = all(np.array_equal(before[key], observation[key]) for key in before)
            demand(same, "predict changes the observation that it gets")
        finally:
            for env in envs:
                env.close()

    def repeats_exactly() -> None:
        evaluations = []
        envs = [api.make_env({}) for _ in range(4)]
        try:
            for _ in range(2):
                evaluations.append(evaluate_policy(cls(envs, 7), envs, list(range(EPISODES))))  # noqa: PERF401
        finally:
            for env in envs:
                env.close()
        demand(evaluations[0] == evaluations[1], "the same seed gives other episodes the second time")

    yield Check("acts", acts)
    yield Check("deterministic", repeats_exactly, needs=("acts",))
