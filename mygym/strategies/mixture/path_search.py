"""Which path of a trained super-network is best, within a budget of inference time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces

from mygym.errors import ConfigError, bad_value
from mygym.runs.evaluation import Evaluation
from mygym.runs.routed_vec_env import without_route

Method = Literal["random", "evolutionary"]
Path = tuple[int, ...]

PASSES = 51
"""Forward passes of which the time is the median."""

ATTEMPTS = 50
"""Paths that are drawn for each that is tried: some are known already, or too slow."""


@dataclass(frozen=True)
class Tried:
    """A path that was judged."""

    path: Path
    microseconds: float
    """Median of a forward pass with one observation."""
    success_rate: float
    mean_return: float


def search_paths(
    policy: Any,
    judge: Callable[[], Evaluation],
    method: Method = "evolutionary",
    tries: int = 20,
    budget_us: float | None = None,
    seed: int = 0,
) -> list[Tried]:
    """Judge paths by episodes; `policy` passes the best one afterwards.

    If there are not more than `tries`, all are judged. Else `random` draws them; `evolutionary` draws half of them, and
    makes the others of the better half of those by crossover and mutation (SPOS, Guo et al., 2020).

    Args:
        policy: With a `forward_state`.
        judge: Plays episodes with it.
        method: See above.
        tries: How many paths are judged.
        budget_us: Most microseconds of a forward pass; slower paths are not judged.
        seed: Decides what is drawn.

    Returns:
        The best first, by success and then by return; empty if none is fast enough, and then all is as before.
    """
    state = policy.forward_state
    rng = np.random.default_rng(seed)
    judged: dict[Path, Tried] = {}
    known: set[Path] = set()
    before, protocol = state.path.tolist(), state.protocol

    def try_path(path: Path) -> None:
        known.add(path)
        state.set_forward_state("single", path=path)
        took = forward_microseconds(policy)
        if budget_us is None or took <= budget_us:
            evaluation = judge()
            judged[path] = Tried(path, took, evaluation.success_rate, evaluation.mean_return)

    if state.candidates**state.layers <= tries:
        for path in np.ndindex(*[state.candidates] * state.layers):
            try_path(path)
    else:
        for _ in range(ATTEMPTS * tries):
            if len(judged) == tries:
                break
            bred = method == "evolutionary" and len(judged) >= max(tries // 2, 2)
            drawn = _bred(_best(judged), state.candidates, rng) if bred else _drawn(state, rng)
            if drawn not in known:
                try_path(drawn)
    ranked = _best(judged)
    if ranked:
        state.set_forward_state("single", path=ranked[0].path)
    else:
        state.set_forward_state(protocol, path=before)
    return ranked


def check_budget(policy: Any, budget_us: float, key: str) -> None:
    """Refuse a budget, which the user calls `key`, that the fastest of the candidates is beyond.

    Raises:
        ConfigError: It is.
    """
    state = policy.forward_state
    before, protocol = state.path.tolist(), state.protocol
    taken = []
    for candidate in range(state.candidates):
        state.set_forward_state("single", path=[candidate] * state.layers)
        taken.append(forward_microseconds(policy))
    state.set_forward_state(protocol, path=before)
    if min(taken) > budget_us:
        why = "is less than the fastest of the candidates takes here"
        raise ConfigError(bad_value(key, budget_us, f"{min(taken):.0f} or more", why))


@torch.no_grad()
def forward_microseconds(policy: Any) -> float:
    """Median time of a forward pass with one observation, as the policy passes its networks now."""
    space = without_route(policy.observation_space)
    zeros = {key: np.zeros(part.shape, part.dtype) for key, part in _parts(space).items()}
    observation = policy.obs_to_tensor(zeros if isinstance(space, spaces.Dict) else zeros[""])[0]
    policy.set_training_mode(False)
    taken = []
    for _ in range(PASSES):
        begin = time.perf_counter()
        policy._predict(observation, deterministic=True)
        taken.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(taken)


def _parts(space: spaces.Space[Any]) -> dict[str, Any]:
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {"": space}


def _best(judged: dict[Path, Tried]) -> list[Tried]:
    return sorted(judged.values(), key=lambda one: (-one.success_rate, -one.mean_return, one.path))


def _drawn(state: Any, rng: np.random.Generator) -> Path:
    return tuple(rng.integers(state.candidates, size=state.layers).tolist())


def _bred(ranked: list[Tried], candidates: int, rng: np.random.Generator) -> Path:
    """A child of two of the better half, of which one layer or more is another."""
    parents = ranked[: max(len(ranked) // 2, 2)]
    one, other = (parents[int(rng.integers(len(parents)))].path for _ in range(2))
    child = [pair[int(rng.integers(2))] for pair in zip(one, other, strict=True)]
    child[int(rng.integers(len(child)))] = int(rng.integers(candidates))
    return tuple(child)
