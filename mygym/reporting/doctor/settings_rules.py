"""Rules on the config: values with which a run cannot learn, or not yet."""

from __future__ import annotations

from mygym.reporting.comparison import count
from mygym.reporting.doctor.findings import Finding
from mygym.reporting.doctor.learning_table import steps_to_learn
from mygym.reporting.doctor.logs import SUCCESS, RunLogs

LEARNING_RATES = (1e-6, 0.1)
"""Lowest and highest plausible learning rate of networks; the defaults are 3e-4 to 0.05 (ars)."""

FAIR_SHARE = 0.7
"""Share of the measured env steps below which a run is called too short."""

GAINING = 0.1
"""Gain of success in the second half of the evaluations from which a run is still learning."""

FEW_ROLLOUTS, UPDATES_PER_STEP = 10, 0.02
"""Fewest rollouts of an on-policy algorithm, and fewest gradient steps per env step of an off-policy algorithm."""

FEW_EVALUATIONS, FEW_EPISODES = 3, 5
"""Fewest evaluations after the start, and fewest episodes of each."""

HARDER = 2
"""Factor by which a threshold may be stricter than the default of the task."""

SHORT_MEMORY = 0.2
"""Share of the horizon that the discount must reach at least: 1 / (1 - gamma) steps."""


def no_update_before_the_end(logs: RunLogs) -> Finding | None:
    """`learning_starts` lies beyond the last step: the networks keep their initial weights."""
    starts = logs.number("algo_params.learning_starts")
    if starts is None or starts < logs.configured_steps:
        return None
    evidence = f"learning_starts is {starts:,.0f}, and the run has {logs.configured_steps:,} steps"
    return Finding(evidence, f"--steps {10 * int(starts):d}, or a smaller algo_params.learning_starts")


def learning_rate_out_of_range(logs: RunLogs) -> Finding | None:
    """The learning rate is 0, or far from all that networks are trained with."""
    given = logs.number("algo_params.learning_rate")
    logged = logs.series("train/learning_rate")
    highest = given if given is not None else float(logged.max()) if len(logged) else None
    low, high = LEARNING_RATES
    if highest is None or low <= highest <= high:
        return None
    effect = (
        "no weight changes" if highest == 0 else "weights hardly change" if highest < low else "steps are too large"
    )
    return Finding(f"learning_rate is {highest:g}: {effect}", "--set algo_params.learning_rate=1e-3")


def too_few_steps(logs: RunLogs) -> Finding | None:
    """The run is shorter than runs that have learned, or its success was still growing at the end."""
    more = "--steps" if logs.is_running else f"--resume {logs.record.path} --steps"
    several = logs.task is None or len(logs.task.stage_names) > 1
    known = None
    if logs.setting("strategy") == "standard":
        known = steps_to_learn(str(logs.setting("task")), str(logs.setting("algo")), several)
    if known is not None and logs.length < FAIR_SHARE * known[0]:
        return Finding(f"{logs.length:,} steps; {known[1]} in {known[0]:,}", f"{more} {known[0]}")
    success = logs.series(SUCCESS)
    half = len(success) // 2
    if (
        half < 2
        or success[half:].mean() - success[:half].mean() < GAINING
        or success[-1] < success[half:].max() - GAINING
    ):
        return None
    evidence = f"success still grows: {success[:half].mean():.0%} in the first half of the evaluations, "
    return Finding(f"{evidence}{success[-1]:.0%} in the last", f"{more} {2 * max(logs.configured_steps, logs.steps)}")


def too_few_updates(logs: RunLogs) -> Finding | None:
    """The algorithm collects far more than it trains."""
    rollout = logs.number("algo_params.n_steps")
    if rollout is not None and logs.number("algo_params.buffer_size") is None:
        size = int(rollout * (logs.number("n_envs") or 1))
        if logs.length >= FEW_ROLLOUTS * size:
            return None
        evidence = f"{logs.length / size:.1f} rollouts of {size:,} steps (n_steps × n_envs) in {logs.length:,} steps"
        return Finding(evidence, f"--set algo_params.n_steps={max(int(rollout) // 4, 8)}, or more --steps")
    updates = logs.series("train/n_updates")
    late = logs.steps - (logs.number("algo_params.learning_starts") or 0)
    if not len(updates) or late <= 0 or updates[-1] >= UPDATES_PER_STEP * late:
        return None
    evidence = f"{updates[-1]:,.0f} updates in {late:,.0f} steps after learning_starts"
    return Finding(evidence, "--set algo_params.gradient_steps=-1 (as many as env steps)")


