"""Rules on the log of the algorithm: entropy, losses, sizes of updates."""

from __future__ import annotations

import numpy as np

from mygym.reporting.doctor.findings import Finding, lower_learning_rate, normalized
from mygym.reporting.doctor.logs import RunLogs
from mygym.types import FloatArray

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
