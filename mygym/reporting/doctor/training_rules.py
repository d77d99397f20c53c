"""Rules on episodes and evaluations: how the run ended, and where its episodes get stuck."""

from __future__ import annotations

import numpy as np

from mygym.reporting.doctor.findings import Finding, lower_learning_rate, normalized
from mygym.reporting.doctor.logs import RECENT, SUCCESS, RunLogs
from mygym.reporting.records import DAMAGED
from mygym.reporting.statistics import success_interval

MIN_EPISODES = 20
"""Fewest training episodes from which a rule draws a conclusion."""

EQUAL = 1e-4
"""Largest difference of mean rewards that count as equal; monitor.csv rounds returns to 1e-6."""

RARE = 0.02
"""Share of episodes below which a touch or a completed stage counts as chance."""

GAP = 0.3
"""Smallest difference of two success rates that is reported, if their intervals do not overlap."""

SATURATED = 0.9
"""Share of action components at a limit from which a policy counts as saturated."""

SHORT = 0.5
"""Share of the horizon below which failed episodes count as cut off."""


def ended_with_an_error(logs: RunLogs) -> Finding | None:
    """The run failed, or its result is not readable."""
    if logs.record.status not in ("failed", DAMAGED):
        return None
    return Finding(
        f"{logs.record.error} after {logs.steps:,} steps", f"see traceback.txt, then --resume {logs.record.path}"
    )


def diverged(logs: RunLogs) -> Finding | None:
    """A number was not finite."""
    keys = [key for line in logs.lines for key, value in line.items() if key.startswith("train/") and value is None]
    if logs.record.status != "diverged" and not keys:
        return None
    return Finding(logs.record.error or f"{keys[0]} is not finite", lower_learning_rate(logs, 10))


def stopped_early(logs: RunLogs) -> Finding | None:
    """The run was interrupted or killed."""
    if logs.record.status not in ("interrupted", "stopped") or logs.steps >= logs.configured_steps:
        return None
    evidence = f"{logs.record.status} after {logs.steps:,} of {logs.configured_steps:,} steps"
    return Finding(evidence, f"--resume {logs.record.path}")


def reward_never_changes(logs: RunLogs) -> Finding | None:
    """Every step of every training episode has the same reward, and hindsight does not change it."""
    returns, lengths = logs.column("r"), logs.column("l")
    if logs.is_young or len(returns) < MIN_EPISODES or logs.setting("her"):
        return None
    rewards = returns / np.maximum(lengths, 1)
    if np.ptp(rewards) > EQUAL * max(1.0, float(np.abs(rewards).max())):
        return None
    evidence = f"the mean reward of a step is {rewards[0]:g} in all {len(rewards):,} training episodes"
    return Finding(evidence, "--reward shaped" if logs.setting("reward") != "shaped" else "check the reward function")


def never_touched_the_object(logs: RunLogs) -> Finding | None:
    """No training episode touches an object or part of the task."""
    touched = logs.column("touched")
    if logs.is_young or len(touched) < MIN_EPISODES or touched.any() or not _acts_on_something(logs):
        return None
    evidence = f"none of {len(touched):,} training episodes touched an object or part of the task"
    return Finding(evidence, _start_later(logs) or _shaped(logs))


def hindsight_finds_nothing(logs: RunLogs) -> Finding | None:
    """Hindsight relabels goals with positions of the object, which hardly ever moves."""
    touched = logs.column("touched")
    if logs.is_young or not logs.setting("her") or len(touched) < MIN_EPISODES or not _acts_on_something(logs):
        return None
    if touched.mean() >= RARE:
        return None
    evidence = f"the object was touched in {int(touched.sum())} of {len(touched):,} training episodes, so nearly all "
    raised = logs.task is not None and logs.task.has_goals_in_air and not logs.setting("task_params.goals_on_surface")
    remedy = "--set task_params.goals_on_surface=0.3, or " if raised else ""
    return Finding(f"{evidence}relabelled goals are its start", f"{remedy}{_start_later(logs) or _shaped(logs)}")


def stuck_in_a_stage(logs: RunLogs) -> Finding | None:
    """Hardly any recent training episode completes a stage, although episodes reach it."""
    done, names = logs.column("stages_done"), logs.task.labels if logs.task else ()
    stage = _hardest_stage(logs)
    if logs.is_young or len(done) < MIN_EPISODES or len(names) < 2 or stage >= len(names):
        return None
    recent = done[-RECENT:]
    completed = f"{int((done > stage).sum())} of {len(done):,} training episodes completed stage {names[stage]}"
    reached = (
        f"{(recent >= stage).mean():.0%} of the last {len(recent)} reached it, {(recent > stage).mean():.0%} passed"
    )
    return Finding(f"{completed} ({stage + 1} of {len(names)}; {reached})", _start_later(logs) or _shaped(logs))


