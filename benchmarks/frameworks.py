"""Training steps per second of one algorithm in PyTorch and in JAX, with default settings, on one core.

    python benchmarks/frameworks.py > benchmarks/results/frameworks.md

Both are built from the default settings in a process that is bound to one core, and learn in turn. A round is a number
of environment steps in one framework, then in the other. The rate covers all of `learn` (environments, replay buffer,
gradient steps), without evaluations, checkpoints and logs. Both make the same number of gradient steps per environment
step, with batches and networks of the same size; the program checks this. The number of gradient steps at a time is
the default of each framework. Columns: environment steps/s by wall time, median and range over rounds; the same by
processor time, which excludes waiting on a busy machine; and the start: extra processor time of the first steps
relative to later steps, with compiling, without imports.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

FRAMEWORKS = ("pytorch", "jax")
WARM_UP = 100
"""Env steps with training before the first round."""


@dataclass(frozen=True)
class Timing:
    """Time of a number of environment steps."""

    steps: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        """Env steps/s by wall time."""
        return self.steps / self.seconds

    @property
    def rate_cpu(self) -> float:
        """Env steps per second of processor time."""
        return self.steps / self.cpu


def build(algo: str, framework: str) -> Any:
    """Build the model with default settings and environments."""
    from mygym.planning.resolve import from_python
    from mygym.training import env_factory, model_factory

    config = from_python({"algo": algo, "framework": framework, "steps": 1_000_000}).config
    return model_factory.build_model(config, env_factory.make_vec_env(config))


def learn(model: Any, steps: int) -> Timing:
    """Time at least `steps` further env steps."""
    before, cpu, start = model.num_timesteps, time.process_time(), time.perf_counter()
    model.learn(steps, reset_num_timesteps=not before)
    return Timing(model.num_timesteps - before, time.perf_counter() - start, time.process_time() - cpu)


def work(model: Any) -> dict[str, Any]:
    """Return the amount of work per env step."""
    from mygym.training.policy import parameter_counts

    counts = parameter_counts(model)
    critics = ("critic", "qf", "qf1", "qf2")
    per_step = model.gradient_steps / (model.train_freq.frequency * model.n_envs)
    return {
        "environments": model.n_envs,
        "gradient steps per env step": per_step,
        "batch": model.batch_size,
        "parameters of the actor": counts["actor"],
        "parameters of the critics": sum(counts.get(name, 0) for name in critics),
    }


def row(framework: str, model: Any, first: Timing, rounds: list[Timing]) -> str:
    """Return a table row."""
    rates, cpu = [timing.rate for timing in rounds], [timing.rate_cpu for timing in rounds]
    start = first.cpu - (first.steps - model.learning_starts) / statistics.median(cpu)
    return (
        f"| {framework} | {model.gradient_steps} in {model.train_freq.frequency * model.n_envs} env steps "
        f"| **{statistics.median(rates):.0f}** | {min(rates):.0f}–{max(rates):.0f} "
        f"| {statistics.median(cpu):.0f} | {min(cpu):.0f}–{max(cpu):.0f} | {start:.1f} |"
    )


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", default="sac", help="off-policy, in both frameworks (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each framework (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=2000, help="env steps in a round (default: %(default)s)")
    parser.add_argument("--core", type=int, default=0, help="core to bind to (default: %(default)s)")
    arguments = parser.parse_args()

    os.sched_setaffinity(0, {arguments.core})  # before libraries count the cores
    models = {framework: build(arguments.algo, framework) for framework in FRAMEWORKS}
    both = [work(model) for model in models.values()]
    if both[0] != both[1]:
        raise SystemExit(f"the frameworks do different work: {both[0]}, {both[1]}")
    first = {framework: learn(model, model.learning_starts + WARM_UP) for framework, model in models.items()}
    rounds: dict[str, list[Timing]] = {framework: [] for framework in FRAMEWORKS}
    for number in range(arguments.rounds):
        for framework, model in models.items():
            rounds[framework].append(learn(model, arguments.steps))
        print(number, {key: round(timings[-1].rate) for key, timings in rounds.items()}, file=sys.stderr)
    pairs = list(zip(rounds["jax"], rounds["pytorch"], strict=True))
    ratios = [jax.rate / torch.rate for jax, torch in pairs]
    by_cpu = [jax.rate_cpu / torch.rate_cpu for jax, torch in pairs]
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "stable-baselines3", "jax", "sbx-rl"))
    description = ", ".join(f"{key} {value:,}" for key, value in both[0].items())
    command = f"python benchmarks/frameworks.py --algo {arguments.algo} --rounds {arguments.rounds}"
    load = f"one of {os.cpu_count()} cores of a shared machine, load average {os.getloadavg()[1]:.1f} at the end"
    lines = [
        f"# {arguments.algo} in PyTorch and in JAX: reach, with default settings, on one core",
        "",
        f"`{command} --steps {arguments.steps}`; Python {platform.python_version()}, {platform.machine()}, {versions}, "
        f"{load}.",
        "The docstring of the program explains the columns.",
        "",
        f"The same work for both: {description}.",
        "",
        "| framework | gradient steps at a time | env steps/s, median | range | by processor time | range | start, s |",
        "|---|---|---|---|---|---|---|",
        *(row(framework, model, first[framework], rounds[framework]) for framework, model in models.items()),
        "",
        f"JAX over PyTorch within a round: **{statistics.median(ratios):.2f}** ({min(ratios):.2f}–{max(ratios):.2f}), "
        f"by processor time {statistics.median(by_cpu):.2f} ({min(by_cpu):.2f}–{max(by_cpu):.2f}).",
    ]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
