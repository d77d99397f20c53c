"""`search(run)`: the best single path through a run's super-networks, within a budget of inference time."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from mygym.api import config_of, judging_envs, load
from mygym.errors import ConfigError, bad_value
from mygym.runs.directory import find_policy
from mygym.runs.evaluation import EVALUATION, episode_seeds, evaluate_policy, round_robin
from mygym.runs.files import check_new
from mygym.runs.policy import save_policy
from mygym.strategies.mixture.path_search import Method, Tried, check_budget, search_paths

__all__ = ["search"]


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
    """Judge paths of a run that was trained with strategy `mixture`; the run itself stays as it is.

    Args:
        run: Path of a run, or of a policy file in it.
        method: `random` or `evolutionary`; where there are not more paths than `tries`, all are judged.
        tries: How many paths are judged.
        budget_us: Most microseconds that a forward pass with one observation may take here.
        episodes: For each path; the same ones, which are of those that choose models and judge none.
        seed: Decides the paths and the episodes.
        out: A new file, `….safetensors`, in the run's folder, for the policy with the path that is best: `mygym.load`
            and `mygym.evaluate` take it.

    Returns:
        What was tried, the best first.

    Raises:
        ConfigError: The run has no paths to choose from, none is within the budget, or `out` is no new file.
        RunError: The policy cannot be loaded, or writing failed.
    """
    folder, _ = find_policy(run)
    config = config_of(folder)
    if out is not None:
        out = Path(out).expanduser()
        if out.suffix != ".safetensors" or out.absolute().parent != folder.absolute():
            why = "is not where a policy can be loaded from"
            raise ConfigError(bad_value("out", str(out), f"a new file {folder / 'NAME.safetensors'}", why))
        check_new(out, "out", "a file")
    policy: Any = load(run)
    network = policy.model.policy
    layout = getattr(network, "layout", None)
    if layout is None or layout.by is not None:
        why = "uses all of its candidates: observations select them" if layout else "has no super-networks"
        allowed = "a run with strategy mixture, and by: sampler or another protocol than single"
        raise ConfigError(bad_value("run", str(run), allowed, why))
    if budget_us is not None:
        check_budget(network, budget_us, "budget_us")
    with contextlib.ExitStack() as stack:
        envs = judging_envs(stack, config, episodes)
        seeds = round_robin(episode_seeds(seed, EVALUATION, episodes), envs[0])
        found = search_paths(network, lambda: evaluate_policy(policy, envs, seeds), method, tries, budget_us, seed)
    if not found:
        why = f"is less than any of {tries} paths takes here"
        raise ConfigError(bad_value("budget_us", budget_us, "a larger one", why))
    if out is not None:
        save_policy(out, policy.model, policy.normalizer)
    return found
