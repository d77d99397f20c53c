"""A run: start a new one, or a stopped one from its newest checkpoint; learn, evaluate, save, write the result."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger

from mygym.config import Resolved, config_hash
from mygym.config.layers import flatten
from mygym.config.schema import renamed
from mygym.engines.engine import judge_of
from mygym.envs.multi_task_env import AnyEnv
from mygym.errors import (
    ConfigError,
    DivergedError,
    InterruptedRunError,
    MygymError,
    RunError,
    bad_value,
    error_text,
    print_message,
)
from mygym.planning.callbacks import as_callbacks, construct_callbacks
from mygym.planning.plan import Config, RunPlan, plan_from_python, plan_of
from mygym.planning.resolve import python_values, resolve_config
from mygym.planning.strategies import Variant
from mygym.registry import of_user
from mygym.registry.user_files import located, place_of
from mygym.tasks.lookup import find_task
from mygym.training import directory, env_factory, files, logs, model_factory, schedule_callback
from mygym.training.checkpoints import serialization
from mygym.training.checkpoints.checkpoints import Checkpoint, Checkpoints
from mygym.training.checkpoints.states import load_random_state, random_state
from mygym.training.evaluation import EVALUATION, FINAL, TEST, Evaluation, Predicts, episode_seeds, evaluate_policy
from mygym.training.learners import OtherLearners, SynchronizeCallback
from mygym.training.loading import load, read_config
from mygym.training.policy import Policy, normalizer_of, save_policy
from mygym.training.result import Result, versions
from mygym.training.run_callbacks import (
    CheckpointCallback,
    DivergenceCallback,
    EvaluationCallback,
    ProgressBarCallback,
    ResumeCallback,
    StopTraining,
    StrategyCallback,
    UserCallbacks,
)
from mygym.training.run_state import RunClock, RunState
from mygym.training.stop_request import StopRequest
from mygym.training.vec_wrappers import observation_normalizer
from mygym.training.video import FAILURE_PREFIX, record_failure_videos, record_video


@dataclass(frozen=True)
class Start:
    """Start of a run: its plan, and the checkpoint of a resumed run."""

    plan: RunPlan
    started: float
    """`time.perf_counter()` when this process began."""
    path: Path | None = None
    """Directory of a resumed run, locked; None: a new run."""
    checkpoint: Checkpoint | None = None
    """Checkpoint of a resumed run; None: step 0."""
    complete: Result | None = None
    """Result of a resumed run that has nothing left to do."""


@contextlib.contextmanager
def start_run(config: Config | None, resume: str | Path | None, notify: Callable[[str], None]) -> Iterator[Start]:
    """Plan a new run, or lock a stopped run and plan its remaining part with the changes in `config`.

    Raises:
        ConfigError: The config is wrong, the run cannot be resumed, or another thread trains; nothing has been written.
    """
    started, config = time.perf_counter(), {} if config is None else config
    with _only_thread():
        if resume is None:
            plan = plan_from_python(config)
            files.check_writable(plan.config.logdir)
            yield Start(env_factory.with_process_count(plan, notify), started)
            return

        path = directory.find(resume)
        with directory.lock(path):
            changes = python_values(config.config if isinstance(config, RunPlan | Resolved) else config)
            resolved, checkpoint, complete = resume_run(path, changes, notify)
            plan = plan_of(resolved)
            if not complete:
                plan = env_factory.with_process_count(plan, notify)
            yield Start(plan, started, path, checkpoint, complete)


_TRAINING = threading.RLock()
"""Held by the thread that trains: torch, numpy and Python have one random generator for all threads."""


@contextlib.contextmanager
def _only_thread() -> Iterator[None]:
    """Refuse a second run in another thread, because both would draw from the same random generators."""
    if not _TRAINING.acquire(blocking=False):
        raise ConfigError(
            "train: another thread of this process is training, and both would draw from the same random generators; "
            "allowed: a process for each run, e.g. by multiprocessing or concurrent.futures.ProcessPoolExecutor"
        )
    try:
        yield
    finally:
        _TRAINING.release()


@contextlib.contextmanager
def open_result(start: Start, plan: RunPlan, model: Any, env: AnyEnv) -> Iterator[Result]:
    """Create and lock the directory of a new run; yield the empty result, whose `path` is the run directory."""
    from mygym.training.runner import setting_name

    config, robot, digest = plan.config, env.robot.name, config_hash(plan.resolved.values())
    with contextlib.ExitStack() as stack:
        path = start.path
        if path is None:
            setting = setting_name(type(model), config.algo_params, config.training_params, digest)
            path = directory.create(config.logdir, plan.task_label, robot, config.algo, setting, config.seed)
            stack.enter_context(directory.lock(path))
        yield Result(
            path=path,
            algo=config.algo,
            framework=config.framework,
            robot=robot,
            task=plan.task_label,
            workspace=str(config.workspace),
            engine=config.engine,
            judge=judge_of(config.engine),
            seed=config.seed,
            config_hash=digest,
            algo_source=plan.algorithm.origin,
        )


MAY_CHANGE = ("steps", "stop_at_success", "eval", "checkpoint", "video", "tensorboard", "env_processes")
"""Config keys that do not affect the training so far."""

_IRRELEVANT = ("logdir", "strict")
"""Config keys without an effect on the training; `logdir` may not change, because a run stays in its directory."""


def resume_run(
    run: Path, changes: Mapping[str, Any], notify: Callable[[str], None]
) -> tuple[Resolved, Checkpoint | None, Result | None]:
    """Return the remaining part of a run that this process has locked.

    Returns:
        The config; the newest checkpoint, or None to start again from step 0, with the same results; and the result, if
        the run is complete.

    Raises:
        ConfigError: A change would invalidate the training so far, or the run cannot be resumed on this machine.
        RunError: The newest checkpoint was not written by a run, or a folder is in the place of a file.
    """
    logs.check_files(run)
    directory.remove_partial_files(run)
    saved = read_config(run)
    before = resolve_config(saved)
    model_factory.use(before.config.framework, before.config.device, before.config.threads)  # before arrays are read
    result = Result.read(run)
    if result is not None and result.status == "diverged":
        why = "has diverged, and would diverge again"
        raise ConfigError(bad_value("resume", str(run), "a new run with another seed or other algo_params", why))
    checkpoint = Checkpoints(run, keep=1).newest(notify)
    trained_with = _config_at(checkpoint) if checkpoint else before.values()
    resolved = _changed(saved, before, changes, checkpoint)
    steps = resolved.config.steps
    _refuse_changes(trained_with, resolved.values())
    if resolved.config.logdir != before.config.logdir:
        why = "cannot change: a resumed run stays in its directory"
        raise ConfigError(bad_value("logdir", resolved.config.logdir, repr(before.config.logdir), why))
    if checkpoint is None:
        notify("the run has no checkpoint yet: it starts again from step 0, with the same results")
        return resolved, None, None
    wants_more = steps > trained_with["steps"] or resolved.config.stop_at_success != trained_with["stop_at_success"]
    if checkpoint.finished and wants_more and checkpoint.steps < steps:
        notify(f"learning continues from {checkpoint.steps:,} to {steps:,} steps, where schedules now end")
        return resolved, replace(checkpoint, finished=False), None
    if checkpoint.finished:
        if steps != trained_with["steps"]:
            longest = max(checkpoint.steps, trained_with["steps"])
            why = "is no longer than the run, which is complete"
            raise ConfigError(bad_value("steps", steps, f"{trained_with['steps']}, or more than {longest}", why))
        done = result is not None and result.status == "done" and resolved.values() == before.values()
        whole = all((run / name).is_file() for name in (directory.MODEL, directory.POLICY))
        if done and whole:
            notify("the run is complete; --steps N makes it longer")
        return resolved, checkpoint, result if done and whole else None
    if checkpoint.steps >= steps:
        raise ConfigError(bad_value("steps", steps, f"more than {checkpoint.steps}", "has been passed already"))
    notify(f"continues from {checkpoint.steps:,} of {steps:,} steps")
    return resolved, checkpoint, None


def _config_at(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the config of the run at a checkpoint."""
    replay = checkpoint.replay
    try:
        seconds = checkpoint.state["seconds"]
        numbers = [seconds["run"], seconds["learning"]]
        if replay is not None:
            numbers += [replay["size"], replay["total"]]
        if all(isinstance(number, int | float) for number in numbers):
            return resolve_config(renamed(checkpoint.state["config"], notify=False)).values()
        why = "times or sizes are not numbers"
    except (ValueError, LookupError, TypeError, AttributeError, ConfigError) as error:
        why = f"{type(error).__name__}: {error}"
    raise RunError(f"{checkpoint.path}: is not the checkpoint of a run: {why}")


