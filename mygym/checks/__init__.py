"""Conformance suites: checks that every component of a kind has to pass, including the built-in components.

`check("algorithm", "sac")` yields an `Outcome` for each check as it finishes; `mygym check` prints them.
"""

from mygym.checks.suite import SUITES, TRAINED, Check, CheckFailed, Outcome, check

__all__ = ["SUITES", "TRAINED", "Check", "CheckFailed", "Outcome", "check"]
