"""New and resumed sweeps: trials from past runs, the search, more env steps for the best trials; lock and results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.config import Resolved, config_hash
from mygym.errors import ConfigError, InterruptedRunError, RunError, bad_value
from mygym.nested import at, merged
from mygym.planning.plan import plan_of
from mygym.planning.resolve import resolve_config
from mygym.reporting.records import SweepFiles, find_runs
from mygym.reporting.settings import ENDED
from mygym.reporting.tables import as_csv
from mygym.sweeps import executors, population, results, storage
from mygym.sweeps.executors import Executor, Job, stop_left_over
from mygym.sweeps.settings import FAST, Sweep, check_space, judge, make_sweep
from mygym.sweeps.space import ask, check_optuna, make_pruner, quiet, reopened
from mygym.sweeps.storage import Outcome, SeedRun
from mygym.training import directory, files
from mygym.training.env_factory import make_vec_env, try_worlds_of
from mygym.training.loading import read_config
from mygym.training.model_factory import buffer_bytes, build_model, explained
from mygym.training.result import Result

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

JUDGED = ("eval", "stop_at_success")
"""Config keys that the hash of a config leaves out, and that change evaluations."""


def find_trials(sweep: Sweep, folders: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Return the trials of past runs: of each combination of values, the runs of all seeds of the sweep.

    The config of a run must be that of a trial of the sweep, and the run must have ended. Values of the parameters must
    lie within their ranges.

    Raises:
        ConfigError: A folder does not exist, or has no such runs.
    """
    trials: list[dict[str, Any]] = []
    for folder in folders:
        of_folder = _in_folder(sweep, folder)
        if not of_folder:
            seeds = ", ".join(map(str, sweep.seeds))
            allowed = f"a folder with finished runs of this space, each with the seeds {seeds}"
            raise ConfigError(bad_value("--past", str(folder), allowed, "has no such runs"))
        for trial in of_folder:
            trials += [trial] if all(trial["values"] != other["values"] for other in trials) else []
    return trials


def _in_folder(sweep: Sweep, folder: str | Path) -> list[dict[str, Any]]:
    settings: dict[str, dict[int, Path]] = {}
    for record in find_runs(folder):
        if record.status in ENDED and record.seed in sweep.seeds:
            settings.setdefault(record.setting, {}).setdefault(record.seed, Path(record.path))
    trials = []
    for runs in settings.values():
        if len(runs) == len(sweep.seeds) and (values := _values(sweep, runs[sweep.seeds[0]])) is not None:
            found = {seed: storage.outcome_of(runs[seed], sweep.objectives) for seed in sweep.seeds}
            outcomes = {seed: outcome for seed, outcome in found.items() if outcome is not None and outcome.scores}
            if len(outcomes) == len(sweep.seeds):
                first = runs[sweep.seeds[0]]
                trials.append(
                    {
                        "values": values,
                        "scores": judge([outcome.scores for outcome in outcomes.values()]),
                        "figures": list(storage.figures_for_pruner(first, sweep, outcomes).values()),
                        "runs": [outcome.to_json() for outcome in outcomes.values()],
                        "past": str(first.parent),
                    }
                )
    return trials


def _values(sweep: Sweep, run: Path) -> dict[str, Any] | None:
    """Return key → stored value of each parameter in a run; None if the run is not in the space."""
    config, result = directory.saved_config(run), Result.read(run)
    values = {each.key: at(config, each.path) for each in sweep.parameters}
    if result is None or not all(each.contains(values[each.key]) for each in sweep.parameters):
        return None
    try:
        trial = resolve_config(merged(FAST, sweep.config(values)))
    except ConfigError:
        return None
    same = all(trial.values()[key] == config.get(key) for key in ("algo", "task", "robot", *JUDGED))
    if not same or config_hash(explained(trial).values()) != result.config_hash:
        return None
    return {each.key: each.stored(values[each.key]) for each in sweep.parameters}


FIRST_SEED_PRUNERS = ("median", "hyperband")
"""Pruners that compare the evaluations of the first seed."""

WATCH = 1.0
"""s between two looks at the evaluations of a run that a pruner may stop."""


