"""Time of checkpoints, and time until a resumed run trains again.

    python benchmarks/checkpoints.py > benchmarks/results/checkpoints.md

Cost: the default run's algorithm with a replay buffer of 1,000,000 random transitions. Then, in
turn: new random transitions for the default interval between checkpoints (not timed), some steps of training (timed),
and a checkpoint (timed; training waits for it, and for the disk). The share is the checkpoint's time relative to the
training time of a whole interval. The first checkpoint writes all transitions and is listed separately.

Resuming: `python train.py`, stopped by SIGTERM, then `python train.py --resume RUN`: the time from its launch, with
imports, until its first training episodes have ended, which is later than its first step.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from mygym.training.result import versions_in_words

ROOT = Path(__file__).resolve().parents[1]

TRANSITIONS = 1_000_000
STEPS = 2_000
"""Timed env steps of training between checkpoints; the time of an interval is extrapolated from them."""


def fill(model: Any, transitions: int, rng: np.random.Generator) -> None:
    """Add random transitions in episodes of 25 steps, and count them as env steps of the model."""
    buffer = model.replay_buffer
    n_envs = buffer.n_envs
    model.num_timesteps += transitions

    def observation() -> dict[str, Any]:
        return {key: rng.uniform(-1, 1, (n_envs, *shape)).astype(np.float32) for key, shape in buffer.obs_shape.items()}

    for row in range(transitions // n_envs):
        action = rng.uniform(-1, 1, (n_envs, buffer.action_dim)).astype(np.float32)
        done = np.full(n_envs, row % 25 == 24)
        buffer.add(observation(), observation(), action, -np.ones(n_envs), done, [{}] * n_envs)


def cost(her: bool, repeats: int) -> dict[str, Any]:
    """Measure checkpoints and training in seconds."""
    from mygym.planning.plan import plan_from_python
    from mygym.strategies.requirements import prepare_run
    from mygym.training import directory, env_factory, model_factory
    from mygym.training.result import Result
    from mygym.training.session import Session

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"steps": 10 * TRANSITIONS, "her": her, "algo_params": {"buffer_size": TRANSITIONS}}
        plan = plan_from_python({**settings, "logdir": folder, "stop_at_success": None})
        config = plan.config
        env = env_factory.make_vec_env(plan)
        model = model_factory.build_model(plan, env)
        run = directory.create(folder, "reach", config.robot, config.algo, "benchmark", 0)
        names = {name: getattr(config, name) for name in ("algo", "framework", "robot", "engine", "seed")}
        result = Result(path=run, task="reach", workspace="table", config_hash="", **names)
        session = Session(prepare_run(plan, env, model), env, model, [], result, time.perf_counter(), None, print)
        session.open_logs()
        session.divergence.init_callback(model)
        model.learn(STEPS)
        fill(model, TRANSITIONS, rng)
        written, per_step = [], []
        for _ in range(repeats + 1):
            fill(model, config.checkpoint.every, rng)
            start = time.perf_counter()
            model.learn(STEPS, reset_num_timesteps=False)
            trained = time.perf_counter()
            session.checkpointing.write()
            written.append(time.perf_counter() - trained)
            per_step.append((trained - start) / STEPS)
        env.close()
    interval = statistics.median(per_step) * config.checkpoint.every
    later = written[1:]
    return {
        "her": her,
        "first": written[0],
        "later": statistics.median(later),
        "worst": max(later),
        "interval": interval,
        "share": statistics.median(later) / interval,
    }


def resume(folder: Path, seed: int) -> float:
    """Return the seconds from the launch of a resumed default run to the end of its first episodes."""
    command = [sys.executable, str(ROOT / "train.py")]
    arguments = ["--seed", str(seed), "--logdir", str(folder), "--set", "stop_at_success=null"]
    process = subprocess.Popen(
        [*command, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.strip().startswith("2,000 steps"):
            break
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate()
    run = Path(out.splitlines()[-1].removeprefix("run: "))
    monitor = run / "monitor.csv"
    before = monitor.stat().st_size
    launched = time.perf_counter()
    resumed = subprocess.Popen([*command, "--resume", str(run)], cwd=ROOT, stderr=subprocess.DEVNULL)
    while monitor.stat().st_size <= before:
        time.sleep(0.005)
    seconds = time.perf_counter() - launched
    resumed.kill()
    resumed.wait()
    return seconds


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="checkpoints after the first, resumed runs (default 5)")
    options = parser.parse_args()
    print("# Cost of checkpoints\n")
    print(f"A replay buffer of {TRANSITIONS:,} transitions; medians of {options.repeats}.\n")
    print("| hindsight | first checkpoint | later checkpoints | slowest later | training between two | share |")
    print("|---|---|---|---|---|---|")
    for her in (True, False):
        row = cost(her, options.repeats)
        print(
            f"| {'yes' if her else 'no'} | {row['first']:.2f} s | {row['later']:.3f} s | {row['worst']:.3f} s "
            f"| {row['interval']:.1f} s | {row['share']:.2%} |",
            flush=True,
        )
    seconds = []
    for seed in range(options.repeats):
        with tempfile.TemporaryDirectory() as folder:
            seconds.append(resume(Path(folder), seed))
    print(
        f"\nFrom `python train.py --resume RUN` to the end of the first episodes after it, default run: median "
        f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}, {len(seconds)} runs).\n"
    )
    packages = versions_in_words("torch", "stable-baselines3", "pybullet")
    print(f"Made by `python benchmarks/checkpoints.py`; Python {platform.python_version()}, {packages}, ", end="")
    print(f"{os.cpu_count()} cores of a shared machine, load {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
