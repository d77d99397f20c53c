"""Judgement of runs: fresh episodes of the saved policy on seeds of its own; certificates in two engines."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from mygym.config.schema import NOT_SHAPING
from mygym.engines.engine import BULLET, MUJOCO, find_engine
from mygym.envs.multi_task_env import AnyEnv
from mygym.errors import ConfigError, MygymError, bad_value, counted
from mygym.nested import changed
from mygym.planning.resolve import resolve_config
from mygym.reporting.leaderboard import Row
from mygym.reporting.records import RunRecord, find_runs
from mygym.reporting.statistics import Interval, paired_difference, success_interval
from mygym.reporting.tables import as_markdown, with_interval
from mygym.training import directory, env_factory, files, model_factory
from mygym.training.evaluation import JUDGE, Evaluation, Predicts, episode_seeds, evaluate_or_fail
from mygym.training.loading import find_plan, load
from mygym.training.result import Result, versions, versions_in_words
from mygym.training.video import record_side_by_side

SEED = 0
"""Seed of the judge's episodes, the same for all runs."""

FIRST, AGAIN, CERTIFIED = 0, 1, 2
"""Numbers of the judge's sets of episodes: for rows, for their repetition on other episodes, and for certificates."""

CHOICE = ("algo", "framework", "task", "robot", "workspace")
"""Keys of a config that choose its defaults."""

SIZE = ("steps", "n_envs")
"""Keys of a config from which other values follow, such as the size of the replay buffer."""


@dataclass(frozen=True)
class Repetition:
    """A row, and the judgement of the same run on other episodes."""

    row: Row
    again: Row | None
    """None: the run cannot be judged."""
    error: str = ""
    """Why it cannot."""

    @property
    def difference(self) -> str:
        """Reason why the two disagree; empty if they agree."""
        if self.again is None:
            return self.error
        if self.again.policy_sha256 != self.row.policy_sha256:
            return "the weights are not those of the row"
        if self.again.config_hash != self.row.config_hash:
            return "the config is not that of the row"
        (low, high), (again_low, again_high) = self.row.interval, self.again.interval
        return "" if low <= again_high and again_low <= high else "the intervals do not overlap"


def find_finished(sources: Iterable[str | Path]) -> tuple[list[RunRecord], list[RunRecord]]:
    """Return the finished and the unfinished runs below folders, each once; refuse folders without a finished run."""
    paths = [str(source) for source in sources]
    records = {Path(record.path).absolute(): record for path in paths for record in find_runs(path)}
    finished = [record for record in records.values() if record.status == "done"]
    unfinished = [record for record in records.values() if record.status != "done"]
    if not finished:
        statuses = ", ".join(sorted({record.status for record in unfinished})) or "no runs"
        why = f"has {statuses}"
        raise ConfigError(bad_value("runs", ", ".join(paths), "a folder with runs whose status is done", why))
    return finished, unfinished


def judge(run: Path, episodes: int, number: int = FIRST) -> Row:
    """Play a set of episodes, `FIRST` or `AGAIN`, with the saved policy of a finished run.

    Only `config.yaml`, `result.json` and `policy.safetensors` are read.

    Raises:
        ConfigError: The run is not finished.
        RunError: The policy cannot be loaded, or its actions are not finite.
    """
    result = finished_result(run)
    plan = find_plan(run)
    policy = load(run)
    with contextlib.ExitStack() as stack:
        envs = env_factory.make_eval_envs(plan, stack, episodes)
        seeds = episode_seeds(SEED, JUDGE, episodes, number, env=envs[0])
        evaluation = evaluate_or_fail(str(run), policy, envs, seeds)
    return Row(
        run=label(result),
        task=result.task,
        robot=result.robot,
        workspace=result.workspace,
        algo=result.algo,
        framework=result.framework,
        seed=result.seed,
        config_hash=result.config_hash,
        changes=_changes(plan.resolved.values()),
        steps=result.steps,
        training_s=round(result.wall_time_s, 1),
        episodes=len(evaluation.episodes),
        successes=evaluation.solved,
        mean_length=evaluation.mean_length,
        policy_sha256=files.checksum((run / directory.POLICY).read_bytes()),
        versions=dict(versions()),
        date=_today(),
    )