@dataclass
class OpenTrial:
    """A trial with runs that have not ended."""

    trial: Trial
    runs: dict[int, SeedRun]
    """Seed → run."""
    running: dict[int, Any] = field(default_factory=dict)
    """Seed → handle of the executor."""
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    judged: bool = False
    """Whether the journal has its end; its runs may still be stopping."""
    undecided: bool = False
    """Whether a killed process may have shown the last evaluation to the pruner without its decision."""
    next_look: float = 0.0
    """`time.monotonic()` of the next look at the figures for the pruner."""


@dataclass
class Search:
    """A sweep whose folder this process has locked."""

    folder: Path
    sweep: Sweep
    study: Study
    executor: Executor
    notify: Callable[[str], None]
    memory: int
    """Estimated bytes of a run."""
    open: list[OpenTrial] = field(default_factory=list)

    def run(self) -> None:
        """Execute all trials; after a signal, the runs stop with checkpoints.

        Raises:
            InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP.
        """
        with executors.interruptible(
            self.executor, self._handles, f"mygym sweep {directory.resume_flag(self.folder)}"
        ) as stop:
            for frozen in self.study.get_trials(deepcopy=False):
                if not frozen.state.is_finished():  # a killed process has left it
                    self._open(reopened(self.study, frozen)).undecided = bool(frozen.intermediate_values)
            while not stop.received:
                self._collect()
                self._fill()
                if not self.open:
                    return
                time.sleep(executors.POLL)

    def _handles(self) -> list[Any]:
        return [handle for opened in self.open for handle in opened.running.values()]

    def _open(self, trial: Trial) -> OpenTrial:
        folder = storage.trial_folder(self.folder, trial.number)
        storage.write_config(folder, merged(FAST, self.sweep.config(results.values_of(self.sweep, trial))))
        opened = OpenTrial(trial, {seed: SeedRun(folder, seed) for seed in self.sweep.seeds})
        for seed, run in opened.runs.items():
            if (outcome := run.outcome(self.sweep.objectives)) is not None:
                opened.outcomes[seed] = outcome
        self.open.append(opened)
        return opened

    def _fill(self) -> None:
        """Start runs until the executor has as many as it allows."""
        while len(self._handles()) < self.executor.jobs:
            if (startable := self._startable()) is not None:
                opened, seed, job = startable
                opened.running[seed] = self.executor.submit(job)
            elif len(self.study.get_trials(deepcopy=False)) < self.sweep.trials:
                settings = self.sweep.settings
                self._open(ask(self.study, self.sweep.parameters, self.sweep.sampler, settings.sampler_seed))
            else:
                return

    def _startable(self) -> tuple[OpenTrial, int, Job] | None:
        """Return a run that may start; the first seed may decide whether the other seeds begin."""
        first, imports = self.sweep.seeds[0], self.sweep.base.get("imports", ())
        for opened in self.open:
            alone = self.sweep.settings.pruner in FIRST_SEED_PRUNERS and first not in opened.outcomes
            for seed, run in opened.runs.items() if not opened.judged else ():
                if seed not in opened.outcomes and seed not in opened.running and (not alone or seed == first):
                    job = run.job(imports, self.memory)
                    if not job.busy():
                        return opened, seed, job
        return None

    def _collect(self) -> None:
        """Record the runs and trials that have ended, and stop the runs of trials that are pruned."""
        for opened in list(self.open):
            for seed, handle in list(opened.running.items()):
                if self.executor.poll(handle) is not None:
                    del opened.running[seed]
                    run = opened.runs[seed]
                    opened.outcomes[seed] = run.outcome(self.sweep.objectives) or run.failure()
                    opened.next_look = 0.0
            if not opened.judged and self._judge(opened):
                opened.judged = True
                self._announce(opened)
                for handle in opened.running.values():
                    self.executor.stop(handle)
            if opened.judged and not opened.running:
                self.open.remove(opened)

    def _judge(self, opened: OpenTrial) -> bool:
        """Record the end of a trial if it has ended: pruned, failed or complete."""
        from optuna.trial import TrialState

        outcomes, scores = [opened.outcomes[seed] for seed in self.sweep.seeds if seed in opened.outcomes], None
        if not all(outcome.scores for outcome in outcomes):
            state = TrialState.FAIL
        elif self.sweep.settings.pruner != "none" and self._is_bad(opened):
            state = TrialState.PRUNED
        elif len(outcomes) == len(self.sweep.seeds):
            state, scores = TrialState.COMPLETE, judge([outcome.scores for outcome in outcomes])
        else:
            return False
        opened.trial.set_user_attr("runs", [outcome.to_json() for outcome in outcomes])
        self.study.tell(opened.trial, scores, state)
        return True

    def _is_bad(self, opened: OpenTrial) -> bool:
        """Show the figures of a trial to the pruner, each once and in their order, whenever they come."""
        if time.monotonic() < opened.next_look:
            return False
        opened.next_look = time.monotonic() + WATCH
        run = opened.runs[self.sweep.seeds[0]].path
        figures = storage.figures_for_pruner(run, self.sweep, opened.outcomes)
        known = self._frozen(opened).intermediate_values
        waits_for_all = self.sweep.settings.pruner not in FIRST_SEED_PRUNERS
        has_ended = waits_for_all and len(opened.outcomes) == len(self.sweep.seeds)  # pruning would save nothing
        if opened.undecided and not has_ended and opened.trial.should_prune():
            return True
        opened.undecided = False
        for step, figure in figures.items():
            if step in known:
                continue
            opened.trial.report(figure, step)
            if not has_ended and opened.trial.should_prune():
                return True
        return False

    def _frozen(self, opened: OpenTrial) -> FrozenTrial:
        return self.study.get_trials(deepcopy=False)[opened.trial.number]

    def _announce(self, opened: OpenTrial) -> None:
        """Report the end of a trial, the best trial so far, and the time left."""
        best, trial = results.best(self.sweep, self.study), self._frozen(opened)
        if best is not None and best.number == trial.number:
            results.write_best(self.folder, self.sweep, best)
        self.notify(results.progress_line(self.sweep, self.study, trial, self.executor.jobs))


