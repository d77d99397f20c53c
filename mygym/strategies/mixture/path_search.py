"""`search`: find the best path of a trained super-network, within a budget of inference time."""

from __future__ import annotations

import contextlib
import statistics
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from mygym.envs.arguments import checked_arguments, checked_count, checked_seed
from mygym.errors import ConfigError, bad_value
from mygym.nested import map_arrays
from mygym.training.directory import find_policy
from mygym.training.env_factory import make_eval_envs
from mygym.training.evaluation import EVALUATION, Evaluation, episode_seeds, evaluate_policy
from mygym.training.files import check_new
from mygym.training.loading import load, plan_of_run
from mygym.training.policy import save_policy
from mygym.training.vec_wrappers import without_route

Method = Literal["random", "evolutionary"]
Candidates = tuple[int, ...]
"""A path: the candidate of each layer."""

PASSES = 51
"""Number of forward passes over which the median time is taken."""

ATTEMPTS = 50
"""Number of paths to draw for each path to evaluate; repeated and too slow paths are skipped."""


@dataclass(frozen=True)
class Tried:
    """Path that was evaluated."""

    path: Candidates
    microseconds: float
    """Median time of a forward pass with one observation."""
    success_rate: float
    mean_return: float


@checked_arguments
def search(
    run: str | Path,
    *,
    method: Method = "evolutionary",
    tries: int = 20,
    budget_us: float | None = None,
    episodes: int = 20,
    seed: int = 0,
    out: str | Path | None = None,
) -> list[Tried]:
    """Evaluate paths of a run that was trained with strategy `mixture`; the run itself is not changed.

    Args:
        run: Path of a run, or of a policy file in it.
        method: `random` or `evolutionary`; at most `tries` paths are all evaluated.
        tries: Number of paths to evaluate.
        budget_us: Upper limit for a forward pass with one observation on this machine, in microseconds.
        episodes: Episodes for each path, the same for all; no final evaluation uses them.
        seed: Seed of the paths and the episodes.
        out: A new file, `….safetensors`, in the run's folder, for the policy with the best path: `mygym.load` and
            `mygym.evaluate` accept it.

    Returns:
        The evaluated paths, the best first.

    Raises:
        ConfigError: The run has a single path, no path is within the budget, or `out` is not a new file.
        RunError: The policy cannot be loaded, or writing failed.
    """
    episodes, seed = checked_count(episodes, "episodes"), checked_seed(seed)
    folder, _ = find_policy(run)
    plan = plan_of_run(folder)
    if out is not None:
        out = Path(out).expanduser()
        if out.suffix != ".safetensors" or out.absolute().parent != folder.absolute():
            why = "is not a path from which a policy can be loaded"
            raise ConfigError(bad_value("out", str(out), f"a new file {folder / 'NAME.safetensors'}", why))
        check_new(out, "out", "a file")
    policy: Any = load(run)
    network = policy.model.policy
    layout = getattr(network, "layout", None)
    if layout is None or layout.by is not None:
        why = "needs all its candidates, because observations select them" if layout else "has no super-networks"
        allowed = "a run with strategy mixture, and by: sampler or a protocol other than single"
        raise ConfigError(bad_value("run", str(run), allowed, why))
    if budget_us is not None:
        check_budget(network, budget_us, "budget_us")
    with contextlib.ExitStack() as stack:
        envs = make_eval_envs(plan, stack, episodes)
        seeds = episode_seeds(seed, EVALUATION, episodes, env=envs[0])
        paths = search_paths(network, lambda: evaluate_policy(policy, envs, seeds), method, tries, budget_us, seed)
    if not paths:
        why = f"is less than the time of each of {tries} paths"
        raise ConfigError(bad_value("budget_us", budget_us, "a larger budget", why))
    if out is not None:
        save_policy(out, policy.model, policy.normalizer)
    return paths


def search_paths(
    policy: Any,
    judge: Callable[[], Evaluation],
    method: Method = "evolutionary",
    tries: int = 20,
    budget_us: float | None = None,
    seed: int = 0,
) -> list[Tried]:
    """Evaluate paths on episodes, with `judge`, and set the best path in `policy`, which has a `forward_state`.

    At most `tries` paths are all evaluated. Of more paths, `random` draws `tries`; `evolutionary` draws half
    of them and breeds the rest from the better half by crossover and mutation (SPOS, Guo et al., 2020). Paths whose
    forward pass takes longer than `budget_us` microseconds are not evaluated.

    Returns:
        The evaluated paths, best first, by success rate and then by return; empty if every path is too slow, in which
        case `policy` is unchanged.
    """
    state = policy.forward_state
    rng = np.random.default_rng(seed)
    evaluated: dict[Candidates, Tried] = {}
    known: set[Candidates] = set()
    old_path, old_protocol = state.path.tolist(), state.protocol

    def try_path(path: Candidates) -> None:
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
    """Raise `ConfigError` if the fastest candidate is too slow for the budget, whose config key is `key`."""
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
    times = timeit.repeat(lambda: policy._predict(observation, deterministic=True), repeat=PASSES, number=1)
    return 1e6 * statistics.median(times)


def _ranked(evaluated: dict[Candidates, Tried]) -> list[Tried]:
    return sorted(evaluated.values(), key=lambda tried: (-tried.success_rate, -tried.mean_return, tried.path))


def _random_path(state: Any, rng: np.random.Generator) -> Candidates:
    return tuple(rng.integers(state.candidates, size=state.layers).tolist())


def _child(ranked: list[Tried], candidates: int, rng: np.random.Generator) -> Candidates:
    """Return a child of two paths of the better half, with a single layer drawn again."""
    parents = ranked[: max(len(ranked) // 2, 2)]
    first, second = (parents[int(rng.integers(len(parents)))].path for _ in range(2))
    child = [pair[int(rng.integers(2))] for pair in zip(first, second, strict=True)]
    child[int(rng.integers(len(child)))] = int(rng.integers(candidates))
    return tuple(child)
