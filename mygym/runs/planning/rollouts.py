"""Length of a rollout: training stops, writes checkpoints and evaluates between two of them."""

from __future__ import annotations

from mygym.runs.planning.plan import RunPlan


def rollout_steps(plan: RunPlan) -> int:
    """Return the env steps between two updates of the policy, of ARS at most; 0 if unknown."""
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

    config, params = plan.config, plan.config.algo_params
    if isinstance(directions := params.get("n_delta"), int):  # ARS: every environment plays both ends of each direction
        return (
            2 * directions * int(params.get("n_eval_episodes", 1)) * (config.task_params.horizon or 0) * config.n_envs
        )
    key = "train_freq" if issubclass(plan.schema.cls, OffPolicyAlgorithm) else "n_steps"
    steps = params.get(key)
    return steps * config.n_envs if isinstance(steps, int) else 0
