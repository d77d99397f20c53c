"""Time of a forward pass of a mixture policy, with one active candidate, relative to the plain policy.

    python benchmarks/mixture.py > benchmarks/results/mixture.md

Both policies use the algorithm's defaults on `AGMDW`, which has five stages and therefore five candidates. A pass is
`policy._predict` without gradients: from observation tensors to actions, including features and routing. Both policies
are timed in turn, each time by the median of many passes. `path`: all rows use the same candidate, as after a path
search. `stage`: each row uses the candidate of the stage in its observation; all rows are in the same stage, as
for one robot. `mixed`: the same with rows in all stages, where five small passes replace a large pass.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from typing import Any

from mygym.training.result import versions_in_words

ALGORITHMS = ("ppo", "sac", "td3", "dagger")
ROWS = (1, 256)
PASSES = 400


def policy_of(algo: str, strategy: str, params: dict[str, Any]) -> tuple[Any, Any, slice]:
    """Return an untrained policy, an observation, and the position of the stage in it."""
    from mygym.planning.resolve import resolve_config
    from mygym.training import env_factory, model_factory

    values = {"algo": algo, "task": "AGMDW", "strategy": strategy, "strategy_params": params, "n_envs": 1, "her": False}
    config = resolve_config(overrides={**values, "normalize": False}).config
    env = env_factory.make_vec_env(config)
    try:
        model = model_factory.build_model(config, env)
        (components,) = env.get_attr("components", indices=[0])
        return model.policy, env.reset(), components["stage"]
    finally:
        env.close()


def rows_of(observation: Any, stage: slice, count: int, mixed: bool) -> dict[str, Any]:
    """Return `count` observations in the first stage, or (`mixed`) in all stages in turn."""
    import torch

    rows = {key: torch.as_tensor(array).repeat(count, 1) for key, array in observation.items() if key != "route"}
    stages = stage.stop - stage.start
    active = torch.arange(count) % (stages - 1) if mixed else torch.zeros(count, dtype=torch.long)
    rows["observation"][:, stage] = torch.eye(stages)[active]
    return rows


def microseconds(policy: Any, rows: Any) -> float:
    """Return the median time of a pass."""
    import torch

    policy.set_training_mode(False)
    times = []
    with torch.no_grad():
        for _ in range(PASSES):
            start = time.perf_counter()
            policy._predict(rows, deterministic=True)
            times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def compared(algo: str, by: str, count: int, repeats: int) -> list[tuple[float, float]]:
    """Return times of the plain policy and of the mixture, measured in turn."""
    params = {"by": "sampler", "candidates": 5} if by == "path" else {"by": "stage"}
    plain, observation, stage = policy_of(algo, "standard", {})
    mixture = policy_of(algo, "mixture", params)[0]
    rows = rows_of(observation, stage, count, mixed=by == "mixed")
    microseconds(plain, rows), microseconds(mixture, rows)
    pairs = []
    for number in range(repeats):
        sides = [plain, mixture] if number % 2 else [mixture, plain]
        times = {id(side): microseconds(side, rows) for side in sides}
        pairs.append((times[id(plain)], times[id(mixture)]))
    return pairs


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, help="pairs for each row (default 9)")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    print("# Forward pass of a mixture relative to the plain policy\n")
    print(
        f"Medians of {options.repeats} pairs (smallest to largest), each the median of {PASSES} passes; "
        "five candidates.\n"
    )
    print("| algorithm | rows | routed by | plain | mixture | mixture / plain |")
    print("|---|---|---|---|---|---|")
    for algo in ALGORITHMS:
        for count in ROWS:
            for by in ("path", "stage", "mixed") if count > 1 else ("path", "stage"):
                pairs = compared(algo, by, count, options.repeats)
                ratios = [mixture / plain for plain, mixture in pairs]
                times = [f"{statistics.median(side):.0f} µs" for side in zip(*pairs, strict=True)]
                spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                print(f"| `{algo}` | {count} | {by} | {times[0]} | {times[1]} | {spread} |", flush=True)
    packages = versions_in_words("torch", "stable-baselines3")
    print(f"\nMade by `python benchmarks/mixture.py`; Python {platform.python_version()}, {packages}, ", end="")
    print(f"{os.cpu_count()} cores of a shared machine, load {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