PROCESS = {"pytorch": 450_000_000, "jax": 900_000_000}
"""Framework → bytes of a process with the libraries, a small network and its optimiser."""

CLIENT = 30_000_000
"""Bytes of an environment with a physics client for itself."""


def run_memory(resolved: Resolved) -> int:
    """Return the bytes of memory that a run needs: libraries, environments and the full replay buffer.

    Raises:
        ConfigError: The model cannot be built, or its buffer does not fit into the free memory.
    """
    config = resolved.config
    clients = config.n_envs + 1 if config.engine == "pybullet" else 1
    buffer = 0
    if "buffer_size" in config.algo_params:
        plan = plan_of(resolved)
        with closing(make_vec_env(plan, only_spaces=True)) as env:
            buffer, _ = buffer_bytes(build_model(plan, env))
    return PROCESS.get(config.framework, PROCESS["pytorch"]) * config.learners + CLIENT * clients + buffer


@dataclass(frozen=True)
class Report:
    """Results of a sweep."""

    folder: Path
    objective: str
    """Name of the scores."""
    best: Path
    """The best config."""
    importance: dict[str, float]
    """Key → share of the importance, the largest first; empty if it is unknown."""
    rows: list[dict[str, Any]]
    """A row for each trial: the best first, then those without a score."""


def new_sweep(
    folder: Path,
    file: Mapping[str, Any],
    overrides: Mapping[str, Any],
    executor: Executor,
    notify: Callable[[str], None],
    past: Sequence[str] = (),
) -> Report:
    """Execute a new sweep.

    Args:
        folder: New folder.
        file: Content of a sweep file.
        overrides: Values and ranges of flags.
        executor: Executes the runs.
        notify: Called with messages for the user.
        past: Folders whose runs become trials.

    Returns:
        The trials and the best of them.

    Raises:
        ConfigError: Something is wrong in the file, a flag or the space; nothing has been written.
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP; `resume_sweep` continues.
        RunError: No trial has ended with a score.
    """
    sweep = make_sweep(file, overrides)
    evaluations, memory = _checked(sweep, executor, notify)
    if past and sweep.settings.population:
        raise ConfigError(bad_value("--past", list(past), "no folder", "cannot be combined with sweep.population"))
    trials = find_trials(sweep, past)
    if trials:
        notify(f"{len(trials)} trials are runs of {', '.join(past)}")
    storage.create(folder, sweep, trials)
    return _execute(folder.resolve(), sweep, evaluations, memory, executor, notify)


