"""`train(config)` → `Result`, `evaluate`, `make_env` and `load`: everything below, assembled."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mygym.config import Resolved, RunConfig, config_hash, load_file
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, DivergedError, InterruptedRunError, MygymError, RunError, bad_value
from mygym.registry import registry
from mygym.runs import building, directory
from mygym.runs.evaluation import (
    BATCH,
    EVALUATION,
    EXTRA,
    FINAL,
    Evaluation,
    Predicts,
    episode_seeds,
    evaluate_policy,
)
from mygym.runs.result import Result
from mygym.runs.settings import from_python, settle
from mygym.runs.video import film

Config = Resolved | RunConfig | Mapping[str, Any]


def train(config: Config) -> Result:
    """Train, evaluate, film and save.

    Args:
        config: As little as `{"algo": "ppo", "robot": "kuka"}`; see `mygym.config.RunConfig`.

    Returns:
        The result, which is also in `result.json` in its `path`.

    Raises:
        ConfigError: Something in the config is wrong; nothing has been written.
        DivergedError: A number was not finite; the last good model is saved.
        RunError: The run failed; what it had is saved.
        InterruptedRunError: Ctrl-C; a checkpoint is saved.
    """
    started = time.perf_counter()
    resolved = config if isinstance(config, Resolved) else from_python(config)
    settled = resolved.config
    directory.check_writable(settled.logdir)
    eval_envs: list[RobotEnv] = []
    env = None
    try:
        eval_envs += _judging_envs(settled, settled.eval.episodes)
        env = building.make_vec_env(settled)
        model = building.build_model(settled, env)
        resolved = building.as_built(resolved, model)
        task, digest = eval_envs[0].task.name, config_hash(resolved.values())
        path = directory.create(settled.logdir, task, settled.robot, settled.algo, digest, settled.seed)
        result = Result(
            path=path,
            algo=settled.algo,
            framework=settled.framework,
            robot=settled.robot,
            task=task,
            workspace=str(settled.workspace),
            engine=settled.engine,
            seed=settled.seed,
            config_hash=digest,
        )
        return _Session(resolved, env, model, eval_envs, result, started).run()
    finally:
        _close(eval_envs)
        if env is not None:
            env.close()


def make_env(source: Config | str | Path, **rendering: Any) -> RobotEnv:
    """An environment as a config or a run describes it.

    Args:
        source: A config, or the path of a run.
        **rendering: `render_mode`, `render_width`, `render_height`, `camera`.
    """
    return building.make_env(_config_of(source), **rendering)


def load(run: str | Path) -> Predicts:
    """The policy of a run, with SB3's `predict(observation, deterministic=True) → (action, state)`.

    Reads `config.yaml` and `policy.safetensors`; nothing is unpickled.
    """
    from mygym.runs.policy import load_policy

    path = directory.find(run)
    config = _config_of(path)
    env = building.make_vec_env(config.model_copy(update={"n_envs": 1, "subprocesses": False}))
    if "buffer_size" in config.algo_params:  # acting needs no replay
        params = {**config.algo_params, "buffer_size": 1, "replay_buffer_kwargs": None}
        config = config.model_copy(update={"algo_params": params, "her": False})
    try:
        return load_policy(path / directory.POLICY, building.build_model(config, env))
    finally:
        env.close()


def evaluate(
    run: str | Path | None = None,
    *,
    policy: str | None = None,
    config: Config | None = None,
    episodes: int = 100,
    seed: int = 0,
    video: str | Path | None = None,
) -> Evaluation:
    """Judge a run's policy, or a built-in policy (`oracle`, `random`, `zero`) on a config's task.

    Args:
        run: Path of a run.
        policy: Name of a built-in policy, in place of a run.
        config: With `policy`: robot, task and whatever else differs from the defaults.
        episodes: How many.
        seed: Decides the episodes, which no training or evaluation during training uses.
        video: MP4 to film the first episodes in.
    """
    if (run is None) == (policy is None):
        raise ConfigError(bad_value("evaluate", policy, "either a run or a policy", "does not say what to judge"))
    source = directory.find(run) if run is not None else (config or {})
    settled = _config_of(source)
    seeds = episode_seeds(seed, EXTRA, episodes)

    def policy_for(envs: Sequence[RobotEnv]) -> Predicts:
        if run is not None:
            return load(run)
        made: Predicts = registry("policy").get(str(policy)).load()(envs, seed)
        return made

    envs = _judging_envs(settled, episodes)
    try:
        evaluation = evaluate_policy(policy_for(envs), envs, seeds)
        if video is not None:
            film(policy_for(envs[:1]), envs[0], seeds[: max(settled.video.episodes, 1)], Path(video))
    finally:
        _close(envs)
    return evaluation


def _config_of(source: Config | str | Path) -> RunConfig:
    if isinstance(source, str | Path):
        return settle(load_file(directory.find(source) / directory.CONFIG)).config
    return (source if isinstance(source, Resolved) else from_python(source)).config


def _judging_envs(config: RunConfig, episodes: int) -> list[RobotEnv]:
    """Environments for evaluation, which can be filmed as well: a camera costs nothing until it is used."""
    video = config.video
    size = {"render_width": video.width, "render_height": video.height}
    count = min(BATCH, episodes)
    return [building.make_env(config, render_mode="rgb_array", **size) for _ in range(count)]


def _close(envs: Sequence[RobotEnv]) -> None:
    for env in envs:
        env.close()


@dataclass
class _Session:
    """A run from the moment everything is built: learns, saves, judges, films, and writes down how it ended."""

    resolved: Resolved
    env: Any
    model: Any
    eval_envs: list[RobotEnv]
    result: Result
    started: float

    def run(self) -> Result:
        """The whole run; `result.json` is written however it ends."""
        try:
            self._learn()
            policy = self._saved_policy()
            self._judge(policy)
            self._film(policy)
            self.result.status = "done"
        except KeyboardInterrupt:
            raise self._interrupted() from None
        except Exception as error:
            raise self._failed(error) from error
        finally:
            self.progress.close()
            self._write_result()
        return self.result

    def __post_init__(self) -> None:
        from stable_baselines3.common.logger import KVWriter, Logger, TensorBoardOutputFormat

        from mygym.runs import callbacks

        config, path = self.resolved.config, self.result.path
        directory.write_yaml(path / directory.CONFIG, self.resolved.values())
        building.record_episodes(self.env, path / directory.MONITOR)
        writers: list[KVWriter] = [callbacks.JsonLines(path / directory.PROGRESS)]
        if config.tensorboard:
            writers.append(TensorBoardOutputFormat(str(path / directory.TENSORBOARD)))
        self.model.set_logger(Logger(str(path), writers))
        self.divergence = callbacks.DivergenceCallback()
        self.progress = callbacks.ProgressBarCallback(config.steps)
        self.checkpoints = callbacks.CheckpointCallback(
            path, config.checkpoint.every, config.checkpoint.keep, self._save_checkpoint
        )
        self.evaluations = callbacks.EvaluationCallback(
            self._evaluate,
            config.eval.every,
            config.stop_at_success,
            on_best=lambda: directory.write(path / directory.BEST_MODEL, self.model.save),
            report=self.progress.show,
        )
        self.evaluations.started = self.started

    def _learn(self) -> None:
        callbacks = [self.divergence, self.checkpoints, self.progress, self.evaluations]
        begin = time.perf_counter()
        try:
            self.model.learn(total_timesteps=self.resolved.config.steps, callback=callbacks)
        finally:
            self.result.steps = int(self.model.num_timesteps)
            training = time.perf_counter() - begin - self.evaluations.seconds
            self.result.steps_per_second = self.result.steps / max(training, 1e-9)
        self._save()

    def _save(self) -> None:
        from mygym.runs.policy import normalizer_of, save_policy

        directory.write(self.result.path / directory.MODEL, self.model.save)
        save_policy(self.result.path / directory.POLICY, self.model, normalizer_of(self.env))

    def _save_checkpoint(self, folder: Path) -> None:
        import torch

        from mygym.runs import state

        self.model.save(folder / directory.MODEL)
        stateful = (self.divergence, self.checkpoints, self.progress, self.evaluations)
        own = getattr(self.model, "state_dict", partial(state.algorithm_state, self.model))
        content = {
            "algorithm": own(),
            "random": state.random_state(),
            "env": state.env_state(self.env),
            "callbacks": {type(callback).__name__: callback.state_dict() for callback in stateful},
        }
        torch.save(content, folder / "state.pt")

    def _evaluate(self, number: int) -> Evaluation:
        from mygym.runs.policy import Policy, normalizer_of

        config = self.resolved.config
        seeds = episode_seeds(config.seed, EVALUATION, config.eval.episodes, number)
        return evaluate_policy(Policy(self.model, normalizer_of(self.env)), self.eval_envs, seeds)

    def _saved_policy(self) -> Predicts:
        """What is judged and filmed is model.zip as it was written, not the model in memory."""
        from mygym.runs.policy import Policy, normalizer_of

        model = type(self.model).load(
            self.result.path / directory.MODEL, env=self.env, device=self.resolved.config.device
        )
        return Policy(model, normalizer_of(self.env))

    def _judge(self, policy: Predicts) -> None:
        seeds = episode_seeds(self.result.seed, FINAL, self.resolved.config.eval.final_episodes)
        evaluation = evaluate_policy(policy, self.eval_envs, seeds)
        self.result.success_rate = evaluation.success_rate
        self.result.mean_return = evaluation.mean_return
        self.result.stage_reached = evaluation.stage_reached

    def _film(self, policy: Predicts) -> None:
        seeds = episode_seeds(self.result.seed, FINAL, self.resolved.config.video.episodes)
        if seeds:
            film(policy, self.eval_envs[0], seeds, self.result.path / directory.VIDEOS / "final.mp4")

    def _interrupted(self) -> MygymError:
        """Save what there is; the error that tells where."""
        self.result.status = "interrupted"
        checkpoint = self.checkpoints.write()
        self._save()
        return self._of_this_run(
            InterruptedRunError(f"interrupted after {self.result.steps:,} steps; saved {checkpoint}")
        )

    def _failed(self, error: Exception) -> MygymError:
        """Keep the last good model and whole lines; `error` as one of ours."""
        directory.trim_to_whole_lines(self.result.path / directory.PROGRESS, self.result.path / directory.MONITOR)
        diverged = isinstance(error, DivergedError) or not self.divergence.is_finite()
        self.result.status = "diverged" if diverged else "failed"
        self.result.error = f"{type(error).__name__}: {error}"
        if diverged:
            self.divergence.restore()
            self._save()
            return self._of_this_run(error if isinstance(error, DivergedError) else DivergedError(self.result.error))
        return self._of_this_run(error if isinstance(error, MygymError) else RunError(self.result.error))

    def _of_this_run(self, error: MygymError) -> MygymError:
        error.run = self.result.path
        return error

    def _write_result(self) -> None:
        self.result.evaluations = self.evaluations.records
        self.result.wall_time_s = time.perf_counter() - self.started
        self.result.write()
        with contextlib.suppress(OSError):  # on a full disk what is left in their buffers is lost
            self.model.logger.close()
