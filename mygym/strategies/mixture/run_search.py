"""`search`: find the best path through the super-networks of a run; `network_of`: the config of its network alone."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.config.schema import PretrainedParams
from mygym.envs.arguments import checked_count, checked_seed
from mygym.errors import ConfigError, bad_value
from mygym.planning.strategies import JOIN, join_params, sections
from mygym.strategies.mixture.mixture import Mixture
from mygym.strategies.mixture.routing import PROTOCOLS
from mygym.training.directory import POLICY, find_policy
from mygym.training.env_factory import make_eval_envs
from mygym.training.evaluation import EVALUATION, episode_seeds, evaluate_policy
from mygym.training.files import check_new
from mygym.training.loading import load, plan_of_run, read_config
from mygym.training.result import Result

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
    from mygym.strategies.mixture.path_search import check_budget, search_paths
    from mygym.training.policy import save_policy

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


def network_of(run: str | Path) -> dict[str, Any]:
    """Return the config of a run with the network that its search has selected, in place of the super-network.

    Training this config trains the network alone, from random weights: `mygym.train(mygym.network_of(run))`. The
    config does not refer to the run. With `units: blocks`, or a number of candidates, all paths have the same network.

    Args:
        run: Path of a run that was trained with strategy `mixture` and a sampler; or of a file in a `mixture` run that
            `search` has written.

    Raises:
        ConfigError: The run has no path, or its observations select the networks.
        RunError: The file cannot be read.
    """
    folder, file = find_policy(run, "network_of")
    plan = plan_of_run(folder)
    mixture = next((strategy for strategy in plan.strategies if isinstance(strategy, Mixture)), None)
    why, allowed, path = "has no super-networks", "a finished run with strategy mixture and a sampler", []
    if mixture is not None and mixture.protocol == "single" and mixture.sampler is None:
        why = "needs all its networks, because observations select them"
    elif mixture is not None:
        why, path = "has no selected path", _selected_path(folder, file)
        allowed += f"; or the file of: mygym search {folder} --out {folder}/NAME.safetensors"
    if mixture is None or not path:
        raise ConfigError(bad_value("network_of", str(run), allowed, why))
    values = read_config(folder)
    kept = sections(plan.config.strategy, plan.config.strategy_params)
    remaining = {name: params for name, (_, params) in kept.items() if name != mixture.name}
    values |= {"strategy": JOIN.join(remaining) or "standard", "strategy_params": join_params(remaining)}
    values["pretrained"] = PretrainedParams().model_dump(mode="json")  # from random weights
    if isinstance(mixture.candidates, list):
        arch, kwargs = mixture.candidates[path[0]], dict(values["algo_params"].get("policy_kwargs", {}))
        if isinstance(arch, Mapping) and isinstance(known := kwargs.get("net_arch"), Mapping):
            # a network that the candidate does not name has no hidden layers
            arch = {**{name: [] for name in known}, **arch}
        values["algo_params"] = {**values["algo_params"], "policy_kwargs": {**kwargs, "net_arch": arch}}
    return values


def _selected_path(folder: Path, file: Path) -> list[int]:
    """Return the path that the search has selected: at the end of a run, or in a file; empty without a search."""
    from mygym.training.policy import read_policy

    if file == folder / POLICY:
        result = Result.read(folder)
        return list(result.strategy.get("mixture", {}).get("path", ())) if result else []
    if file.suffix != ".safetensors":
        return []
    tensors, _ = read_policy(file)
    is_single = PROTOCOLS[int(tensors["forward_state.number"])] == "single"
    return [int(candidate) for candidate in tensors["forward_state.path"].tolist()] if is_single else []
