"""What a forward pass of a policy with experts costs over that of the plain policy, one expert being active.

    python benchmarks/experts.py > benchmarks/results/experts.md

Both policies are those of the algorithm's defaults on `AGMDW`, which has five stages and so five experts. A pass is
`policy._predict` without gradients: from the observation as tensors to the action, features and routing included. Both
sides are timed in turn, the median of many passes each time. `path`: all rows pass the same expert, as a run acts
whose path a search has found. `stage`: each row passes the expert of the stage in its observation; here all rows are in
the same stage, as one robot's are. `mixed` is the same with rows in all stages, where five small passes replace a
large one.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from importlib.metadata import version
from typing import Any

ALGORITHMS = ("ppo", "sac", "td3", "dagger")
ROWS = (1, 256)
PASSES = 400


def policy_of(algo: str, strategy: str, params: dict[str, Any]) -> tuple[Any, Any, slice]:
    """A policy that has learned nothing, an observation of its environment, and where in it the stage is."""
    from mygym.runs import factory
    from mygym.runs.resolve_config import resolve_config

    said = {"algo": algo, "task": "AGMDW", "strategy": strategy, "strategy_params": params, "n_envs": 1, "her": False}
    config = resolve_config(overrides={**said, "normalize": False}).config
    env = factory.make_vec_env(config)
    try:
        model = factory.build_model(config, env)
        (components,) = env.get_attr("components", indices=[0])
        return model.policy, env.reset(), components["stage"]
    finally:
        env.close()


def rows_of(observation: Any, stage: slice, count: int, mixed: bool) -> dict[str, Any]:
    """`count` observations in the first stage, or in all in turn."""
    import torch

    rows = {key: torch.as_tensor(part).repeat(count, 1) for key, part in observation.items() if key != "route"}
    stages = stage.stop - stage.start
    active = torch.arange(count) % (stages - 1) if mixed else torch.zeros(count, dtype=torch.long)
    rows["observation"][:, stage] = torch.eye(stages)[active]
    return rows


def microseconds(policy: Any, rows: Any) -> float:
    """Median time of a pass."""
    import torch

    policy.set_training_mode(False)
    taken = []
    with torch.no_grad():
        for _ in range(PASSES):
            begin = time.perf_counter()
            policy._predict(rows, deterministic=True)
            taken.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(taken)


def compared(algo: str, by: str, count: int, repeats: int) -> list[tuple[float, float]]:
    """Times of the plain policy and of that with experts, in turn."""
    params = {"by": "sampler", "candidates": 5} if by == "path" else {"by": "stage"}
    plain, observation, stage = policy_of(algo, "standard", {})
    experts = policy_of(algo, "experts", params)[0]
    rows = rows_of(observation, stage, count, mixed=by == "mixed")
    microseconds(plain, rows), microseconds(experts, rows)
    pairs = []
    for number in range(repeats):
        sides = [plain, experts] if number % 2 else [experts, plain]
        times = {id(side): microseconds(side, rows) for side in sides}
        pairs.append((times[id(plain)], times[id(experts)]))
    return pairs


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, help="pairs for each row (default 9)")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    print("# What a forward pass with experts costs over the plain policy\n")
    print(
        f"Medians of {options.repeats} pairs (smallest to largest), each the median of {PASSES} passes; five experts.\n"
    )
    print("| algorithm | rows | routed by | plain | experts | experts / plain |")
    print("|---|---|---|---|---|---|")
    for algo in ALGORITHMS:
        for count in ROWS:
            for by in ("path", "stage", "mixed") if count > 1 else ("path", "stage"):
                pairs = compared(algo, by, count, options.repeats)
                ratios = [experts / plain for plain, experts in pairs]
                times = [f"{statistics.median(side):.0f} µs" for side in zip(*pairs, strict=True)]
                spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                print(f"| `{algo}` | {count} | {by} | {times[0]} | {times[1]} | {spread} |", flush=True)
    packages = ", ".join(f"{package} {version(package)}" for package in ("torch", "stable-baselines3"))
    print(f"\nMade by `python benchmarks/experts.py`; Python {platform.python_version()}, {packages}, ", end="")
    print(f"{os.cpu_count()} cores of a shared machine, load {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
