"""Conformance suites: checks that every component of a kind has to pass, including the built-in components.

A module has the suite of each kind: algorithms, policies, strategies, tasks, stages, predicates, rewards, observations,
robots, controllers, workspaces and objects. The other modules:

suites            `SUITES`: kind of component → suite; `check`
suite             `Check`, `Outcome`, and the loop that performs the checks
batches           states for checks of pure functions
faults            faults in training environments
model_comparison  comparison of trained models
grasp_causes      causes of failed grasps, measured in an episode
path_following    measurement of how closely an arm follows a path
teaching          measurements of the reward `shaped`
cards             cards of tasks
parity            parity of the fused engine with Bullet
transfer          success of a trained policy in both engines

`check("algorithm", "sac")` yields an `Outcome` for each check as it finishes; `mygym check` prints them.
"""

from mygym.checks.suite import Check, CheckFailed, Outcome
from mygym.checks.suites import CHECKED_KINDS, SUITES, TRAINED, Suite, check

__all__ = ["CHECKED_KINDS", "SUITES", "TRAINED", "Check", "CheckFailed", "Outcome", "Suite", "check"]