def episodes_are_cut_off(logs: RunLogs) -> Finding | None:
    """Failed episodes end long before the horizon: an object has left the workspace."""
    failed = logs.column("is_success") == 0
    lengths = logs.column("l")[failed][-RECENT:]
    horizon = logs.number("task_params.horizon") or (logs.task.horizon if logs.task else 0)
    if len(lengths) < MIN_EPISODES or lengths.mean() >= SHORT * horizon:
        return None
    evidence = f"failed training episodes end after {lengths.mean():.0f} of {horizon:.0f} steps: an object leaves the "
    return Finding(f"{evidence}workspace", "--set control.step=0.02, or smaller task_params.areas")


def succeeds_in_training_alone(logs: RunLogs) -> Finding | None:
    """Training episodes succeed, evaluations do not."""
    recent = logs.recent_success
    if len(recent) < MIN_EPISODES:
        return None
    training = success_interval(float(recent.sum()), len(recent))
    if recent.mean() - logs.success < GAP or training.low <= logs.success_bounds.high:
        return None
    evidence = (
        f"success {recent.mean():.0%} in the last {len(recent)} training episodes, {logs.success:.0%} in evaluations"
    )
    return Finding(evidence, _difference_to_training(logs))


def success_was_lost(logs: RunLogs) -> Finding | None:
    """An earlier evaluation was much better than the end of the run."""
    success = logs.series(SUCCESS)
    if not len(success):
        return None
    best, episodes = float(success.max()), int(logs.number("eval.episodes") or 0)
    if best - logs.success < GAP or success_interval(best * episodes, episodes).low <= logs.success_bounds.high:
        return None
    steps = logs.steps_of(SUCCESS)[int(success.argmax())]
    evidence = f"success was {best:.0%} after {steps:,.0f} steps and is {logs.success:.0%} now"
    slower = '--set algo_params.learning_rate="{schedule: linear, from: 1e-3, to: 1e-5}"'
    return Finding(evidence, f"best_policy.safetensors holds the best policy; {slower}")


def actions_saturate(logs: RunLogs) -> Finding | None:
    """Nearly all actions are at a limit."""
    recent = logs.column("saturation")[-RECENT:]
    if len(recent) < MIN_EPISODES or logs.setting("actions.discrete") or recent.mean() < SATURATED:
        return None
    evidence = (
        f"{recent.mean():.0%} of the action components of the last {len(recent)} training episodes are at a limit"
    )
    return Finding(evidence, normalized(logs))


def _acts_on_something(logs: RunLogs) -> bool:
    return logs.task is not None and bool(logs.task.roles or any(subtask.part for subtask in logs.task.subtasks))


def _hardest_stage(logs: RunLogs) -> int:
    """Return the number of the first stage that hardly any recent training episode completes."""
    recent = logs.column("stages_done")[-RECENT:]
    stage = 0
    while len(recent) and (recent > stage).mean() >= RARE:
        stage += 1
    return stage


def _start_later(logs: RunLogs) -> str:
    """Return the flag that lets episodes begin after the stage in which they are stuck; empty if no start does."""
    starts = logs.task.start_stages if logs.task else {}
    by_stages = sorted(starts, key=lambda name: starts[name][1])
    later = [name for name in by_stages if starts[name][1] > _hardest_stage(logs)]
    return f"--set task_params.starts.{later[0]}=0.3" if later else ""


def _shaped(logs: RunLogs) -> str:
    """Return the remedy for episodes that get stuck where no start helps."""
    return "--reward shaped" if logs.setting("reward") != "shaped" else "--strategy curriculum"


def _difference_to_training(logs: RunLogs) -> str:
    """Return the flag of the most likely difference between training episodes and evaluations."""
    if starts := logs.setting("task_params.starts"):
        flags = " ".join(f"--set task_params.starts.{name}=0" for name in starts)
        return f"training episodes may begin later, evaluations do not: {flags}"
    if logs.setting("strategy") != "standard":
        return f"training episodes are those of the strategy {logs.setting('strategy')}: --strategy standard"
    remedies = ["--set normalize=false"] if logs.setting("normalize") else []
    if logs.setting("algo_params.ent_coef"):
        remedies.insert(0, "--set algo_params.ent_coef=0")
    return f"evaluations act without noise: {', or '.join([*remedies, 'more --steps, until the noise is small'])}"
