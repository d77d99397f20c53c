"""The doctor: rules that look for the causes of a run that does not learn, and the diagnosis of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mygym.errors import counted
from mygym.reporting.records import DAMAGED, RUNNING
from mygym.reporting.run_logs import RECENT, SUCCESS, RunLogs
from mygym.reporting.statistics import success_interval
from mygym.training.directory import resume_flag
from mygym.types import FloatArray


@dataclass(frozen=True)
class Finding:
    """Evidence of a rule that applies."""

    evidence: str
    """Numbers of the config or of the logs."""
    remedy: str
    """Flag that would change it, or another action."""


Rule = Callable[[RunLogs], Finding | None]
"""Function of the logs whose name is that of its finding; None if the rule does not apply."""


def lower_learning_rate(logs: RunLogs, factor: float = 3.0) -> str:
    """Return the flag that divides the learning rate by a factor; for schedules and unknown rates, sets 1e-4."""
    rate = logs.number("algo_params.learning_rate")
    return f"--set algo_params.learning_rate={rate / factor if rate else 1e-4:.1g}"


def normalized(logs: RunLogs) -> str:
    """Return the flag that brings observations to an equal scale; if they are, the flag of smaller updates."""
    return lower_learning_rate(logs) if logs.setting("normalize") else "--set normalize=true"


LEARNED: Mapping[str, Mapping[str, int]] = json.loads(Path(__file__).with_name("learned.json").read_text("utf-8"))
"""Task → algorithm → env steps until 90 % success, written by `benchmarks/learned.py`."""

PROGRESS = ("shaped", "timed")
"""Rewards that pay for the progress of every stage."""

IMITATION = ("bc", "dagger")
"""Algorithms that imitate the expert; they do not learn from reward."""

SEVERAL_STAGES = min(
    steps for task, row in LEARNED.items() if task != "reach" for algo, steps in row.items() if algo not in IMITATION
)
"""Fewest env steps in which a task of several stages was learned from reward."""


def steps_to_learn(task: str, algo: str, several_stages: bool) -> tuple[int, str] | None:
    """Return the measured env steps for a task, and where they come from in words; None if nothing is comparable."""
    row = LEARNED.get(task, {})
    if algo in row:
        return row[algo], f"{task} was learned by {algo}"
    if algo in IMITATION:
        return None
    if rewarded := row.keys() - IMITATION:
        fastest = min(rewarded, key=lambda name: (row[name], name))
        return row[fastest], f"{task} was learned by {fastest}"
    if several_stages:
        return SEVERAL_STAGES, "the quickest task of several stages was learned"
    return None


DEVIATIONS = (0.02, 3.0)
"""Standard deviations of a Gaussian policy below which it does not explore, and above which noise is all that acts."""

COEFFICIENTS = (1e-5, 10.0)
"""Entropy coefficients of soft actor-critic below which it does not explore, and above which it seeks noise alone."""

CERTAIN = 0.01
"""Entropy, in nats, below which a policy of discrete actions always acts the same."""

DIVERGENCES, CLIPPED = (1e-6, 0.1), (1e-4, 0.5)
"""Lowest and highest plausible KL divergence, and clipped share, of an update of PPO."""

EXPLODED = 10
"""Factor by which Q-values may exceed the largest return of an episode."""

LAST = 10
"""Values at the end of a series whose median shows the present state."""


def present(values: FloatArray) -> float:
    """Return the median of the last values of a series; NaN if it is empty."""
    return float(np.median(values[-LAST:])) if len(values) else float("nan")


def entropy_collapsed(logs: RunLogs) -> Finding | None:
    """The policy acts without noise before it succeeds."""
    more = "--set algo_params.ent_coef=0.01"
    deviations, coefficients = logs.series("train/std"), logs.series("train/ent_coef")
    entropies = -logs.series("train/entropy_loss")
    if present(deviations) < DEVIATIONS[0]:
        evidence = f"standard deviation of the policy {deviations[0]:.2g} at first, {present(deviations):.2g} now"
        return Finding(evidence, more)
    if present(coefficients) < COEFFICIENTS[0]:
        evidence = f"entropy coefficient {coefficients[0]:.2g} at first, {present(coefficients):.2g} now"
        return Finding(evidence, "--set algo_params.ent_coef=auto_0.1")
    if not len(deviations) and present(entropies) < CERTAIN:
        return Finding(f"entropy {entropies[0]:.2g} at first, {present(entropies):.2g} now", more)
    return None


def noise_drowns_the_policy(logs: RunLogs) -> Finding | None:
    """The entropy bonus has made the actions random."""
    deviation, coefficient = present(logs.series("train/std")), present(logs.series("train/ent_coef"))
    if deviation > DEVIATIONS[1]:
        evidence = f"standard deviation of the policy {deviation:.2g}, actions lie in [-1, 1]"
        return Finding(evidence, "--set algo_params.ent_coef=0")
    if coefficient > COEFFICIENTS[1]:
        return Finding(f"entropy coefficient {coefficient:.2g}", "--set algo_params.ent_coef=auto_0.05")
    return None


def updates_too_large(logs: RunLogs) -> Finding | None:
    """An update of PPO changes the policy beyond the range in which its estimate holds."""
    divergence, clipped = _update_sizes(logs)
    if not (divergence > DIVERGENCES[1] or clipped > CLIPPED[1]):
        return None
    return Finding(_sizes_in_words(divergence, clipped), lower_learning_rate(logs))


def updates_change_nothing(logs: RunLogs) -> Finding | None:
    """An update of PPO leaves the policy as it was."""
    divergence, clipped = _update_sizes(logs)
    if not (abs(divergence) < DIVERGENCES[0] and clipped < CLIPPED[0]):
        return None
    return Finding(_sizes_in_words(divergence, clipped), "--set algo_params.learning_rate=1e-3")


def q_values_explode(logs: RunLogs) -> Finding | None:
    """Q-values exceed every return of an episode."""
    actor, critic = abs(present(logs.series("train/actor_loss"))), present(logs.series("train/critic_loss"))
    bound = EXPLODED * logs.scale
    if not (actor > bound or critic > bound**2):
        return None
    evidence = f"actor_loss {actor:.3g}, critic_loss {critic:.3g}, but no return exceeds {logs.scale:.3g}"
    return Finding(evidence, f"{lower_learning_rate(logs, 10)}, or a lower algo_params.gamma or algo_params.tau")


def value_loss_explodes(logs: RunLogs) -> Finding | None:
    """The critic of an on-policy algorithm is worse than the constant 0."""
    loss = present(logs.series("train/value_loss"))
    if not loss > logs.scale**2:
        return None
    evidence = f"value_loss {loss:.3g}, but a critic that returns 0 has at most {logs.scale**2:.3g}"
    return Finding(evidence, normalized(logs))


def _update_sizes(logs: RunLogs) -> tuple[float, float]:
    """Return KL divergence and clipped share of recent updates; NaN where they are not logged."""
    return present(logs.series("train/approx_kl")), present(logs.series("train/clip_fraction"))


def _sizes_in_words(divergence: float, clipped: float) -> str:
    return f"an update has a KL divergence of {divergence:.2g}, and clips {clipped:.0%} of the samples"


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
    more = "--steps" if logs.record.status == RUNNING else f"{resume_flag(logs.record.path)} --steps"
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
        evidence = f"{counted(number, 'evaluation')} after the start, each of {counted(episodes, 'episode')}"
        return Finding(evidence, f"--set eval.every={every}")
    if episodes < FEW_EPISODES:
        evidence = f"an evaluation has {counted(episodes, 'episode')}: its success rate is chance"
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
    reach, horizon = 1 / (1 - gamma), logs.limit
    if reach >= SHORT_MEMORY * min(horizon, 50):
        return None
    evidence = f"gamma {gamma:g} looks {reach:.1f} steps ahead, an episode has {horizon}"
    return Finding(evidence, "--set algo_params.gamma=0.95")


def replay_buffer_too_small(logs: RunLogs) -> Finding | None:
    """The replay buffer forgets most of the run, within a few episodes."""
    size = logs.number("algo_params.buffer_size")
    if size is None or logs.task is None:
        return None
    episodes = size / logs.limit
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
        f"{logs.record.error} after {logs.steps:,} steps", f"see traceback.txt, then {resume_flag(logs.record.path)}"
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
    return Finding(evidence, resume_flag(logs.record.path))


def reward_never_changes(logs: RunLogs) -> Finding | None:
    """Every step of every training episode has the same reward, and hindsight does not change it."""
    returns, lengths = logs.column("r"), logs.column("l")
    if logs.is_young or len(returns) < MIN_EPISODES or logs.setting("her"):
        return None
    rewards = returns / np.maximum(lengths, 1)
    if np.ptp(rewards) > EQUAL * max(1.0, float(np.abs(rewards).max())):
        return None
    evidence = f"the mean reward of a step is {rewards[0]:g} in all {len(rewards):,} training episodes"
    return Finding(evidence, "check the reward function" if logs.setting("reward") in PROGRESS else "--reward shaped")


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
    if len(lengths) < MIN_EPISODES or lengths.mean() >= SHORT * logs.limit:
        return None
    evidence = f"failed training episodes end after {lengths.mean():.0f} of {logs.limit} steps: an object leaves the "
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
    return "--strategy curriculum" if logs.setting("reward") in PROGRESS else "--reward shaped"


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


SUCCESSFUL = 0.9
"""Success rate from which a run counts as learned: the rules do not look at it."""

RULES: tuple[Rule, ...] = (
    ended_with_an_error,
    diverged,
    stopped_early,
    no_update_before_the_end,
    learning_rate_out_of_range,
    too_few_steps,
    too_few_updates,
    reward_cannot_teach,
    task_harder_than_its_default,
    discount_too_short,
    replay_buffer_too_small,
    no_exploration,
    reward_never_changes,
    never_touched_the_object,
    hindsight_finds_nothing,
    stuck_in_a_stage,
    episodes_are_cut_off,
    actions_saturate,
    q_values_explode,
    value_loss_explodes,
    updates_too_large,
    updates_change_nothing,
    entropy_collapsed,
    noise_drowns_the_policy,
    succeeds_in_training_alone,
    success_was_lost,
    too_few_evaluations,
)
"""The rules, causes before their effects."""


def has_learned(logs: RunLogs) -> bool:
    """Return whether the policy succeeds and the run did not end with an error."""
    return logs.success >= SUCCESSFUL and logs.record.status not in ("failed", "diverged")


def diagnose(logs: RunLogs) -> dict[str, Finding]:
    """Return name → finding of the rules that apply to a run, in their order; nothing for a run that has learned."""
    if has_learned(logs):
        return {}
    findings = ((rule.__name__, rule(logs)) for rule in RULES)
    return {name: finding for name, finding in findings if finding is not None}
