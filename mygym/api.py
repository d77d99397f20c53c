"""`train(config)` → `Result`, `evaluate`, `make_env` and `load`: everything below, assembled."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mygym.config import Resolved, RunConfig, config_hash
from mygym.envs.multi_task_env import AnyEnv
from mygym.envs.supported import support_warning
from mygym.errors import ConfigError, DivergedError, RunError, bad_value
from mygym.registry import algorithm, registry
from mygym.runs import directory, factory, files
from mygym.runs.evaluation import BATCH, EXTRA, Evaluation, Predicts, episode_seeds, evaluate_policy, round_robin
from mygym.runs.loading import config_of_run, load
from mygym.runs.resolve_config import from_python
from mygym.runs.result import Result
from mygym.runs.variants import judged
from mygym.runs.video import record_failure_videos, record_video
from mygym.sim.inference import inferred_of

__all__ = ["Config", "config_of", "evaluate", "load", "make_env", "train"]

Config = Resolved | RunConfig | Mapping[str, Any]


def train(config: Config | None = None, *, resume: str | Path | None = None) -> Result:
    """Train, evaluate, film and save; or go on with a run that was stopped.

    Args:
        config: As little as `{"algo": "ppo", "robot": "kuka"}`; see `mygym.config.RunConfig`. With `resume`: what is to
            be different from now on, of the keys in `mygym.runs.resuming.MAY_CHANGE`, e.g. `{"steps": 40_000}`.
        resume: Path of a run. It ends with the same weights as if it had never been stopped.

    Returns:
        The result, which is also in `result.json` in its `path`.

    Raises:
        ConfigError: Something in the config is wrong, or the run cannot be resumed; nothing has been written.
        DivergedError: A number was not finite; the last good model is saved.
        RunError: The run failed; what it had is saved.
        InterruptedRunError: Ctrl-C or SIGTERM; a checkpoint is saved.
    """
    started = time.perf_counter()
    if resume is None:
        resolved = config if isinstance(config, Resolved) else from_python(config or {})
        files.check_writable(resolved.config.logdir)
        return _run(resolved, started)
    from mygym.runs import resuming

    path = directory.find(resume)
    with directory.lock(path):
        plan = resuming.plan(path, _said(config or {}), _tell)
        return plan.complete or _run(plan.resolved, started, path, plan.checkpoint)


def _run(resolved: Resolved, started: float, path: Path | None = None, checkpoint: Any = None) -> Result:
    """Build everything, then run; `path` is the directory of a run that is resumed, and locked."""
    from mygym.runs.session import Session
    from mygym.strategies.requirements import prepared

    config = resolved.config
    with contextlib.ExitStack() as stack:
        eval_envs = judging_envs(stack, config, config.eval.episodes)
        env = factory.make_vec_env(config)
        stack.callback(env.close)
        model = factory.build_model(config, env)
        if not algorithm(config.algo, config.framework).dict_observations:
            _tell(
                f"{config.algo} of {config.framework} takes no dictionary observations: it gets them as one flat vector"
            )
        _tell_of_robot(config, eval_envs[0])
        resolved = factory.as_built(resolved, model)
        strategies = prepared(resolved.config, env, model)
        robot, digest = eval_envs[0].robot.name, config_hash(resolved.values())
        task = "+".join(dict.fromkeys(one.label for one in judged(config)))
        if path is None:
            from mygym.runs.runner import setting_name

            built = resolved.config
            setting = setting_name(type(model), built.algo_params, built.training_params, digest)
            path = directory.create(config.logdir, task, robot, config.algo, setting, config.seed)
            stack.enter_context(directory.lock(path))
        result = Result(
            path=path,
            algo=config.algo,
            framework=config.framework,
            robot=robot,
            task=task,
            workspace=str(config.workspace),
            engine=config.engine,
            seed=config.seed,
            config_hash=digest,
        )
        return Session(resolved, strategies, env, model, eval_envs, result, started, checkpoint, _tell).run()


def make_env(source: Config | str | Path, **rendering: Any) -> AnyEnv:
    """An environment as a config or a run describes it.

    Args:
        source: A config, or the path of a run.
        **rendering: `render_mode`, `render_width`, `render_height`, `camera`.
    """
    return factory.make_env(config_of(source), **rendering)


def evaluate(
    run: str | Path | None = None,
    *,
    policy: str | None = None,
    config: Config | None = None,
    episodes: int = 100,
    seed: int = 0,
    video: str | Path | None = None,
    failure_videos: str | Path | None = None,
    trust: bool = False,
) -> Evaluation:
    """Judge a run's policy, or a built-in policy (`oracle`, `random`, `zero`, `hover`) on a config's task.

    Args:
        run: Path of a run, or of one of the files that `load` takes.
        policy: Name of a built-in policy, in place of a run.
        config: With `policy`: robot, task and whatever else differs from the defaults.
        episodes: How many.
        seed: Decides the episodes, which no training or evaluation during training uses.
        video: MP4 to film the first episodes in.
        failure_videos: Folder for a film of the first failed episode of each stage in which any failed.
        trust: As of `load`.

    Raises:
        ConfigError: It does not say what to judge, or `load` refuses the run.
        RunError: The policy cannot be loaded, or its actions are not finite.
    """
    if (run is None) == (policy is None):
        raise ConfigError(bad_value("evaluate", policy, "either a run or a policy", "does not say what to judge"))
    settled = config_of(directory.find_policy(run)[0] if run is not None else (config or {}))

    def policy_for(envs: Sequence[AnyEnv]) -> Predicts:
        if run is not None:
            return load(run, trust=trust)
        made: Predicts = registry("policy").get(str(policy)).load()(envs, seed)
        return made

    with contextlib.ExitStack() as stack:
        envs = judging_envs(stack, settled, episodes)
        _tell_of_robot(settled, envs[0])
        acting = policy_for(envs)
        seeds = round_robin(episode_seeds(seed, EXTRA, episodes), envs[0])
        try:
            evaluation = evaluate_policy(acting, envs, seeds)
        except (DivergedError, ValueError) as error:  # torch's distributions raise the latter
            raise RunError(f"{run or policy}: cannot be judged: {' '.join(str(error).split())}") from error
        if video is not None:
            record_video(policy_for(envs[:1]), envs[0], seeds[: max(settled.video.episodes, 1)], Path(video))
        if failure_videos is not None:
            record_failure_videos(evaluation, envs[0], Path(failure_videos))
    return evaluation


def _said(config: Config) -> Mapping[str, Any]:
    if isinstance(config, Resolved | RunConfig):
        settled = config.config if isinstance(config, Resolved) else config
        return settled.model_dump(mode="json", exclude_unset=True)
    return config


def _tell_of_robot(config: RunConfig, env: AnyEnv) -> None:
    """What was inferred where there is nothing but a URDF, and why it may not do the task."""
    for line in inferred_of(config.robot):
        _tell(f"{env.robot.name}: {line}")
    if doubt := support_warning(config):
        _tell(doubt)


def _tell(message: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more: no reason to stop
        print(f"note: {message}", file=sys.stderr, flush=True)  # noqa: T201


def config_of(source: Config | str | Path) -> RunConfig:
    """The complete config of a run, or of a config that leaves values out."""
    if isinstance(source, str | Path):
        return config_of_run(source)
    return (source if isinstance(source, Resolved) else from_python(source)).config


def judging_envs(stack: contextlib.ExitStack, config: RunConfig, episodes: int) -> list[AnyEnv]:
    """Environments for evaluation, which can be filmed as well: a camera costs nothing until it is used."""
    size = {"render_width": config.video.width, "render_height": config.video.height}
    envs = []
    for _ in range(min(BATCH, episodes)):
        envs.append(factory.make_env(config, render_mode="rgb_array", **size))
        stack.callback(envs[-1].close)
    return envs
