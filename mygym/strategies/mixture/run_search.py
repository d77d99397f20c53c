"""`search`: find the best path through the super-networks of a run, within a budget of inference time."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.envs.arguments import checked_count, checked_seed
from mygym.errors import ConfigError, bad_value
from mygym.runs.directory import find_policy
from mygym.runs.env_factory import make_eval_envs
from mygym.runs.evaluation import EVALUATION, episode_seeds, evaluate_policy, round_robin
from mygym.runs.files import check_new
from mygym.runs.loading import load, plan_of_run

if TYPE_CHECKING:
    from mygym.strategies.mixture.path_search import Method, Tried


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
    from mygym.runs.policy import save_policy
    from mygym.strategies.mixture.path_search import check_budget, search_paths

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
        seeds = round_robin(episode_seeds(seed, EVALUATION, episodes), envs[0])
        paths = search_paths(network, lambda: evaluate_policy(policy, envs, seeds), method, tries, budget_us, seed)
    if not paths:
        why = f"is less than the time of each of {tries} paths"
        raise ConfigError(bad_value("budget_us", budget_us, "a larger budget", why))
    if out is not None:
        save_policy(out, policy.model, policy.normalizer)
    return paths
