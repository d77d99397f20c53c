"""The search: asks for trials, executes their runs, stops bad trials, and continues after any end of its process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.nested import merged
from mygym.sweeps import executors, results, storage, trial_runs
from mygym.sweeps.executors import Executor, Job
from mygym.sweeps.samplers import ask, reopened
from mygym.sweeps.settings import FAST, Sweep, judge
from mygym.sweeps.trial_runs import Outcome, TrialRun

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial, TrialState

FIRST_SEED_PRUNERS = ("median", "hyperband")
"""Pruners that compare the evaluations of the first seed."""

WATCH = 1.0
"""s between two looks at the evaluations of a run that a pruner may stop."""


@dataclass
class OpenTrial:
    """A trial with runs that have not ended."""

    trial: Trial
    runs: dict[int, TrialRun]
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
    """A sweep whose folder this process has locked.

    Args:
        folder: Absolute path of the sweep.
        sweep: The sweep.
        study: The study in the journal of the folder.
        executor: Executes the runs.
        notify: Called with a line for each trial that ends.
    """

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
        with executors.interruptible(self.executor, self._handles, f"mygym sweep --resume {self.folder}") as stop:
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
        trial_runs.write_config(folder, merged(FAST, results.config_of(self.sweep, trial.params)))
        opened = OpenTrial(trial, {seed: TrialRun(folder, seed) for seed in self.sweep.seeds})
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

        outcomes = [opened.outcomes[seed] for seed in self.sweep.seeds if seed in opened.outcomes]
        if not all(outcome.scores for outcome in outcomes):
            self._record(opened, outcomes, TrialState.FAIL)
        elif self.sweep.settings.pruner != "none" and self._is_bad(opened):
            self._record(opened, outcomes, TrialState.PRUNED)
        elif len(outcomes) == len(self.sweep.seeds):
            self._record(opened, outcomes, TrialState.COMPLETE, judge([outcome.scores for outcome in outcomes]))
        else:
            return False
        return True

    def _record(
        self, opened: OpenTrial, outcomes: Sequence[Outcome], state: TrialState, scores: list[float] | None = None
    ) -> None:
        opened.trial.set_user_attr("runs", [outcome.to_json() for outcome in outcomes])
        self.study.tell(opened.trial, scores, state)

    def _is_bad(self, opened: OpenTrial) -> bool:
        """Show the figures of a trial to the pruner, each once and in their order, whenever they come."""
        if time.monotonic() < opened.next_look:
            return False
        opened.next_look = time.monotonic() + WATCH
        run = opened.runs[self.sweep.seeds[0]].path
        figures = trial_runs.figures_for_pruner(run, self.sweep, opened.outcomes)
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
