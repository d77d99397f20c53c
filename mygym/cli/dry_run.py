"""`--dry-run`: build the environments, model and strategies of a run, without writing a file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gymnasium import Space

    from mygym.planning.plan import RunPlan

STEPS = 200
"""Number of timed control steps."""


def compact(space: Space[Any]) -> str:
    """Return a description of a space in one line, even if its bounds differ."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return f"Dict({', '.join(f'{name}: {compact(subspace)}' for name, subspace in space.items())})"
    if isinstance(space, spaces.Box) and np.unique(space.high).size > 1:
        low, high = (f"{bound.min():g} to {bound.max():g}" for bound in (space.low, space.high))
        return f"Box({low}, {high}, {space.shape}, {space.dtype})"
    return str(space)


def dry_run(plan: RunPlan) -> None:
    """Print spaces, network sizes and the time of one step."""
    from mygym.api import print_notes
    from mygym.strategies.requirements import prepare_run
    from mygym.training.env_factory import make_vec_env
    from mygym.training.model_factory import buffer_bytes, build_model
    from mygym.training.policy import parameter_counts
    from mygym.training.pretrained import load_pretrained

    env = make_vec_env(plan)
    try:
        model = build_model(plan, env)
        load_pretrained(plan, model, env)
        prepare_run(plan, env, model)  # raises if a teacher or a dataset does not fit
        print_notes(plan, model)
        print(f"observation: {compact(env.observation_space)}")
        slices = env.get_attr("components")[0].items()
        if slices:
            print(f"observed: {', '.join(f'{name} {columns.stop - columns.start}' for name, columns in slices)}")
        print(f"action: {compact(env.action_space)}")
        print(f"algorithm: {type(model).__name__} from {type(model).__module__}")
        for name, count in parameter_counts(model).items():
            print(f"network {name}: {count:,} parameters")
        size, rows = buffer_bytes(model)
        if rows:
            memory = f"memory: {size / 1e6:,.1f} MB for {rows:,} steps in the buffer of the algorithm"
            end = getattr(model.replay_buffer, "end_bytes", 0)
            print(memory + (f", and {end / 1e3:,.1f} kB for the last observation of each episode" if end else ""))
        env.reset()
        env.action_space.seed(plan.config.seed)
        actions = [np.array([env.action_space.sample() for _ in range(env.num_envs)]) for _ in range(STEPS)]
        begin = time.perf_counter()
        for action in actions:
            env.step(action)
        seconds = (time.perf_counter() - begin) / STEPS
        each = f" in each of {plan.config.learners} learners" if plan.config.learners > 1 else ""
        duration = f"{1e6 * seconds:.0f} µs, {env.num_envs / seconds:,.0f} env steps/s"
        print(f"step of {env.num_envs} environment(s){each}: {duration}")
    finally:
        env.close()
