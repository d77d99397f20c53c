"""Conformance suite of predicates: functions of a batch, whose two conditions agree with each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mygym.checks.batches import Episode, arrays_of, demand_pure, expert_episode
from mygym.checks.stages import setting
from mygym.checks.suite import Check, demand
from mygym.registry import registry
from mygym.tasks.context import StageContext
from mygym.tasks.episode import EpisodeContext

STAGE = "move"
"""Stage of the episode in which predicates are checked that no stage gives."""


def predicate_checks(name: str) -> Iterator[Check]:
    """Yield the checks of a predicate, in an expert's episode of a stage that gives it."""
    episodes: list[Episode] = []

    def plays() -> str:
        stage = giving_stage(name)
        episodes.append(expert_episode(setting(stage or STAGE)))
        return f"in {stage}" if stage else f"in {STAGE}, as no stage gives it"

    yield Check("loads", lambda: _has_conditions(name))
    yield Check("episode", plays, needs=("loads",))
    yield Check("pure functions", lambda: _is_pure(name, episodes[0]), needs=("episode",))
    yield Check("keeps holding", lambda: _keeps(name, episodes[0]), needs=("pure functions",))
    yield Check("excludes", lambda: _excludes(name, episodes[0]), needs=("pure functions",))


def giving_stage(name: str) -> str | None:
    """Return a stage that gives a predicate, preferably a built-in stage; None if no stage gives it."""
    stages = [(not entry.built_in, entry.name) for entry in registry("stage") if name in entry.load().gives]
    return min(stages)[1] if stages else None


def _load(name: str) -> Any:
    return registry("predicate").get(name).load()


def _has_conditions(name: str) -> None:
    predicate = _load(name)
    for condition in ("begins", "keeps"):
        demand(callable(getattr(predicate, condition, None)), f"{condition} is no function")
    demand(predicate.help, "has no help: write a docstring")


def _contexts(episode: Episode) -> tuple[StageContext, list[StageContext]]:
    """Return the states as the last stage sees them: as a batch, and each as a batch of 1."""
    bound = episode.contexts[0].task.stage_bindings[-1]

    def seen(context: EpisodeContext) -> StageContext:
        return StageContext(context.state, context.progress, context.goals, bound)

    return seen(episode.batch), [seen(context) for context in episode.contexts]


def _is_pure(name: str, episode: Episode) -> str:
    predicate, (batch, singles) = _load(name), _contexts(episode)
    arrays = [*arrays_of(batch.state), *arrays_of(batch.progress), batch.goals]
    shares = []
    for condition in ("begins", "keeps"):
        result = demand_pure(condition, getattr(predicate, condition), batch, singles, arrays, exact=True)
        demand(result.dtype == bool, f"{condition} gives {result.dtype}, not bool")
        demand(result.shape == (len(singles),), f"{condition} has shape {result.shape}, not {(len(singles),)}")
        shares.append(f"{condition} in {result.mean():.0%} of the states")
    return ", ".join(shares)


def _keeps(name: str, episode: Episode) -> None:
    """A predicate keeps holding in every state in which it begins to hold; else it would be lost in the next step."""
    predicate, (batch, _) = _load(name), _contexts(episode)
    begins, keeps = np.asarray(predicate.begins(batch)), np.asarray(predicate.keeps(batch))
    lost = int((begins & ~keeps).sum())
    demand(lost == 0, f"begins to hold in {lost} states in which it does not keep holding")


def _excludes(name: str, episode: Episode) -> None:
    """Predicates that exclude each other do not begin to hold together."""
    predicate, (batch, _) = _load(name), _contexts(episode)
    begins = np.asarray(predicate.begins(batch))
    for other in getattr(predicate, "excludes", ()):
        both = int((begins & np.asarray(_load(other).begins(batch))).sum())
        demand(both == 0, f"excludes {other}, but both begin to hold in {both} states")
