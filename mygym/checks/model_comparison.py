"""Comparison of trained models: weights, actions in this and in another process, and configs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file as load_tensors

from mygym.checks.suite import CheckFailed, demand
from mygym.config.layers import flatten
from mygym.runs import directory
from mygym.runs.policy import NORMALIZER

_LOAD_AND_PREDICT = """\
import json, sys
task = json.loads(sys.stdin.read())
sys.argv[0] = task["script"]
import numpy as np
import mygym
from mygym.registry.user_files import import_modules
import_modules(task["imports"])
policy = mygym.load(task["run"])
array = lambda values: np.array(values, dtype=np.float32)
observations = [{k: array(v) for k, v in o.items()} if isinstance(o, dict) else array(o) for o in task["observations"]]
print(json.dumps([policy.predict(o, deterministic=True)[0].tolist() for o in observations]))
"""


def actions_of(policy: Any, observations: Sequence[Any]) -> NDArray[np.float32]:
    """Return the actions of a policy for observations of single environments."""
    return np.stack([policy.predict(observation, deterministic=True)[0] for observation in observations])


def weights_of(file: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors of a policy file, without the tensors of its normaliser."""
    return {key: value for key, value in load_tensors(file).items() if not key.startswith(NORMALIZER)}


def first_difference(first: Mapping[str, NDArray[Any]], second: Mapping[str, NDArray[Any]]) -> str:
    """Return the name of the first tensor that differs; empty if all are equal."""
    names = [*first, *(key for key in second if key not in first)]
    different = (key for key in names if not np.array_equal(first.get(key, ()), second.get(key, ())))
    return next(different, "")


def different_keys(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Return the dotted names of the values that differ between two configs."""
    a, b = dict(flatten(first)), dict(flatten(second))
    return ", ".join(sorted(key for key in a.keys() | b.keys() if a.get(key) != b.get(key)))


def actions_in_another_process(run: Path, imports: Sequence[str], observations: Sequence[Any]) -> NDArray[np.float32]:
    """Return the actions of a run's policy, loaded in another process, which must import the class by itself.

    Args:
        run: The run directory.
        imports: Modules that the run's config imports.
        observations: Observations of single environments.

    Raises:
        CheckFailed: The other process cannot load the policy.
    """
    plain = [
        {key: value.tolist() for key, value in seen.items()} if isinstance(seen, dict) else seen.tolist()
        for seen in observations
    ]
    task = {"script": sys.argv[0], "imports": list(imports), "run": str(run.resolve())}
    process = subprocess.run(  # noqa: S603  (this Python)
        [sys.executable, "-c", _LOAD_AND_PREDICT],
        input=json.dumps({**task, "observations": plain}),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise CheckFailed(f"mygym.load fails in another process: {last}")
    return np.array(json.loads(process.stdout.splitlines()[-1]), dtype=np.float32)


def demand_same_weights(first: Path, second: Path, subject: str) -> None:
    """Raise `CheckFailed`, with `subject`, unless two runs have the same weights, to the bit."""
    name = first_difference(weights_of(first / directory.POLICY), weights_of(second / directory.POLICY))
    demand(not name, f"{subject} has other weights, the first of them in {name}")
