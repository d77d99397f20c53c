"""Transfer of a trained policy: its success in the fused engine and in Bullet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mygym import api
from mygym.checks.parity import success_rate
from mygym.envs.fused_envs import FusedEnvs
from mygym.runs import directory
from mygym.runs.loading import find_plan, load
from mygym.runs.planning.engines import check_engine, env_arguments


@dataclass(frozen=True)
class Transfer:
    """Success rates of a policy, both in fresh episodes from the beginning of the task."""

    episodes: int
    """Episodes in each engine; those of the engines are not the same."""
    success_fused: float
    success_pybullet: float


def measure_transfer(run: str | Path, episodes: int, seed: int) -> Transfer:
    """Return the success of a run's policy in both engines; the run may have been trained in either.

    Args:
        run: Path of a run, or of a file that `mygym.load` accepts.
        episodes: Number of episodes in each engine.
        seed: Seed of the episodes.

    Raises:
        ConfigError: The path is not a run, or the fused engine cannot represent its config.
        RunError: The policy cannot be loaded, or its actions are not finite.
    """
    plan = find_plan(directory.find_policy(run)[0])
    config = plan.config.model_copy(update={"engine": "fused"})
    check_engine(config, plan.evaluated_variants)
    arguments = env_arguments(config, plan.algorithm.dict_observations)
    arguments["task_params"].pop("starts", None)
    fused, policy = FusedEnvs(arguments, episodes), load(run)
    solved = success_rate(fused, lambda observations: policy.predict(observations)[0], range(seed, seed + episodes))
    return Transfer(episodes, solved, api.evaluate(run, episodes=episodes, seed=seed).success_rate)