def too_few_evaluations(logs: RunLogs) -> Finding | None:
    """Evaluations are too rare, or too short, to see progress and to select the best model."""
    number = int((logs.steps_of(SUCCESS) > 0).sum())
    episodes = int(logs.number("eval.episodes") or 0)
    if number < FEW_EVALUATIONS and logs.record.status == "done":
        every = max(logs.configured_steps // 10, 1)
        evidence = f"{count(number, 'evaluation')} after the start, each of {count(episodes, 'episode')}"
        return Finding(evidence, f"--set eval.every={every}")
    if episodes < FEW_EPISODES:
        evidence = f"an evaluation has {count(episodes, 'episode')}: its success rate is chance"
        return Finding(evidence, "--set eval.episodes=50")
    return None


def reward_cannot_teach(logs: RunLogs) -> Finding | None:
    """The reward of a task of several stages shows success only, and nothing replaces the first success."""
    reward, stages = logs.setting("reward"), len(logs.task.stage_names) if logs.task else 0
    helped = logs.setting("her") or logs.setting("strategy") != "standard" or logs.setting("pretrained.path")
    led_in = any((logs.setting("task_params.starts") or {}).values()) or logs.setting("task_params.stages_done")
    if reward not in ("sparse", "staged") or stages < 2 or helped or led_in or logs.column("is_success").any():
        return None
    evidence = f"reward {reward} shows success only, the task has {stages} stages, hindsight is off, and none of "
    return Finding(f"{evidence}{len(logs.column('r')):,} training episodes succeeded", "--reward shaped")


def task_harder_than_its_default(logs: RunLogs) -> Finding | None:
    """Horizon, tolerance or hold makes the task harder than its default by more than a factor of 2."""
    if logs.task is None:
        return None
    for key in ("horizon", "tolerance", "hold"):
        default, value = getattr(logs.task, key), logs.number(f"task_params.{key}") or getattr(logs.task, key)
        if max(default, value) > HARDER * min(default, value) and (value > default) == (key == "hold"):
            evidence = f"task_params.{key} is {value:g}, the default of {logs.task.name} is {default:g}"
            return Finding(evidence, f"--set task_params.{key}={default:g}")
    return None


def discount_too_short(logs: RunLogs) -> Finding | None:
    """The discount forgets within a small part of the episode."""
    gamma = logs.number("algo_params.gamma")
    if gamma is None or gamma >= 1 or logs.task is None:
        return None
    reach, horizon = 1 / (1 - gamma), logs.number("task_params.horizon") or logs.task.horizon
    if reach >= SHORT_MEMORY * min(horizon, 50):
        return None
    evidence = f"gamma {gamma:g} looks {reach:.1f} steps ahead, an episode has {horizon:.0f}"
    return Finding(evidence, "--set algo_params.gamma=0.95")


def replay_buffer_too_small(logs: RunLogs) -> Finding | None:
    """The replay buffer forgets most of the run, within a few episodes."""
    size = logs.number("algo_params.buffer_size")
    if size is None or logs.task is None:
        return None
    episodes = size / (logs.number("task_params.horizon") or logs.task.horizon)
    if size >= logs.steps / 10 or episodes >= 100:
        return None
    evidence = f"buffer_size {size:,.0f} holds {episodes:.0f} episodes of a run of {logs.steps:,} steps"
    return Finding(evidence, f"--set algo_params.buffer_size={max(logs.configured_steps, 1)}")


def no_exploration(logs: RunLogs) -> Finding | None:
    """A deterministic policy explores without noise."""
    if logs.setting("algo") not in ("td3", "ddpg") or logs.setting("algo_params.action_noise"):
        return None
    evidence = f"{logs.setting('algo')} acts without noise: action_noise is {logs.setting('algo_params.action_noise')}"
    return Finding(evidence, "--set algo_params.action_noise=0.2")
