"""`export`: write a run's policy to a file, and verify the file against the policy."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.envs.multi_task_env import AnyEnv
from mygym.errors import ConfigError, RunError, bad_value
from mygym.exporting.exported_policy import ExportedPolicy
from mygym.exporting.formats import FORMATS
from mygym.registry import resolve
from mygym.training import directory, env_factory
from mygym.training.evaluation import BATCH, EXTRA, episode_seeds, evaluate_policy
from mygym.training.files import write
from mygym.training.loading import load, plan_of_run
from mygym.training.result import Result

TOLERANCE = 1e-5
"""Largest difference between an action of the file and of the policy."""

ALONE, TOGETHER = 3, 12
"""Episodes in which a file is compared with its policy: one at a time, and `BATCH` at a time."""


@dataclass(frozen=True)
class Export:
    """A verified file."""

    path: Path
    difference: float
    """Largest difference between an action of the file and of the policy."""
    observations: int
    """Number of compared observations."""


class Comparison:
    """Policy that acts, and compares a file with itself on every observation.

    Args:
        policy: The policy.
        exported: The policy of the file.
    """

    def __init__(self, policy: Any, exported: ExportedPolicy) -> None:
        self.policy, self.exported = policy, exported
        self.difference, self.observations = 0.0, 0
        self._state: Any = None

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[Any], Any]:
        """Return the actions and the state of the policy; the file continues from its state of the last call."""
        actions, following = self.policy.predict(observation, state, episode_start, deterministic)
        of_file, self._state = self.exported.predict(
            observation, self._state if state is not None else None, episode_start
        )
        if actions.shape != of_file.shape or actions.dtype != of_file.dtype:
            self.difference = np.inf
        else:
            difference = np.abs(actions.astype(float) - of_file).max()
            self.difference = float(np.maximum(self.difference, difference))  # also NaN
        self.observations += len(actions)
        return actions, following


def default_path(folder: Path, format: str = "onnx") -> Path:
    """Return the path of the file of the run in `folder`."""
    return folder / f"policy{FORMATS[format]}"


def export(run: str | Path, path: str | Path | None = None, *, trust: bool = False) -> Export:
    """Write a run's policy as a file that does not need mygym, and verify it.

    An ONNX file (`.onnx`) needs no torch either, a file of `torch.export` (`.pt2`) does. The graph contains
    normaliser, network and action scaling; its inputs are the raw arrays of the observation by key, with a dynamic
    batch axis. The file is kept if its actions in seeded episodes of the run's environment are those of
    `Policy.predict`, within `TOLERANCE`.

    Args:
        run: Path of a run, or of a file that `load` accepts.
        path: The file, which is replaced if it exists; by default `policy.onnx` in the run directory.
        trust: See `load`.

    Returns:
        The path of the file, and the largest difference from the policy.

    Raises:
        ConfigError: `load` refuses the run, or the path has another suffix.
        RegistryError: A package of the extra `export` is missing.
        RunError: The policy cannot be loaded or expressed as a graph, or the file differs from it; nothing is kept.
    """
    folder, file = directory.find_policy(run)
    target = default_path(folder) if path is None else Path(path)
    if target.suffix not in FORMATS.values():
        raise ConfigError(bad_value("path", str(target), f"a file ending in {' or '.join(FORMATS.values())}"))
    for package in ("onnx", "onnxruntime", "onnxscript") if target.suffix == FORMATS["onnx"] else ():
        resolve(f"{package}:__version__", "export")
    plan = plan_of_run(folder)

    from mygym.exporting.description import describe
    from mygym.exporting.files import WRITERS
    from mygym.exporting.graph import acting_graph

    policy = load(run, trust=trust)
    with contextlib.ExitStack() as stack:
        envs = env_factory.make_eval_envs(plan, stack, BATCH)
        description = describe(plan, Result.read(folder), envs[0], file)
        try:
            content = WRITERS[target.suffix](acting_graph(policy), description)
        except Exception as error:  # of torch, without a common class
            name, why = type(policy.model.policy).__name__, " ".join(str(error).split())
            raise RunError(f"{folder}: {name} cannot be exported: {type(error).__name__}: {why:.300}") from error
        verified: list[Export] = []

        def save(temporary: Path) -> None:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(content)
            verified.append(_verify(temporary, target, policy, envs, plan.config.seed))

        write(target, save)
    return verified[0]


def _verify(file: Path, target: Path, policy: Any, envs: Sequence[AnyEnv], seed: int) -> Export:
    """Compare a file with a policy in seeded episodes.

    Raises:
        RunError: They differ.
    """
    comparison = Comparison(policy, ExportedPolicy(file, trust=True))  # this process has just written it
    seeds = episode_seeds(seed, EXTRA, ALONE + TOGETHER, env=envs[0])
    evaluate_policy(comparison, envs[:1], seeds[:ALONE])
    evaluate_policy(comparison, envs, seeds[ALONE:])
    if not comparison.difference <= TOLERANCE:
        differs = f"its actions differ from those of the policy by up to {comparison.difference:.2g}"
        raise RunError(f"{target}: is not kept: {differs}; allowed: at most {TOLERANCE:g}")
    return Export(target, comparison.difference, comparison.observations)