def finished_result(run: Path) -> Result:
    """Return the result of a finished run; refuse any other run."""
    result = Result.read(run)
    if result is None or result.status != "done":
        status = result.status if result else "without a readable result.json"
        raise ConfigError(bad_value("run", str(run), "a run whose status is done", f"is {status}"))
    return result


def label(result: Result) -> str:
    """Return the name of a run in leaderboards, which holds no folder of this machine."""
    return "/".join([result.task, result.robot, result.algo, result.config_hash, result.path.name])


def rejudge(rows: Sequence[Row], sources: Iterable[str | Path], episodes: int | None = None) -> list[Repetition]:
    """Judge the runs of rows again, on other episodes; without `episodes`, on as many as the row has.

    Rows whose runs are not below `sources` are left out.

    Raises:
        ConfigError: No run of a row exists.
    """
    finished, _ = find_finished(sources)
    results = (Result.read(Path(record.path)) for record in finished)
    runs = {label(result): result.path for result in results if result is not None}
    known = [row for row in rows if row.run in runs]
    if not known:
        names = ", ".join(row.run for row in rows) or "no rows"
        raise ConfigError(
            bad_value("runs", names, "the folder that holds the runs of the rows", "are not in this folder")
        )
    return [_repetition(row, runs[row.run], episodes or row.episodes) for row in known]


def _repetition(row: Row, run: Path, episodes: int) -> Repetition:
    try:
        return Repetition(row, judge(run, episodes, AGAIN))
    except MygymError as error:  # the other rows are judged all the same
        return Repetition(row, None, str(error))


def _changes(values: dict[str, Any]) -> dict[str, Any]:
    """Return the nested values of a complete config that differ from the defaults, without those that follow."""
    chosen = {key: values[key] for key in CHOICE}
    size = {key: values[key] for key in SIZE}
    of_same_size = model_factory.explained(resolve_config(overrides={**chosen, **size})).values()
    different = changed(size, resolve_config(overrides=chosen).values()) | changed(values, of_same_size)
    return {key: value for key, value in different.items() if key not in NOT_SHAPING}


SCHEMA = 1
"""Version of the file's form."""

PACKAGES = {"mygym.engines.bullet.world": ("pybullet",), "mygym.engines.mujoco.world": ("mujoco-core", "mujoco")}
"""Module of an engine's class, or of a class that it extends → the packages of which one brings it."""

FILMS = {"both succeed": "certificate_both_succeed.mp4", "one succeeds": "certificate_one_succeeds.mp4"}
"""Outcome of an episode in the two engines → its film in the run's folder of videos."""