def resume_sweep(
    folder: Path,
    file: Mapping[str, Any] | None,
    overrides: Mapping[str, Any],
    executor: Executor,
    notify: Callable[[str], None],
) -> Report:
    """Continue a sweep that was stopped or killed, or add trials to it.

    Args:
        folder: Folder of the sweep.
        file: Content of a sweep file, which must agree with the sweep but for the number of trials; None: not given.
        overrides: Values and ranges of flags, which must agree as well.
        executor: Executes the runs.
        notify: Called with messages for the user.

    Returns:
        The trials of both executions and the best of them.

    Raises:
        ConfigError: The folder has no sweep or another sweep, or another process executes it.
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP.
        RunError: No trial has ended with a score.
    """
    stored = storage.read(folder)
    sweep = make_sweep(stored.to_file() if file is None else file, overrides)
    storage.check_same(folder, stored.fixed(), sweep.fixed())
    evaluations, memory = _checked(sweep, executor, notify)
    return _execute(folder.resolve(), sweep, evaluations, memory, executor, notify)


def _checked(sweep: Sweep, executor: Executor, notify: Callable[[str], None]) -> tuple[int, int]:
    """Check a sweep, and limit the runs at the same time to those that fit into the memory.

    Return the number of evaluations of the longest run, and the bytes of memory of the largest.
    """
    if sweep.settings.population is None:
        check_optuna(sweep.sampler)
    else:
        population.check(sweep)
    trials = check_space(sweep)
    try_worlds_of(trials)
    evaluations = max(-(-trial.config.steps // trial.config.eval.every) for trial in trials.values())
    memory, before = run_memory(max(trials.values(), key=_size)), executor.jobs
    executor.limit(memory)
    if executor.jobs < before:
        notify(f"jobs: {executor.jobs}, because a run needs about {memory / 1e9:.1f} GB of memory")
    return evaluations, memory


def _size(resolved: Resolved) -> tuple[int, int]:
    """Return the rows of the replay buffer of a run, and its number of environments."""
    rows = resolved.config.algo_params.get("buffer_size")
    return rows if isinstance(rows, int) else 0, resolved.config.n_envs


def _execute(
    folder: Path, sweep: Sweep, evaluations: int, memory: int, executor: Executor, notify: Callable[[str], None]
) -> Report:
    if sweep.settings.population is not None:
        with storage.lock(folder), files.writing(folder):
            stop_left_over(folder)
            rows = population.write(population.search(folder, sweep, executor, memory, notify))
            return Report(folder, sweep.objective.name, folder / SweepFiles.BEST, {}, rows)
    with storage.lock(folder), quiet(), files.writing(folder):
        study = storage.open_study(folder, sweep, make_pruner(sweep.settings.pruner, evaluations))
        files.write_yaml(folder / SweepFiles.SWEEP, sweep.to_file())  # the number of trials may have changed
        stop_left_over(folder)
        asked, ended = sweep.settings.trials or 0, len(results.ended(study))
        if asked > sweep.trials:
            notify(f"trials: {asked}, but the grid has {sweep.trials}")
        if ended >= sweep.trials:
            notify(f"no trial is left: {ended} of {sweep.trials} have ended")
        try:
            Search(folder, sweep, study, executor, notify, memory).run()
        except InterruptedRunError:
            results.write_results(folder, sweep, study)
            raise
        rows = results.write_results(folder, sweep, study)
        if results.best(sweep, study) is None:
            table = folder / SweepFiles.TABLE
            raise RunError(f"no trial has ended with a score: the column `error` of {table} has reasons")
        names = ", ".join(each.name for each in sweep.objectives)
        return Report(folder, names, folder / SweepFiles.BEST, results.importances(study, sweep), rows)


def train_on(folder: Path, count: int, steps: int, executor: Executor, notify: Callable[[str], None]) -> Report:
    """Continue the runs of the best trials of a sweep to a number of env steps; may be repeated after any end.

    Raises:
        ConfigError: The folder has no sweep, another process executes it, or the runs are as long already.
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP.
        RunError: No trial has a score, before or afterwards.
    """
    sweep = storage.read(folder)
    if sweep.settings.population is not None:
        raise ConfigError(bad_value("--train-on", count, "a sweep without sweep.population", "needs trials"))
    _, memory = _checked(sweep, executor, notify)
    folder = folder.resolve()
    with storage.lock(folder), quiet(), files.writing(folder):
        trials = _best(folder, sweep, count)
        runs = [(trial, _run(folder, trial, seed)) for trial in trials for seed in sweep.seeds]
        for _, run in runs:
            now = read_config(run.path)["steps"] if run.path else 0
            if now > steps:
                why = f"is less than the {now:,} steps of {run.path}"
                raise ConfigError(bad_value("--steps", steps, f"at least {now:,}", why))
        stop_left_over(folder)
        waiting = [(trial, run) for trial, run in runs if not run.has_ended(steps)]
        imports = sweep.base.get("imports", ())

        def note(index: int) -> None:
            trial, run = waiting[index]
            status = (run.outcome(sweep.objectives) or run.failure()).status
            notify(f"trial {trial.number}, seed {run.seed}: {status} at {steps:,} steps")

        again = f"mygym sweep {directory.resume_flag(folder)} --train-on {count} --steps {steps}"
        executors.execute(executor, [run.job(imports, memory, steps) for _, run in waiting], note, again)
        return _report(folder, sweep, trials, steps)


def _best(folder: Path, sweep: Sweep, count: int) -> list[FrozenTrial]:
    study = storage.open_study(folder, sweep)
    trials = [trial for trial in results.ranked(sweep, study) if "past" not in trial.user_attrs]
    trained = [trial for trial in trials if all(run["status"] == "done" for run in trial.user_attrs.get("runs", []))]
    if not trained:
        raise RunError(f"{folder}: no trial of this sweep has ended with a score")
    return trained[:count]


def _run(folder: Path, trial: FrozenTrial, seed: int) -> SeedRun:
    run = SeedRun(storage.trial_folder(folder, trial.number), seed)
    if run.path is None:
        raise RunError(f"{run.folder}: the run with the seed {seed} is gone")
    return run


def _report(folder: Path, sweep: Sweep, trials: Sequence[FrozenTrial], steps: int) -> Report:
    """Write the table and the config of the best trial."""
    rows = []
    for trial in trials:
        outcomes = [_run(folder, trial, seed).outcome(sweep.objectives) for seed in sweep.seeds]
        complete = [outcome for outcome in outcomes if outcome is not None and outcome.scores]
        whole = len(complete) == len(sweep.seeds)
        rows.append(
            {
                "trial": trial.number,
                "score": judge([outcome.scores for outcome in complete])[0] if whole else None,
                "score_before": trial.values[0],
                "steps": steps,
                **results.values_of(sweep, trial),
                "seconds": round(sum(outcome.seconds or 0.0 for outcome in complete), 1),
                "error": next((outcome.error for outcome in outcomes if outcome and outcome.error), None),
            }
        )
    rows = results.sorted_by_score(sweep, rows)
    files.write_text(folder / SweepFiles.TRAINED_ON, as_csv(rows))
    if rows[0]["score"] is None:
        raise RunError(f"no trial has ended with a score: the column `error` of {folder / SweepFiles.TRAINED_ON}")
    top = next(trial for trial in trials if trial.number == rows[0]["trial"])
    head = f"# trial {top.number}, trained on to {steps:,} steps: {sweep.objective.name} {rows[0]['score']:g}\n"
    best = folder / SweepFiles.TRAINED_ON_BEST
    files.write_text(best, head + files.to_yaml({**sweep.config(results.values_of(sweep, top)), "steps": steps}))
    return Report(folder, sweep.objective.name, best, {}, rows)
