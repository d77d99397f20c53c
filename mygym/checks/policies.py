"""The conformance suite of policies: those that algorithms train, and those that act without training."""

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
from mygym.runs.evaluation import evaluate_policy

EPISODES = 8


def policy_checks(name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]) -> Iterator[Check]:
    """The suite of one policy.

    Args:
        name: Of the policy.
        framework: Of one that is trained.
        steps: Env steps of a training.
        folder: For runs.
        config: Further values of the run's config; `algo` decides who trains it.
    """
    entry = registry("policy").get(name)
    if not entry.frameworks and not isinstance(entry.load(), Mapping):
        yield from _acting_checks(entry.load())
        return
    chosen = {"algo": trainer(entry.load_for(framework), framework), "algo_params": {"policy": name}}
    said = merged(chosen, config)
    subject = Subject(said["algo"], framework, steps, folder, said)
    yield Check("constructs", subject.constructs)
    yield Check("honest requirements", subject.is_honest, needs=("constructs",))
    yield Check("trains", subject.trains, needs=("honest requirements",))
    yield Check("save and load", subject.saves_and_loads, needs=("trains",))
    yield Check("result and config", subject.tells_everything, needs=("trains",))
    yield Check("deterministic", subject.repeats_itself, needs=("trains",))


def trainer(policy: Any, framework: str) -> str:
    """The algorithm that takes a policy class: whose own policies it inherits from most closely, ppo of several.

    Raises:
        RegistryError: There is none.
    """
    found: list[tuple[int, bool, str]] = []
    for entry in registry("algorithm"):
        try:
            cls = entry.load_for(framework).combo()[0]
        except RegistryError:  # not in this framework, or its package is missing
            continue
        steps = [policy.__mro__.index(own) for own in set(cls.policy_aliases.values()) if own in policy.__mro__]
        if steps:
            found.append((min(steps), entry.name != "ppo", entry.name))
    if not found:
        allowed = f"a subclass of a policy of an algorithm of {framework}"
        raise RegistryError(bad_value("policy", policy.__name__, allowed, "is of no kind that an algorithm trains"))
    return min(found)[2]


def _acting_checks(cls: Any) -> Iterator[Check]:
    def acts() -> None:
        envs = [api.make_env({}) for _ in range(2)]
        try:
            policy = cls(envs, 0)
            first: list[Any] = [env.reset(seed=seed)[0] for seed, env in enumerate(envs)]
            observation = {key: np.stack([one[key] for one in first]) for key in first[0]}
            before = copy.deepcopy(observation)
            actions, _ = policy.predict(observation, None, np.ones(2, dtype=bool), deterministic=True)
            wanted = (2, *(envs[0].action_space.shape or ()))
            demand(np.shape(actions) == wanted, f"predict gives actions of shape {np.shape(actions)}, not {wanted}")
            for action in actions:
                demand(
                    envs[0].action_space.contains(action), f"predict gives {action!r}, not in {envs[0].action_space}"
                )
            same = all(np.array_equal(before[key], observation[key]) for key in before)
            demand(same, "predict changes the observation that it is given")
        finally:
            for env in envs:
                env.close()

    def repeats_itself() -> None:
        judged = []
        envs = [api.make_env({}) for _ in range(4)]
        try:
            for _ in range(2):
                judged.append(evaluate_policy(cls(envs, 7), envs, list(range(EPISODES))))  # noqa: PERF401
        finally:
            for env in envs:
                env.close()
        demand(judged[0] == judged[1], "the same seed gives other episodes the second time")

    yield Check("acts", acts)
    yield Check("deterministic", repeats_itself, needs=("acts",))
