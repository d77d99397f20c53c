"""The search: asks for trials, executes their runs, stops bad trials, and continues after any end of its process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.errors import InterruptedRunError
from mygym.nested import merged
from mygym.sweeps import executors, results, storage, trial_runs
from mygym.sweeps.executors import Executor, Job
from mygym.sweeps.samplers import ask, reopened
from mygym.sweeps.settings import FAST, Sweep, judge
from mygym.sweeps.space import with_values
from mygym.sweeps.trial_runs import Outcome
from mygym.training.stop_request import StopRequest

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
    folder: Path
    waiting: list[int]
    """Seeds whose runs have not begun, or continue from a checkpoint."""
    running: dict[int, Any] = field(default_factory=dict)
    """Seed → handle of the executor."""
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    judged: bool = False
    """Whether the journal has its end; its runs may still be stopping."""
    undecided: bool = False
    """Whether a killed process may have shown the last evaluation to the pruner without its decision."""
    looked: int = 0
    """Number of outcomes at the last look at the figures for the pruner."""
    next_look: float = 0.0
    """`time.monotonic()` of the next look at the figures; infinite if only another outcome can change them."""


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
    ended: int = 0
    """Trials that ended in this process."""

    def run(self) -> None:
        """Execute all trials; after a signal, the runs stop with checkpoints.

        Raises:
            InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP.
        """
        began = time.monotonic()
        with StopRequest("after the checkpoints of the runs") as stop:
            self._reopen()
            while not stop.received:
                self._collect(began)
                self._fill()
                if not self.open:
                    return
                time.sleep(executors.POLL)
            self._stop_all()
        raise InterruptedRunError(f"interrupted; go on with: mygym sweep --resume {self.folder}")

    # Trials -------------------------------------------------------------------------------------------------------

    def _reopen(self) -> None:
        """Continue the trials that a killed process has left."""
        for frozen in self.study.get_trials(deepcopy=False):
            if not frozen.state.is_finished():
                self._open(reopened(self.study, frozen)).undecided = bool(frozen.intermediate_values)

    def _open(self, trial: Trial) -> OpenTrial:
        folder = storage.trial_folder(self.folder, trial.number)
        values = {each.path: each.value(trial.params[each.key]) for each in self.sweep.parameters}
        trial_runs.write_config(folder, merged(FAST, with_values(self.sweep.base, values)))
        opened = OpenTrial(trial, folder, list(self.sweep.seeds))
        for seed in self.sweep.seeds:
            self._end_run(opened, seed, trial_runs.outcome(folder, seed, self.sweep.objectives))
        self.open.append(opened)
        return opened

    def _end_run(self, opened: OpenTrial, seed: int, outcome: Outcome | None) -> None:
        if outcome is not None:
            opened.outcomes[seed] = outcome
            opened.waiting = [other for other in opened.waiting if other != seed]

    def _fill(self) -> None:
        """Start runs until all workers have one."""
        while sum(len(opened.running) for opened in self.open) < self.executor.workers:
            startable = next(self._startable(), None)
            if startable is not None:
                opened, seed, job = startable
                opened.waiting.remove(seed)
                opened.running[seed] = self.executor.submit(job)
            elif len(self.study.get_trials(deepcopy=False)) < self.sweep.trials:
                settings = self.sweep.settings
                self._open(ask(self.study, self.sweep.parameters, self.sweep.sampler, settings.sampler_seed))
            else:
                return

    def _startable(self) -> Iterator[tuple[OpenTrial, int, Job]]:
        """Yield the runs that may start; the first seed may decide whether the other seeds begin."""
        first, imports = self.sweep.seeds[0], self.sweep.base.get("imports", ())
        for opened in self.open:
            if not opened.judged:
                alone = self.sweep.settings.pruner in FIRST_SEED_PRUNERS and first not in opened.outcomes
                for seed in opened.waiting:
                    job = trial_runs.job(opened.folder, seed, imports, self.memory)
                    if (not alone or seed == first) and not job.busy():
                        yield opened, seed, job

    # Ends ---------------------------------------------------------------------------------------------------------

    def _collect(self, began: float) -> None:
        """Record the runs and trials that have ended, and stop the runs of trials that are pruned."""
        for opened in list(self.open):
            for seed, handle in list(opened.running.items()):
                if self.executor.poll(handle) is not None:
                    del opened.running[seed]
                    ended = trial_runs.outcome(opened.folder, seed, self.sweep.objectives)
                    self._end_run(opened, seed, ended or trial_runs.failure(opened.folder, seed))
            if not opened.judged and self._judge(opened):
                opened.judged = True
                self.ended += 1
                self._announce(opened, began)
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
        ended, now = len(opened.outcomes), time.monotonic()
        if ended == opened.looked and now < opened.next_look:
            return False
        follows = self.sweep.settings.pruner in FIRST_SEED_PRUNERS and self.sweep.seeds[0] not in opened.outcomes
        opened.looked, opened.next_look = ended, now + WATCH if follows else math.inf
        run = trial_runs.find_run(opened.folder, self.sweep.seeds[0])
        figures = trial_runs.figures_for_pruner(run, self.sweep, opened.outcomes)
        known = self._frozen(opened).intermediate_values
        waits_for_all = self.sweep.settings.pruner not in FIRST_SEED_PRUNERS
        has_ended = waits_for_all and ended == len(self.sweep.seeds)  # pruning would save nothing
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

    def _stop_all(self) -> None:
        executors.stop_all(self.executor, [handle for opened in self.open for handle in opened.running.values()])

    def _announce(self, opened: OpenTrial, began: float) -> None:
        """Report the end of a trial, the best trial so far, and the time left."""
        best = results.best(self.sweep, self.study)
        if best is not None and best.number == opened.trial.number:
            results.write_best(self.folder, self.sweep, best)
        done = sum(trial.state.is_finished() for trial in self.study.get_trials(deepcopy=False))
        left = (time.monotonic() - began) / self.ended * (self.sweep.trials - done)
        self.notify(results.progress_line(self.sweep, self._frozen(opened), best, done, left))
