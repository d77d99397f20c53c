"""Search for the best path of a trained super-network, within a budget of inference time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from mygym.errors import ConfigError, bad_value
from mygym.nested import map_arrays
from mygym.training.evaluation import Evaluation
from mygym.training.vec_wrappers import without_route

Method = Literal["random", "evolutionary"]
Path = tuple[int, ...]

PASSES = 51
"""Number of forward passes over which the median time is taken."""

ATTEMPTS = 50
"""Number of paths to draw for each path to evaluate; repeated and too slow paths are skipped."""


@dataclass(frozen=True)
class Tried:
    """Path that was evaluated."""

    path: Path
    microseconds: float
    """Median time of a forward pass with one observation."""
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
    """Evaluate paths on episodes and set the best path in `policy`.

    At most `tries` paths are all evaluated. Of more paths, `random` draws `tries`; `evolutionary` draws half
    of them and breeds the rest from the better half by crossover and mutation (SPOS, Guo et al., 2020).

    Args:
        policy: Policy with a `forward_state`.
        judge: Evaluates `policy` on episodes.
        method: `random` or `evolutionary`.
        tries: Number of paths to evaluate.
        budget_us: Longest forward pass in microseconds; slower paths are not evaluated. None: no limit.
        seed: Seed of the drawn paths.

    Returns:
        The evaluated paths, best first, by success rate and then by return; empty if every path is too slow, in which
        case `policy` is unchanged.
    """
    state = policy.forward_state
    rng = np.random.default_rng(seed)
    evaluated: dict[Path, Tried] = {}
    known: set[Path] = set()
    old_path, old_protocol = state.path.tolist(), state.protocol

    def try_path(path: Path) -> None:
        known.add(path)
        state.set_forward_state("single", path=path)
        microseconds = forward_microseconds(policy)
        if budget_us is None or microseconds <= budget_us:
            evaluation = judge()
            evaluated[path] = Tried(path, microseconds, evaluation.success_rate, evaluation.mean_return)

    if state.candidates**state.layers <= tries:
        for path in np.ndindex(*[state.candidates] * state.layers):
            try_path(path)
    else:
        for _ in range(ATTEMPTS * tries):
            if len(evaluated) == tries:
                break
            breed = method == "evolutionary" and len(evaluated) >= max(tries // 2, 2)
            path = _child(_ranked(evaluated), state.candidates, rng) if breed else _random_path(state, rng)
            if path not in known:
                try_path(path)
    ranked = _ranked(evaluated)
    if ranked:
        state.set_forward_state("single", path=ranked[0].path)
    else:
        state.set_forward_state(old_protocol, path=old_path)
    return ranked


def check_budget(policy: Any, budget_us: float, key: str) -> None:
    """Check that the fastest candidate is within the budget; `key` is the config key of the budget.

    Raises:
        ConfigError: Every candidate is too slow.
    """
    state = policy.forward_state
    old_path, old_protocol = state.path.tolist(), state.protocol
    times = []
    for candidate in range(state.candidates):
        state.set_forward_state("single", path=[candidate] * state.layers)
        times.append(forward_microseconds(policy))
    state.set_forward_state(old_protocol, path=old_path)
    if min(times) > budget_us:
        why = "is less than the fastest candidate needs on this machine"
        raise ConfigError(bad_value(key, budget_us, f"{min(times):.0f} or more", why))


@torch.no_grad()
def forward_microseconds(policy: Any) -> float:
    """Return the median time of a forward pass with one observation, with the current forward state."""
    space = without_route(policy.observation_space)
    zeros = map_arrays(lambda subspace: np.zeros(subspace.shape, subspace.dtype), space)  # a `Dict` is a mapping
    observation = policy.obs_to_tensor(zeros)[0]
    policy.set_training_mode(False)
    times = []
    for _ in range(PASSES):
        start = time.perf_counter()
        policy._predict(observation, deterministic=True)
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def _ranked(evaluated: dict[Path, Tried]) -> list[Tried]:
    return sorted(evaluated.values(), key=lambda tried: (-tried.success_rate, -tried.mean_return, tried.path))


def _random_path(state: Any, rng: np.random.Generator) -> Path:
    return tuple(rng.integers(state.candidates, size=state.layers).tolist())


def _child(ranked: list[Tried], candidates: int, rng: np.random.Generator) -> Path:
    """Return a child of two paths of the better half, with a single layer drawn again."""
    parents = ranked[: max(len(ranked) // 2, 2)]
    first, second = (parents[int(rng.integers(len(parents)))].path for _ in range(2))
    child = [pair[int(rng.integers(2))] for pair in zip(first, second, strict=True)]
    child[int(rng.integers(len(child)))] = int(rng.integers(candidates))
    return tuple(child)
