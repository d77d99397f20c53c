"""Final evaluation and videos of a run's saved model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from mygym.config import RunConfig
from mygym.envs.multi_task_env import AnyEnv
from mygym.errors import DivergedError
from mygym.runs import directory, model_factory
from mygym.runs.evaluation import FINAL, Evaluation, Predicts, episode_seeds, evaluate_policy, round_robin
from mygym.runs.planning.plan import RunPlan
from mygym.runs.policy import Policy, normalizer_of
from mygym.runs.result import Result
from mygym.runs.video import FAILURE_PREFIX, record_failure_videos, record_video


def saved_policy(plan: RunPlan, run: Path, env: Any) -> Predicts:
    """Return the policy as it was saved; the model in memory may differ."""
    model = model_factory.loadable(plan, env).load(run / directory.MODEL, env=env, device=plan.config.device)
    return Policy(model, normalizer_of(env))


def evaluate_finally(policy: Predicts, config: RunConfig, envs: list[AnyEnv], result: Result) -> Evaluation:
    """Evaluate the saved policy on the final seeds and write the figures into `result`.

    Raises:
        DivergedError: The mean return is not finite.
    """
    seeds = round_robin(episode_seeds(result.seed, FINAL, config.eval.final_episodes), envs[0])
    evaluation = check_finite(evaluate_policy(policy, envs, seeds))
    result.success_rate = evaluation.success_rate
    result.mean_return = evaluation.mean_return
    result.stage_reached = evaluation.stage_reached
    result.success_by_task = evaluation.success_by_task
    return evaluation


def record_videos(policy: Predicts, config: RunConfig, env: AnyEnv, evaluation: Evaluation, run: Path) -> None:
    """Write the final video, and a video of the first failed episode of each stage.

    Args:
        policy: The saved policy.
        config: The run's config.
        env: An environment with `render_mode="rgb_array"`.
        evaluation: The final evaluation, which lists the failures.
        run: The run directory.
    """
    seeds = round_robin(episode_seeds(config.seed, FINAL, config.video.episodes), env)
    if not seeds:
        return
    folder = run / directory.VIDEOS
    record_video(policy, env, seeds, folder / "final.mp4")
    for outdated in folder.glob(f"{FAILURE_PREFIX}*.mp4"):  # of an earlier policy, before the run was resumed
        outdated.unlink()
    record_failure_videos(evaluation, env, folder)


def check_finite(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation after a check of its mean return.

    Raises:
        DivergedError: The mean return is not finite.
    """
    if not math.isfinite(evaluation.mean_return):
        raise DivergedError(f"the mean return of an evaluation is {evaluation.mean_return}")
    return evaluation