@dataclass(frozen=True)
class Certificate:
    """A run's policy in two engines."""

    result: Result
    policy_sha256: str
    """SHA-256 of `policy.safetensors`, in hex digits."""
    seeds: tuple[int, ...]
    """Seeds of the episodes, which are the same in both engines."""
    evaluations: tuple[Evaluation, ...]
    """The episodes in each engine, in the order of the seeds."""
    tolerance: float
    """Share of episodes by which the success rate may be lower in the second engine."""
    films: Mapping[str, str]
    """Key of `FILMS` → path of the film in the run directory."""

    @property
    def gap(self) -> tuple[float, Interval]:
        """Success rate in the second engine minus that in the first, and its interval, paired by the seeds."""
        return paired_difference(*map(_successes, self.evaluations))

    @property
    def is_worse(self) -> bool:
        """Whether the success rate in the second engine is lower by more than the tolerance, and not by chance."""
        gap, interval = self.gap
        return gap < -self.tolerance and interval.high < 0

    @property
    def command(self) -> str:
        """The command that repeats the certificate, with the name of the run, as a path below its log directory."""
        engines = [evaluation.engine for evaluation in self.evaluations]
        words = ["mygym", "certify", label(self.result), "--episodes", str(len(self.seeds)), "--engines", *engines]
        return shlex.join([*words, "--tolerance", f"{100 * self.tolerance:g}"])

    def to_json(self) -> dict[str, Any]:
        """Return the content of certificate.json."""
        result, (gap, interval) = self.result, self.gap
        episodes = zip(*(evaluation.episodes for evaluation in self.evaluations), strict=True)
        engines = [evaluation.engine for evaluation in self.evaluations]
        names = ("task", "robot", "workspace", "algo", "framework", "seed", "config_hash", "steps")
        return {
            "schema": SCHEMA,
            "run": label(result),
            **{name: getattr(result, name) for name in names},
            "trained_in": result.engine,
            "policy_sha256": self.policy_sha256,
            "episodes": len(self.seeds),
            "verdicts": [
                {
                    "engine": evaluation.engine,
                    "version": _version(evaluation.engine),
                    "successes": evaluation.solved,
                    "success_rate": evaluation.success_rate,
                    "success_low": _interval(evaluation).low,
                    "success_high": _interval(evaluation).high,
                    "mean_length": evaluation.mean_length,
                }
                for evaluation in self.evaluations
            ],
            "gap": gap,
            "gap_low": interval.low,
            "gap_high": interval.high,
            "tolerance": self.tolerance,
            "worse": self.is_worse,
            "outcomes": [
                {
                    "seed": seed,
                    **{
                        engine: {"success": episode.success, "length": episode.length}
                        for engine, episode in zip(engines, pair, strict=True)
                    },
                }
                for seed, pair in zip(self.seeds, episodes, strict=True)
            ],
            "films": dict(self.films),
            "versions": dict(versions()),
            "command": self.command,
            "date": _today(),
        }

    def table(self) -> list[dict[str, str]]:
        """Return a row for each engine."""
        return [
            {
                "engine": evaluation.engine,
                "success (95 % interval)": with_interval(evaluation.success_rate, _interval(evaluation), ".1%"),
                "mean length": f"{evaluation.mean_length:.1f} steps",
                "version": _version(evaluation.engine),
            }
            for evaluation in self.evaluations
        ]

    def gap_in_words(self) -> str:
        """Return the gap with its interval, and the numbers of episodes in which the engines disagree."""
        first, second = self.evaluations
        gap, (low, high) = self.gap
        differ = [(a, b) for a, b in zip(_successes(first), _successes(second), strict=True) if a != b]
        points = f"{100 * gap:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f}) from {first.engine} to"
        alone = f"{first.engine} alone solves {sum(a for a, _ in differ)}, {second.engine} {sum(b for _, b in differ)}"
        return f"{points} {second.engine}; of {len(self.seeds)} equal episodes {alone}"

    def verdict(self) -> str:
        """Return the conclusion in words; `within` holds for the whole interval of the gap."""
        second, points, (low, high) = self.evaluations[1].engine, f"{100 * self.tolerance:g} points", self.gap[1]
        if self.is_worse:
            return f"worse in {second}: by more than {points}, and not by chance"
        if low < -self.tolerance:
            least = f"success may be {-100 * low:.1f} points lower in {second}"
            return f"undecided, by {counted(len(self.seeds), 'episode')}: {least}"
        return f"within {points} in {second}" if high <= self.tolerance else f"at most {points} lower in {second}"

    def to_markdown(self) -> str:
        """Return the content of certificate.md."""
        result = self.result
        films = [f"- [{outcome}]({path})" for outcome, path in self.films.items()]
        facts = {
            "training": f"{result.algo} ({result.framework}), {result.steps:,} env steps in {result.engine}",
            "config hash": result.config_hash,
            "SHA-256 of policy.safetensors": self.policy_sha256,
            "versions": ", ".join(" ".join(item) for item in versions().items()),
            "date": _today(),
        }
        rows = [{"run": name, label(result): fact} for name, fact in facts.items()]
        parts = [
            f"# Certificate of {label(result)}",
            as_markdown(self.table()).strip(),
            f"Gap: {self.gap_in_words()}.",
            f"Verdict: {self.verdict()}.",
            *(["Films, side by side:\n\n" + "\n".join(films)] if films else []),
            as_markdown(rows).strip(),
            f"```bash\n{self.command}\n```",
        ]
        return "\n\n".join(parts) + "\n"


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def check_engines(names: Sequence[str]) -> tuple[str, str]:
    """Return the names of two engines with single worlds.

    Raises:
        ConfigError: They are not two different ones, or one has no single worlds.
        RegistryError: An engine is unknown, or its package is missing.
    """
    for name in names:
        find_engine(name)
    if len(names) != 2 or names[0] == names[1]:
        raise ConfigError(bad_value("--engines", " ".join(names), "two different engines, e.g. pybullet mujoco"))
    return names[0], names[1]


