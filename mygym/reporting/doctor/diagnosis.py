"""The list of rules, and the diagnosis of a run."""

from __future__ import annotations

from mygym.reporting.doctor import optimization_rules, settings_rules, training_rules
from mygym.reporting.doctor.findings import Finding, Rule
from mygym.reporting.doctor.logs import RunLogs

LEARNED = 0.9
"""Success rate from which a run counts as learned: the rules do not look at it."""

RULES: tuple[Rule, ...] = (
    training_rules.ended_with_an_error,
    training_rules.diverged,
    training_rules.stopped_early,
    settings_rules.no_update_before_the_end,
    settings_rules.learning_rate_out_of_range,
    settings_rules.too_few_steps,
    settings_rules.too_few_updates,
    settings_rules.reward_cannot_teach,
    settings_rules.task_harder_than_its_default,
    settings_rules.discount_too_short,
    settings_rules.replay_buffer_too_small,
    settings_rules.no_exploration,
    training_rules.reward_never_changes,
    training_rules.never_touched_the_object,
    training_rules.hindsight_finds_nothing,
    training_rules.stuck_in_a_stage,
    training_rules.episodes_are_cut_off,
    training_rules.actions_saturate,
    optimization_rules.q_values_explode,
    optimization_rules.value_loss_explodes,
    optimization_rules.updates_too_large,
    optimization_rules.updates_change_nothing,
    optimization_rules.entropy_collapsed,
    optimization_rules.noise_drowns_the_policy,
    training_rules.succeeds_in_training_alone,
    training_rules.success_was_lost,
    settings_rules.too_few_evaluations,
)
"""The rules, causes before their effects."""


def has_learned(logs: RunLogs) -> bool:
    """Return whether the policy succeeds and the run did not end with an error."""
    return logs.success >= LEARNED and not logs.has_failed


def diagnose(logs: RunLogs) -> dict[str, Finding]:
    """Return name → finding of the rules that apply to a run, in their order; nothing for a run that has learned."""
    if has_learned(logs):
        return {}
    findings = ((rule.__name__, rule(logs)) for rule in RULES)
    return {name: finding for name, finding in findings if finding is not None}
