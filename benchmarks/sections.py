"""Shares of the time of a run: environments, replay memory, gradient steps, policy, evaluations, and all else.

    python benchmarks/sections.py > benchmarks/results/sections.md

Each run is a separate process with one thread and no worker processes. Timers around the methods of Stable-Baselines3
and mygym count each moment once: the time of an inner section is no part of the outer one. The time is that of
`learn`, with logs and checkpoints, without the evaluations before the first step and at the end.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

RUNS: dict[str, dict[str, Any]] = {
    "ppo, pick_and_place, shaped": {"task": "pick_and_place", "algo": "ppo", "steps": 40_960},
    "ppo, push, shaped": {"task": "push", "algo": "ppo", "steps": 40_960},
    "sac, reach": {"task": "reach", "algo": "sac", "steps": 5_000},
    "sac, push, sparse, hindsight": {"task": "push", "algo": "sac", "steps": 5_000, "reward": "sparse", "her": True},
    "tqc, pick_and_place, sparse, hindsight": {
        "task": "pick_and_place",
        "algo": "tqc",
        "steps": 5_000,
        "reward": "sparse",
        "her": True,
    },
}
SECTIONS = ("environments", "replay", "gradient steps", "policy", "evaluations", "all else")


class Sections:
    """Seconds of each section; the innermost open section gets the time."""

    def __init__(self) -> None:
        self._open = [SECTIONS[-1]]
        self.begin()

    def begin(self) -> None:
        """Set all sections to zero."""
        self.seconds = dict.fromkeys(SECTIONS, 0.0)
        self._since = time.perf_counter()

    def count(self) -> None:
        """Add the time since the last call to the open section."""
        now = time.perf_counter()
        self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def around(self, cls: type, method: str, section: str) -> None:
        """Replace a method by itself with a timer."""
        function: Callable[..., Any] = getattr(cls, method)

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self.count()
            self._open.append(section)
            try:
                return function(*args, **kwargs)
            finally:
                self.count()
                self._open.pop()

        setattr(cls, method, timed)


def measure(name: str) -> dict[str, float]:
    """Train a run of `RUNS`; return env steps, seconds and the seconds of each section."""
    import stable_baselines3.common.buffers as buffers
    from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
    from stable_baselines3.common.vec_env import DummyVecEnv
    from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

    import mygym
    from mygym.registry import algorithm
    from mygym.runs.evaluation_callback import EvaluationCallback

    config = RUNS[name]
    cls: Any = algorithm(config["algo"], "pytorch").combo()[0]
    sections = Sections()
    sections.around(DummyVecEnv, "step_wait", "environments")
    for buffer in (buffers.ReplayBuffer, buffers.DictReplayBuffer, HerReplayBuffer):
        sections.around(buffer, "add", "replay")
        sections.around(buffer, "sample", "replay")
    sections.around(cls, "train", "gradient steps")
    sections.around(BasePolicy, "predict", "policy")  # off-policy
    sections.around(ActorCriticPolicy, "forward", "policy")  # on-policy
    sections.around(EvaluationCallback, "evaluate_at_mark", "evaluations")
    learn, seconds = cls.learn, {}

    def timed_learn(*args: Any, **kwargs: Any) -> Any:
        sections.begin()
        model = learn(*args, **kwargs)
        sections.count()
        seconds.update(sections.seconds)
        return model

    cls.learn = timed_learn
    quiet = {"every": 10**9, "episodes": 1, "final_episodes": 1}
    with tempfile.TemporaryDirectory() as logdir:
        settings = {**config, "subprocesses": 0, "stop_at_success": None, "eval": quiet, "video": {"episodes": 0}}
        result = mygym.train({**settings, "logdir": logdir})
    return {"steps": result.steps, **seconds}


def main() -> None:
    """Measure each run in a separate process and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", choices=RUNS, help="measure this run only, and print JSON")
    name = parser.parse_args().run
    if name:
        print(json.dumps(measure(name)))
        return
    print("# Shares of the time of a run\n\n`python benchmarks/sections.py`; one thread, the default networks.\n")
    print(f"| run | env steps/s | {' | '.join(f'{section}, %' for section in SECTIONS)} |")
    print("|---" * (len(SECTIONS) + 2) + "|")
    for name in RUNS:
        command = [sys.executable, __file__, "--run", name]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        output = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        figures = json.loads(output.stdout.splitlines()[-1])
        seconds = sum(figures[section] for section in SECTIONS)
        shares = " | ".join(f"{100 * figures[section] / seconds:.0f}" for section in SECTIONS)
        print(f"| {name} | {figures['steps'] / seconds:,.0f} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
