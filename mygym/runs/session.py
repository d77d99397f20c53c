"""A run from the moment everything is built: learns, saves, judges, films, and writes down how it ended."""

from __future__ import annotations

import contextlib
import math
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger

from mygym.envs.multi_task_env import AnyEnv
from mygym.errors import DivergedError, InterruptedRunError, MygymError, RunError
from mygym.runs import callbacks, directory, factory, logs, schedule_callback
from mygym.runs.checkpoints import receipts, serialization, state
from mygym.runs.checkpoints.checkpoints import Checkpoint, Checkpoints
from mygym.runs.evaluation import (
    EVALUATION,
    FINAL,
    TEST,
    Evaluation,
    Predicts,
    episode_seeds,
    evaluate_policy,
    in_turn,
)
from mygym.runs.plan import RunPlan
from mygym.runs.policy import Policy, normalizer_of, save_policy
from mygym.runs.result import Result, versions
from mygym.runs.stop_request import StopRequest
from mygym.runs.strategy_callback import StrategyCallback
from mygym.runs.video import FAILED, film, film_failures


class Session:
    """One process's part of a run: all of it, or what is left of a run that was stopped.

    Args:
        plan: The run's plan; its strategies are prepared.
        env: Training environments.
        model: The algorithm.
        eval_envs: Environments for evaluations and films.
        result: What `result.json` will say; its `path` is the run directory, which nobody else writes.
        started: `time.perf_counter()` when the process's part began.
        checkpoint: Where to go on from, if not from the start.
        tell: Called with what the user should know.
    """

    def __init__(
        self,
        plan: RunPlan,
        env: Any,
        model: Any,
        eval_envs: list[AnyEnv],
        result: Result,
        started: float,
        checkpoint: Checkpoint | None,
        tell: Callable[[str], None],
    ) -> None:
        config, resolved = plan.config, plan.resolved
        self.plan, self.resolved, self.result = plan, resolved, result
        self.env, self.model, self.eval_envs = env, model, eval_envs
        self.path, self.tell = result.path, tell
        self.told: set[str] = set()
        self.place = directory.Place(self.path)
        self.started = started - (checkpoint.state["seconds"]["run"] if checkpoint else 0.0)
        self.learning_before = checkpoint.state["seconds"]["learning"] if checkpoint else 0.0
        self.learning_since: float | None = None
        self.checkpoint = checkpoint
        self.checkpoints = Checkpoints(self.path, config.checkpoint.keep)
        self.stop = StopRequest("with a checkpoint after this rollout")
        self.schedules = schedule_callback.ScheduleCallback(factory.schedules_of(plan), config.steps)
        self.progress = callbacks.ProgressBarCallback(config.steps)
        self.divergence = callbacks.DivergenceCallback()
        self.evaluations = callbacks.EvaluationCallback(
            self._evaluate,
            config.eval.every,
            config.stop_at_success,
            self._elapsed,
            on_best=self._save_best,
            report=self._evaluated,
            test=partial(self._evaluate, purpose=TEST) if config.eval.test_episodes else None,
        )
        self.marks = callbacks.CheckpointCallback(config.checkpoint.every, self._write_checkpoint, self.stop)
        self.steering = StrategyCallback(plan.strategies, self._write_checkpoint)

    def run(self, learn: Callable[[list[BaseCallback]], object]) -> Result:
        """The whole run; `result.json` is written however it ends.

        Args:
            learn: Trains the model with these callbacks.

        Raises:
            DivergedError: A number was not finite.
            RunError: Something failed.
            InterruptedRunError: Ctrl-C or SIGTERM.
        """
        try:
            with self.stop:
                self._open_logs()
                self._learn(learn)
                policy = self._saved_policy()
                self._film(policy, self._judge(policy))
            self.result.status = "done"
            self._write_result()
            return self.result
        except KeyboardInterrupt:
            raise self._interrupted() from None
        except Exception as error:
            raise self._failed(error) from error
        finally:
            self.progress.close()
            self.model.logger.close()
            self.place.close()

    # Learning -----------------------------------------------------------------------------------------------------

    def _open_logs(self) -> None:
        """Open the logs where the checkpoint left them, and say what is not as it was."""
        config, path = self.resolved.config, self.path
        writers: list[KVWriter] = []
        self.model.set_logger(Logger(str(path), writers))  # first of all, as it is closed whatever fails
        with directory.writing(path):
            (path / directory.CHECKPOINTS).mkdir(exist_ok=True)
        directory.write_yaml(path / directory.CONFIG, self.resolved.values())
        for name in (directory.RESULT, directory.TRACEBACK):  # of an earlier part: this one may come to another
            (path / name).unlink(missing_ok=True)
        self.checkpoints.go_on_from(self.checkpoint)
        for message in logs.cut(path, self.checkpoint.logs if self.checkpoint else {}):
            self.tell(message)
        if self.checkpoint is not None and self.checkpoint.versions != versions():
            changed = {key: value for key, value in versions().items() if self.checkpoint.versions.get(key) != value}
            self.tell(f"other versions than at the checkpoint, so the numbers may differ: now {changed}")
        note = self.evaluations.training.add
        factory.record_episodes(self.env, path / directory.MONITOR, time.time() - self._elapsed(), note)
        writers.append(logs.JsonLines(path / directory.PROGRESS))
        if config.tensorboard:
            writers.append(logs.TensorBoard(path / directory.TENSORBOARD))

    def _learn(self, learn: Callable[[list[BaseCallback]], object]) -> None:
        if self.checkpoint is not None and self.checkpoint.finished:
            self._load(self.checkpoint)
        else:
            self._check_state()
            resume = callbacks.ResumeCallback(partial(self._load, self.checkpoint) if self.checkpoint else None)
            self.learning_since = time.perf_counter()
            try:
                learn(
                    [
                        *(resume, self.schedules, self.progress, self.divergence, self.evaluations, self.marks),
                        self.steering,  # after checkpoints: what it decides, a resumed run lets it decide again
                    ]
                )
            except callbacks.LearningEnd:
                pass
            finally:
                self.result.steps = int(self.model.num_timesteps)
                self.learning_before, self.learning_since = self._learning(), None
            self._write_checkpoint(finished=True)
        if self.stop.received:
            raise KeyboardInterrupt
        self.stop.at_once = True
        self.steering.finish(partial(self._evaluate, len(self.evaluations.records)))
        self.result.steps = int(self.model.num_timesteps)
        self.result.steps_per_second = self.result.steps / max(self._learning() - self.evaluations.seconds, 1e-9)
        self._save(directory.MODEL, directory.POLICY)

    def _evaluate(self, number: int, purpose: int = EVALUATION) -> Evaluation:
        config = self.resolved.config
        count = config.eval.test_episodes if purpose == TEST else config.eval.episodes
        seeds = in_turn(episode_seeds(config.seed, purpose, count, number), self.eval_envs[0])
        return _finite(evaluate_policy(Policy(self.model, normalizer_of(self.env)), self.eval_envs, seeds))

    def _evaluated(self, record: dict[str, Any]) -> None:
        if outcome := self.steering.outcome():
            record["strategy"] = outcome
        self.progress.show(record)
        self.steering.on_evaluation(record)

    def _elapsed(self) -> float:
        """Seconds that the run has taken, the process's time before a resumed run's checkpoint included."""
        return time.perf_counter() - self.started

    def _learning(self) -> float:
        """Seconds in `learn`."""
        since = 0.0 if self.learning_since is None else time.perf_counter() - self.learning_since
        return self.learning_before + since

    # Saving and loading -------------------------------------------------------------------------------------------

    def _save_best(self) -> None:
        self.divergence.look_at_weights()
        self._save(directory.BEST_MODEL, directory.BEST_POLICY)

    def _save(self, model: str, policy: str) -> None:
        self.place.check()
        directory.write(self.path / model, self.model.save)
        receipts.record(self.path / model)
        save_policy(self.path / policy, self.model, normalizer_of(self.env))

    def _stateful(self) -> dict[str, Any]:
        return {
            "divergence": self.divergence,
            "evaluations": self.evaluations,
            "checkpoints": self.marks,
            "strategies": self.steering,
        }

    def _algorithm_state(self) -> Any:
        own: Callable[[], Any] = getattr(self.model, "state_dict", partial(state.algorithm_state, self.model))
        return own()

    def _check_state(self) -> None:
        """Now rather than at the first checkpoint.

        Raises:
            RunError: The algorithm's state cannot be saved.
        """
        try:
            serialization.to_files(self._algorithm_state())
        except TypeError as error:
            raise RunError(f"state_dict of {type(self.model).__name__}: {error}") from None
        self._tell_unsaved()

    def _tell_unsaved(self) -> None:
        """Say once of each attribute that checkpoints do not hold it; some appear while it learns."""
        own = getattr(type(self.model), "state_dict", state.Stateful.state_dict)
        unsaved = state.unsaved(self.model) if own is state.Stateful.state_dict else []
        missing = [name for name in unsaved if name not in self.told]
        self.told |= set(missing)
        if missing:
            self.tell(
                f"checkpoints do not hold {', '.join(missing)} of {type(self.model).__name__}: a resumed run begins "
                "with new ones; give them state_dict and load_state_dict"
            )

    def _write_checkpoint(self, finished: bool = False) -> Path:
        self.place.check()
        self._tell_unsaved()
        self.divergence.look_at_weights()  # nobody wants to go on from NaN
        started = self.model.start_time
        tree = {
            "config": self.resolved.values(),
            "algorithm": self._algorithm_state(),
            "env": state.env_state(self.env),
            "callbacks": {name: one.state_dict() for name, one in self._stateful().items()},
            "logger": state.logger_state(self.model.logger),
            "seconds": {"run": self._elapsed(), "learning": self._learning(), "sb3": (time.time_ns() - started) / 1e9},
            "random": state.random_state(),
        }
        buffer = getattr(self.model, "replay_buffer", None)
        return self.checkpoints.write(int(self.model.num_timesteps), tree, logs.lengths(self.path), buffer, finished)

    def _load(self, checkpoint: Checkpoint) -> None:
        """Bring everything to where the checkpoint was taken; the random generators last, since the others draw."""
        saved = checkpoint.state
        own = getattr(self.model, "load_state_dict", partial(state.load_algorithm_state, self.model))
        own(saved["algorithm"])
        if checkpoint.replay is not None:
            self.checkpoints.replay.load(
                self.model.replay_buffer, checkpoint.replay, checkpoint.chunks, checkpoint.steps
            )
        if not state.load_env_state(self.env, saved["env"]):
            self.tell(
                "the replayed episodes differ from the recorded ones (another machine?): goes on, but not to the bit"
            )
        for name, one in self._stateful().items():
            if getattr(one, "model", None) is None:
                one.init_callback(self.model)
            one.load_state_dict(saved["callbacks"][name])
        state.load_logger_state(self.model.logger, saved["logger"])
        self.model.start_time = time.time_ns() - int(saved["seconds"]["sb3"] * 1e9)
        state.load_random_state(saved["random"])

    # Judging ------------------------------------------------------------------------------------------------------

    def _saved_policy(self) -> Predicts:
        """What is judged and filmed is model.zip as it was written, not the model in memory."""
        cls = factory.loadable(self.plan)
        model = cls.load(self.path / directory.MODEL, env=self.env, device=self.resolved.config.device)
        return Policy(model, normalizer_of(self.env))

    def _judge(self, policy: Predicts) -> Evaluation:
        count = self.resolved.config.eval.final_episodes
        seeds = in_turn(episode_seeds(self.result.seed, FINAL, count), self.eval_envs[0])
        evaluation = _finite(evaluate_policy(policy, self.eval_envs, seeds))
        self.result.success_rate = evaluation.success_rate
        self.result.mean_return = evaluation.mean_return
        self.result.stage_reached = evaluation.stage_reached
        self.result.success_by_task = evaluation.success_by_task
        return evaluation

    def _film(self, policy: Predicts, evaluation: Evaluation) -> None:
        count = self.resolved.config.video.episodes
        seeds = in_turn(episode_seeds(self.result.seed, FINAL, count), self.eval_envs[0])
        if seeds:
            self.place.check()
            folder = self.path / directory.VIDEOS
            film(policy, self.eval_envs[0], seeds, folder / "final.mp4")
            for old in folder.glob(f"{FAILED}*.mp4"):  # of an earlier part: this policy is another
                old.unlink()
            film_failures(evaluation, self.eval_envs[0], folder)

    # How it ended -------------------------------------------------------------------------------------------------

    def _interrupted(self) -> MygymError:
        """Save the policy there is; the error that tells how to go on."""
        self.result.status = "interrupted"
        steps = self.result.steps
        said: MygymError = InterruptedRunError(
            f"interrupted after {steps:,} steps; go on with: python train.py --resume {self.path}"
        )
        with contextlib.suppress(MygymError):  # the checkpoint is what counts
            self._save(directory.MODEL, directory.POLICY)
        try:
            self._write_result()
        except MygymError as error:
            said = error
        return self._of_this_run(said)

    def _failed(self, error: Exception) -> MygymError:
        """Keep the last good model and whole lines; `error` as one of ours."""
        diverged = isinstance(error, DivergedError) or not self.divergence.is_finite()
        self.result.status = "diverged" if diverged else "failed"
        self.result.error = f"{type(error).__name__}: {' '.join(str(error).split())}"
        ours = error if isinstance(error, MygymError) else RunError(self.result.error)
        if diverged and ours is not error:  # torch has met not-a-number before we did
            ours = DivergedError(f"a weight is not finite after {self.result.steps} steps")
        try:
            self.place.check()
        except RunError as gone:  # there is no other reason, and nowhere to write
            return self._of_this_run(gone)
        with contextlib.suppress(MygymError, OSError):  # what failed may be the disk
            if not isinstance(error, MygymError) or (isinstance(error, RunError) and hasattr(error, "__notes__")):
                directory.write_text(self.path / directory.TRACEBACK, "".join(traceback.format_exception(error)))
            if diverged and self.divergence.good:
                self.divergence.restore()
                self._save(directory.MODEL, directory.POLICY)
        with contextlib.suppress(MygymError, OSError):
            self._write_result()
        return self._of_this_run(ours)

    def _of_this_run(self, error: MygymError) -> MygymError:
        error.run = self.path
        return error

    def _write_result(self) -> None:
        self.place.check()
        self.result.evaluations = self.evaluations.records
        self.result.strategy = self.steering.outcome()
        self.result.wall_time_s = self._elapsed()
        self.result.write()


def _finite(evaluation: Evaluation) -> Evaluation:
    """The same.

    Raises:
        DivergedError: A reward was not finite.
    """
    if not math.isfinite(evaluation.mean_return):
        raise DivergedError(f"the mean return of an evaluation is {evaluation.mean_return}")
    return evaluation