def _changed(
    saved: Mapping[str, Any], before: Resolved, changes: Mapping[str, Any], checkpoint: Checkpoint | None
) -> Resolved:
    """Return a run's config with `changes`; a replay buffer with the size of the run's steps grows with the steps.

    What the file `saved` lacks, because its class decides it and no config can name it, keeps this origin.
    """
    values = before.values()
    try:
        resolved = resolve_config(saved, changes)
    except ConfigError:  # e.g. the hyperparameters of the run do not fit another algorithm
        named = [key for key in ("algo", "framework", "strategy", "robot", "task") if key in changes]
        _refuse_changes({key: values[key] for key in named}, {key: changes[key] for key in named})
        raise
    if resolved.config.steps <= before.config.steps or "buffer_size" not in values["algo_params"]:
        return resolved
    others = {key: value for key, value in saved.get("algo_params", {}).items() if key != "buffer_size"}
    replay = checkpoint.replay if checkpoint else None
    is_overwritten = replay is not None and replay["total"] > replay["size"]
    if is_overwritten or resolve_config({**saved, "algo_params": others}).values() != values:
        return resolved
    return resolve_config({**saved, "algo_params": others}, changes)


def _refuse_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse a config with which the training so far would have been different."""
    old, new = dict(flatten(before)), dict(flatten(after))
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        grown = key == "algo_params.buffer_size" and after["steps"] > before["steps"] and (now or 0) > (was or 0)
        if was != now and not grown and key.partition(".")[0] not in (*MAY_CHANGE, *_IRRELEVANT):
            why = "is not the value with which the run was trained so far"
            raise ConfigError(bad_value(key, now, f"{was!r}; of a resumed run {', '.join(MAY_CHANGE)} may change", why))


class Session:
    """The part of a run in one process: the whole run, or the remaining part of a stopped run.

    Args:
        plan: The plan of the run, with prepared strategies.
        env: Training environments.
        model: The algorithm.
        eval_envs: Environments for evaluations and videos.
        result: Content of `result.json`; its `path` is the run directory, which this process has locked.
        started: `time.perf_counter()` when this process began the run.
        checkpoint: Checkpoint to resume from; None: start from step 0.
        notify: Called with messages for the user.
        callbacks: The user's callbacks, besides the callbacks of the config.
        learners: The other processes that train the model; None: this process alone.
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
        notify: Callable[[str], None],
        callbacks: Sequence[BaseCallback] = (),
        learners: OtherLearners | None = None,
    ) -> None:
        config, resolved = plan.config, plan.resolved
        self.plan, self.resolved, self.result = plan, resolved, result
        self.env, self.model, self.eval_envs = env, model, eval_envs
        self.path, self.notify, self.checkpoint = result.path, notify, checkpoint
        self.guard = directory.DirectoryGuard(self.path)
        self.clock = RunClock(started, checkpoint.state["seconds"] if checkpoint else None)
        self.stop = StopRequest("with a checkpoint after this rollout")
        self.schedules = schedule_callback.ScheduleCallback(model_factory.schedules_of(plan), config.steps)
        self.progress = ProgressBarCallback(config.steps)
        self.divergence = DivergenceCallback(_rewarding((*plan.variants, *plan.evaluated_variants)))
        self.evaluations = EvaluationCallback(
            self.evaluate,
            config.eval.every,
            config.stop_at_success,
            self.clock.elapsed,
            on_best=self._save_best,
            on_record=self._on_record,
            test=partial(self.evaluate, purpose=TEST) if config.eval.test_episodes else None,
        )
        self.checkpointing = CheckpointCallback(config.checkpoint.every, self._write_checkpoint, self.stop)
        self.strategies = StrategyCallback(plan.strategies, self._write_checkpoint)
        of_strategies = [callback for strategy in plan.strategies for callback in as_callbacks(strategy.callbacks())]
        self.user = UserCallbacks([*construct_callbacks(config.callbacks), *of_strategies, *callbacks], notify)
        self.checkpoints = Checkpoints(self.path, config.checkpoint.keep)
        stateful = {
            "divergence": self.divergence,
            "evaluations": self.evaluations,
            "checkpoints": self.checkpointing,
            "strategies": self.strategies,
            "user": self.user,
        }
        self.synchronization = SynchronizeCallback(learners) if learners else None
        if self.synchronization:
            stateful["workers"] = self.synchronization  # the name in checkpoints from before `learners`
        self.state = RunState(resolved.values(), model, env, stateful, self.clock, self.checkpoints, notify)

    def run(self, learn: Callable[[list[BaseCallback]], object]) -> Result:
        """Execute the run; write `result.json` even if the run fails or is interrupted.

        Raises:
            DivergedError: A number was not finite.
            RunError: The run failed for another reason.
            InterruptedRunError: The process received Ctrl-C, SIGTERM or SIGHUP.
        """
        with self.stop:
            try:
                self.open_logs()
                if self.checkpoint is not None and self.checkpoint.finished:
                    self.state.load(self.checkpoint)
                else:
                    callbacks = self._callbacks()
                    print_message(f"directory: {self.path}")
                    with self._learning():
                        (self._trainer(callbacks) or partial(learn, callbacks))()
                self._finish()
                self.result.status = "done"
                self._write_result()
                return self.result
            except KeyboardInterrupt:
                self.stop.ending = True
                raise self._interrupted() from None
            except Exception as error:
                self.stop.ending = True
                raise self._failed(error) from error
            finally:
                self.progress.close()
                self.model.logger.close()
                self.guard.close()

    # Learning -----------------------------------------------------------------------------------------------------

    def open_logs(self) -> None:
        """Open the logs, truncated to their lengths in the checkpoint, and report changed package versions."""
        config, path = self.resolved.config, self.path
        writers: list[KVWriter] = []
        self.model.set_logger(Logger(str(path), writers))  # first, so that it is closed even if a later line fails
        with files.writing(path):
            (path / directory.CHECKPOINTS).mkdir(exist_ok=True)
        files.write_yaml(path / directory.CONFIG, self.resolved.values())
        for name in (directory.RESULT, directory.TRACEBACK):  # written by an earlier process of this run
            (path / name).unlink(missing_ok=True)
        self.checkpoints.discard_after(self.checkpoint)
        for message in logs.truncate(path, self.checkpoint.logs if self.checkpoint else {}):
            self.notify(message)
        if self.checkpoint is not None and self.checkpoint.versions != versions():
            changed = {key: value for key, value in versions().items() if self.checkpoint.versions.get(key) != value}
            self.notify(f"package versions differ from the checkpoint, so the numbers may differ: now {changed}")
        on_episode = self.evaluations.training.add
        env_factory.record_episodes(self.env, path / directory.MONITOR, time.time() - self.clock.elapsed(), on_episode)
        env_factory.report_replacements(self.env, self._on_replacement)
        writers.append(logs.JsonLines(path / directory.PROGRESS))
        if config.tensorboard:
            writers.append(board := logs.TensorBoard(path / directory.TENSORBOARD))
            board.write_config(self.resolved.values())

    def _callbacks(self) -> list[BaseCallback]:
        """Return the callbacks of the training; a checkpoint is loaded by the first one when the training starts."""
        self.state.check()
        if self.checkpoint is None:  # a resumed run keeps its model until it has a newer one
            self._check_loading()
        else:  # `create_trainer` of a strategy goes on with its phase
            self.model.num_timesteps = self.checkpoint.steps
        resume = ResumeCallback(partial(self.state.load, self.checkpoint) if self.checkpoint else None)
        callbacks = [
            *(resume, self.schedules, self.progress, self.divergence, self.evaluations, self.checkpointing),
            self.strategies,  # after checkpoints: a resumed run repeats the decisions of strategies and callbacks
            *([self.user] if self.user.callbacks else []),
        ]
        return self.synchronization.around(callbacks) if self.synchronization else callbacks

    @contextlib.contextmanager
    def _learning(self) -> Iterator[None]:
        """Measure the training, and write its last checkpoint."""
        try:
            with self.clock.measure_learning():
                yield
        except StopTraining:
            self.user.on_training_end()  # SB3's `learn` has not come to it
        finally:
            self.result.steps = int(self.model.num_timesteps)
            if self.synchronization:
                self.synchronization.learners.end_learning()
        self._write_checkpoint(finished=True)

    def _log_last_interval(self) -> None:
        """Log the figures since the last evaluation after the last checkpoint: a resumed run writes them again."""
        if not self.result.last_interval and getattr(self.evaluations, "model", None) is not None:
            self.result.last_interval = self.evaluations.log_last_interval()

    def _check_loading(self) -> None:
        """Save the untrained model of a user's class and load it: a mistake would cost the run at its end."""
        if not model_factory.constructed_by_user(self.plan.schema.cls):
            return
        self.save_model()
        random = random_state()
        try:
            for file in (directory.MODEL, directory.POLICY):
                load(self.path / file)
        except Exception as error:
            cls = type(self.model).__name__
            text = str(error) if isinstance(error, MygymError) else error_text(error)
            remedy = "its constructor and _setup_model run again when it is loaded, with the same arguments"
            raise RunError(located(f"{cls} can be trained, but not loaded: {text}; {remedy}", error)) from error
        finally:
            load_random_state(random)

    def _trainer(self, callbacks: list[BaseCallback]) -> Callable[[], object] | None:
        """Return the function by which a strategy trains the model; None if every strategy leaves it to `learn`."""
        for each in self.plan.strategies:
            trainer: object = each.create_trainer(callbacks)
            if callable(trainer):
                return trainer
            if trainer is not None:
                why = f"is returned by {type(each).__name__}, and is not a function"
                allowed = "a function without parameters, such as trainer.train, or None"
                raise ConfigError(bad_value(f"{each.name}.create_trainer", type(trainer).__name__, allowed, why))
        return None

    def evaluate(self, number: int, purpose: int = EVALUATION) -> Evaluation:
        """Evaluate the policy; `number` selects the seeds; raise `DivergedError` if the mean return is not finite."""
        settings = self.resolved.config.eval
        count = settings.test_episodes if purpose == TEST else settings.episodes
        return self._evaluated(Policy(self.model, normalizer_of(self.env)), purpose, count, number)

    def _evaluated(self, policy: Predicts, purpose: int, count: int, number: int = 0) -> Evaluation:
        seeds = episode_seeds(self.result.seed, purpose, count, number, env=self.eval_envs[0])
        evaluation = evaluate_policy(policy, self.eval_envs, seeds)
        if not math.isfinite(evaluation.mean_return):
            value = f"{evaluation.mean_return}{self.divergence.of_rewards}"
            raise DivergedError(f"the mean return of an evaluation is {value}")
        return evaluation

    def _on_record(self, record: dict[str, Any]) -> None:
        if outcome := self.strategies.outcome():
            record["strategy"] = outcome
        self.progress.show(record)
        self.strategies.on_evaluation(record)

    def _on_replacement(self, reason: str, replacements: int) -> None:
        self.notify(f"{reason}: new episodes begin in a new process")
        self.model.logger.record("time/replaced_processes", replacements)

    # Saving -------------------------------------------------------------------------------------------------------

    def _save_best(self) -> None:
        self.divergence.check_weights()
        self.save_model(best=True)

    def save_model(self, best: bool = False) -> None:
        """Save the model, or the best model, and its normaliser as SB3 files, and both as safetensors.

        Raises:
            RunError: A file cannot be written, the run directory is gone, or an attribute of the model cannot be saved.
        """
        self.guard.check()
        model = self.path / (directory.BEST_MODEL if best else directory.MODEL)
        if model_factory.constructed_by_user(self.plan.schema.cls):
            _check_picklable(self.model)
        files.write(model, self.model.save)
        serialization.record(model)
        normalizer = observation_normalizer(self.env)
        if normalizer is not None:  # for users of SB3; this project reads the normaliser in the safetensors
            path = self.path / (directory.BEST_NORMALIZER if best else directory.NORMALIZER)
            files.write(path, lambda temporary: normalizer.save(str(temporary)))
        policy = self.path / (directory.BEST_POLICY if best else directory.POLICY)
        save_policy(policy, self.model, normalizer_of(self.env))

    def _write_checkpoint(self, finished: bool = False) -> Path:
        self.guard.check()
        self.divergence.check_weights()  # a checkpoint must not hold NaN
        return self.state.write(self.path, finished)

    def _finish(self) -> None:
        """Save the model, evaluate it and record its videos."""
        # The checkpoint is written before: it still counts these figures for a run that goes on.
        self.result.last_interval = self.evaluations.log_last_interval()
        if self.stop.received:
            raise KeyboardInterrupt
        self.stop.immediate = True
        self.strategies.finish(partial(self.evaluate, len(self.evaluations.records)))
        self.result.steps = int(self.model.num_timesteps)
        self.result.steps_per_second = self.result.steps / max(self.clock.learning() - self.evaluations.seconds, 1e-9)
        self.save_model()
        cls, device = model_factory.loadable(self.plan, self.env), self.plan.config.device
        model = cls.load(self.path / directory.MODEL, env=self.env, device=device)  # the model in memory may differ
        policy = Policy(model, normalizer_of(self.env))
        evaluation = self._evaluated(policy, FINAL, self.resolved.config.eval.final_episodes)
        for name in ("success_rate", "mean_return", "stage_reached", "success_by_task"):
            setattr(self.result, name, getattr(evaluation, name))
        self.guard.check()
        self._record_videos(policy, evaluation)

    def _record_videos(self, policy: Predicts, evaluation: Evaluation) -> None:
        """Write the final video, and a video of the first failed episode of each stage."""
        env, folder = self.eval_envs[0], self.path / directory.VIDEOS
        seeds = episode_seeds(self.result.seed, FINAL, self.resolved.config.video.episodes, env=env)
        if not seeds:
            return
        record_video(policy, env, seeds, folder / "final.mp4")
        for outdated in folder.glob(f"{FAILURE_PREFIX}*.mp4"):  # of an earlier policy, before the run was resumed
            outdated.unlink()
        record_failure_videos(evaluation, env, folder)

    # End of the run -----------------------------------------------------------------------------------------------

    def _interrupted(self) -> MygymError:
        """Save the current policy and return the error; its message has the command that resumes the run."""
        self.result.status = "interrupted"
        steps = self.result.steps
        flags = directory.resume_flag(self.path)
        flags += "".join(f" --import {module}" for module in self.resolved.config.imports)
        interruption: MygymError = InterruptedRunError(
            f"interrupted after {steps:,} steps; go on with: python train.py {flags}"
        )
        with contextlib.suppress(MygymError):  # resuming needs only the checkpoint
            self._log_last_interval()
            self.save_model()
        try:
            self._write_result()
        except MygymError as error:
            interruption = error
        return self._with_run(interruption)

    def _failed(self, error: Exception) -> MygymError:
        """Save the last finite model and the traceback; return `error` as a `MygymError`."""
        divergence = self.divergence.as_divergence(error)
        self.result.status = "failed" if divergence is None else "diverged"
        self.result.error = error_text(divergence) if divergence else located(error_text(error), error)
        raised = error if isinstance(error, MygymError) else divergence or RunError(self.result.error)
        try:
            self.guard.check()
        except RunError as gone:  # the directory is gone: the cause of the error
            return self._with_run(gone)
        with contextlib.suppress(MygymError, OSError):  # the disk may be the cause of the failure
            if not isinstance(error, MygymError) or place_of(error) or hasattr(error, "__notes__"):
                files.write_text(self.path / directory.TRACEBACK, "".join(traceback.format_exception(error)))
            if divergence and self.divergence.finite_weights:
                self.divergence.restore()
                self.save_model()
        with contextlib.suppress(MygymError, OSError):
            self._write_result()
        return self._with_run(raised)

    def _with_run(self, error: MygymError) -> MygymError:
        error.run = self.path
        return error

    def _write_result(self) -> None:
        self.guard.check()
        self.result.evaluations = self.evaluations.records
        self.result.strategy = self.strategies.outcome()
        self.result.wall_time_s = self.clock.elapsed()
        self.result.write()


def _rewarding(variants: Iterable[Variant]) -> str:
    """Return the user's rewards of variants, and the user's stages of their tasks, with their lines; empty without."""
    configs = [variant.config for variant in variants]
    names = {
        "reward": [config.reward for config in configs],
        "stage": [name for config in configs for name in find_task(config.task).stage_names],
    }
    return ", ".join(filter(None, (of_user(kind, used) for kind, used in names.items())))


def _check_picklable(model: Any) -> None:
    """Refuse a model with an attribute that SB3 cannot save: its error names no attribute, and leaves a file open."""
    cls = type(model).__name__
    for name in vars(model).keys() - set(model._excluded_save_params()):
        try:
            cloudpickle.dumps(getattr(model, name))
        except Exception as error:
            remedy = f"leave it out of the file by {cls}._excluded_save_params"
            raise RunError(f"{cls}.{name} cannot be saved: {error}; {remedy}") from error