def certify(
    path: str | Path,
    episodes: int,
    engines: Sequence[str] = (BULLET, MUJOCO),
    tolerance: float = 0.05,
    film: bool = True,
) -> Certificate:
    """Play the same fresh episodes in two engines; write certificate.json, certificate.md and films into the run.

    The gap is the success rate in the second engine minus that in the first; `tolerance` is the share of episodes by
    which it may be negative. The films show an episode in which both engines succeed, and one in which one of them
    succeeds.

    Raises:
        ConfigError: The path is no finished run or cannot be written, or an engine cannot play the run.
        RegistryError: See `check_engines`.
        RunError: The policy cannot be loaded, its actions are not finite, or a file cannot be written.
    """
    names = check_engines(engines)
    run = directory.find(path)
    result = finished_result(run)
    files.check_writable(run, "run")
    plan, policy = find_plan(run), load(run)
    content = (run / directory.POLICY).read_bytes()
    with contextlib.ExitStack() as stack:
        first, second = (env_factory.make_eval_envs(plan, stack, episodes, name) for name in names)
        seeds = episode_seeds(SEED, JUDGE, episodes, CERTIFIED, env=first[0])
        evaluations = tuple(evaluate_or_fail(str(run), policy, envs, seeds) for envs in (first, second))
        films = _film(run, policy, (first[0], second[0]), seeds, evaluations) if film else {}
    for name in set(FILMS.values()) - {Path(path).name for path in films.values()}:
        (run / directory.VIDEOS / name).unlink(missing_ok=True)  # of an earlier certificate
    certificate = Certificate(result, files.checksum(content), tuple(seeds), evaluations, tolerance, films)
    files.write_text((run / directory.CERTIFICATE).with_suffix(".md"), certificate.to_markdown())
    files.write_json(run / directory.CERTIFICATE, certificate.to_json())
    return certificate


def _successes(evaluation: Evaluation) -> list[bool]:
    return [episode.success for episode in evaluation.episodes]


def _interval(evaluation: Evaluation) -> Interval:
    """Return Wilson's interval of the success rate."""
    return success_interval(evaluation.solved, len(evaluation.episodes))


def _version(engine: str) -> str:
    """Return package and version of an engine; empty for an engine without a package."""
    modules = dict.fromkeys(each.__module__ for each in find_engine(engine).__mro__)
    return versions_in_words(*(package for module in modules for package in PACKAGES.get(module, ())))


def _film(
    run: Path,
    policy: Predicts,
    envs: tuple[AnyEnv, AnyEnv],
    seeds: Sequence[int],
    evaluations: tuple[Evaluation, ...],
) -> dict[str, str]:
    """Film the first episode of each key of `FILMS`; return the paths."""
    solved = np.sum(list(map(_successes, evaluations)), axis=0)  # number of engines
    films = {}
    for (outcome, name), number in zip(FILMS.items(), (2, 1), strict=True):
        if number in solved:
            record_side_by_side(policy, envs, seeds[int(np.argmax(solved == number))], run / directory.VIDEOS / name)
            films[outcome] = f"{directory.VIDEOS}/{name}"
    return films
