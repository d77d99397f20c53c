"""Python API, with the same functions as the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.demonstrations.episodes import Demonstrations
from mygym.demonstrations.images import record_images
from mygym.demonstrations.networks import measure_detector, train_detector, train_encoder
from mygym.demonstrations.recording import demonstrate, replay
from mygym.demonstrations.storage import load_demonstrations
from mygym.demonstrations.teleoperation import KEYBOARD, SLIDERS, Keyboard, Sliders
from mygym.engines.engine import MUJOCO, find_engine, judge_of
from mygym.envs.arguments import check_keywords, checked_arguments, checked_count, checked_seed
from mygym.envs.multi_task_env import AnyEnv
from mygym.envs.robot_env import RobotEnv
from mygym.envs.supported import support_warning
from mygym.errors import ConfigError, bad_value, print_note
from mygym.exporting.export import export
from mygym.planning.derived import rollout_steps
from mygym.planning.plan import Config, RunPlan, plan_of
from mygym.registry import implemented_combos, registry
from mygym.registry.entries import HAS_BULLET
from mygym.reporting.records import find_runs
from mygym.robotics.robot import notes_on_inference
from mygym.strategies.fine_tuning import FineTuning
from mygym.strategies.mixture.mixture import network_of
from mygym.strategies.mixture.path_search import search
from mygym.tasks.lookup import find_task
from mygym.training import directory, env_factory, model_factory
from mygym.training.evaluation import EXTRA, Evaluation, Predicts, episode_seeds, evaluate_or_fail
from mygym.training.loading import find_plan, load
from mygym.training.result import Result
from mygym.training.session import Session, open_result, start_run
from mygym.training.video import record_failure_videos, record_video

if TYPE_CHECKING:
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.type_aliases import MaybeCallback

__all__ = [
    "Config",
    "Demonstrations",
    "demonstrate",
    "evaluate",
    "export",
    "load",
    "load_demonstrations",
    "make_env",
    "measure_detector",
    "network_of",
    "record_images",
    "replay",
    "results",
    "search",
    "train",
    "train_detector",
    "train_encoder",
]

results = checked_arguments(find_runs)


@checked_arguments
def train(
    config: Config | None = None,
    *,
    resume: str | Path | None = None,
    callbacks: MaybeCallback | Sequence[BaseCallback] = None,
    gui: bool = False,
) -> Result:
    """Train and evaluate a policy, save it with videos; or resume a stopped run.

    `train.py` in the repository writes out the same steps: an installed package cannot import that file.

    Args:
        config: Values that differ from the defaults, e.g. `{"algo": "ppo"}` (`mygym.config.RunConfig`). With `resume`:
            values to change, with keys in `mygym.training.session.MAY_CHANGE`, e.g. `{"steps": 40_000}`.
        callbacks: A callback of SB3, a function of `locals` and `globals`, or a list of both, as for `model.learn`;
            besides the callbacks of the config. Checkpoints hold their `state_dict`, if any; a callback that returns
            False ends the training.
        resume: Path of a run. The resumed run ends with the same weights as an uninterrupted run.
        gui: Show the first training environment in a window, until `q` is pressed in it; the result is the same.

    Returns:
        The result; the file `result.json` in its `path` has the same content.

    Raises:
        ConfigError: Something in the config is wrong, or the run cannot be resumed; nothing has been written.
        DivergedError: A number was not finite; the last good model is saved.
        RunError: The run failed; everything up to the failure is saved.
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP; a checkpoint is saved.
    """
    from mygym.planning.callbacks import as_callbacks
    from mygym.strategies.requirements import prepare_run
    from mygym.training.learners import other_learners
    from mygym.training.pretrained import load_pretrained

    added = as_callbacks(callbacks)
    with contextlib.ExitStack() as stack:
        start = stack.enter_context(start_run(config, resume, print_note))
        if start.complete:
            return start.complete
        learners = stack.enter_context(other_learners(start.plan, start.checkpoint is not None))
        eval_envs = env_factory.make_eval_envs(start.plan, stack)
        env = env_factory.make_vec_env(start.plan, stack, gui)
        combo = implemented_combos[start.plan.config.algo][start.plan.config.framework]
        model = model_factory.build_model(start.plan, env, combo)
        load_pretrained(start.plan, model, env, resumed=start.checkpoint is not None)
        print_notes(start.plan, model)
        plan = prepare_run(start.plan, env, model)
        result = stack.enter_context(open_result(start, plan, model, eval_envs[0]))
        session = Session(
            plan, env, model, eval_envs, result, start.started, start.checkpoint, print_note, added, learners
        )
        return session.run(partial(model.learn, plan.config.steps))


def make_env(source: Config | str | Path, **arguments: Any) -> AnyEnv:
    """Return the evaluation environment of a config or a run.

    Args:
        source: A config, or the path of a run.
        **arguments: `render_mode`, `render_width`, `render_height`, `camera`, and `engine`, by default the one that
            judges the run.

    Raises:
        ConfigError: A keyword is unknown, the config is wrong, or the path is not a run.
    """
    known = ("source", "render_mode", "render_width", "render_height", "camera", "engine")
    check_keywords("make_env", arguments, known)
    return env_factory.make_env(find_plan(source), **arguments)


@checked_arguments
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
    gui: bool = False,
    detector: str | Path | None = None,
    engine: str | None = None,
) -> Evaluation:
    """Evaluate a run's policy, or a built-in policy (`oracle`, `random`, `zero`, `hover`) on a config's task.

    Args:
        run: Path of a run, or of a file that `load` accepts.
        policy: Name of a built-in policy, in place of a run; or, in a window, `keyboard` or `sliders`: a person.
        config: With `policy`: robot, task and other values that differ from the defaults.
        episodes: Number of episodes.
        seed: Seed of the episodes, which differ from the episodes of training and of its evaluations.
        video: MP4 or GIF for a video of the first episodes.
        failure_videos: Folder for a video of the first failed episode of each stage with failures.
        trust: See `load`.
        gui: Play one episode after another in a window, whose sliders move the goal; its key `q` ends the evaluation.
        detector: A file of `train_detector`: the policy acts on the positions of objects that it sees, in place of the
            simulator's.
        engine: Engine in which the episodes are played, `mygym list engine`; by default the one that judges the run.

    Returns:
        Each episode with its outcome; `success_rate` and `summary()` of all of them.

    Raises:
        ConfigError: Neither or both of run and policy are given, an argument is invalid, the engine has no single
            worlds, `load` refuses the run, or a window is not possible.
        RegistryError: The engine is unknown, or its package is missing.
        RunError: The policy cannot be loaded, its actions are not finite, or no episode was played to the end.
    """
    if (run is None) == (policy is None):
        raise ConfigError(bad_value("evaluate", {"run": run, "policy": policy}, "either a run or a policy"))
    if run is not None and config is not None:
        raise ConfigError(bad_value("config", config, "a policy and a config, or a run alone", "is not for a run"))
    gui = gui or policy in (KEYBOARD, SLIDERS)
    if gui and (video or failure_videos):
        raise ConfigError(bad_value("gui", gui, "no video, no failure_videos", "cannot be combined with videos"))
    episodes, seed = checked_count(episodes, "episodes"), checked_seed(seed)
    if engine is not None:
        find_engine(engine)
    plan = find_plan(directory.find_policy(run)[0] if run is not None else (config or {}))
    if detector is not None:
        plan = _with_detector(plan, str(detector))

    def policy_for(envs: Sequence[AnyEnv]) -> Predicts:
        if run is not None:
            return load(run, trust=trust)
        builtin: Predicts = registry("policy").get(str(policy), more=(KEYBOARD, SLIDERS)).load()(envs, seed)
        return builtin

    with contextlib.ExitStack() as stack:
        envs = (
            [env_factory.make_window_env(plan, stack, engine)]
            if gui
            else env_factory.make_eval_envs(plan, stack, episodes, engine)
        )
        print_notes(plan)
        evaluated: Predicts
        if policy == SLIDERS:
            evaluated = Sliders(envs[0], acting=None)
        else:
            evaluated = Keyboard(envs[0]) if policy == KEYBOARD else policy_for(envs)
            evaluated = Sliders(envs[0], evaluated) if gui else evaluated
        seeds = episode_seeds(seed, EXTRA, episodes, env=envs[0])
        evaluation = evaluate_or_fail(str(run or policy), evaluated, envs, seeds)
        if video is not None:
            record_video(policy_for(envs[:1]), envs[0], seeds[: max(plan.config.video.episodes, 1)], Path(video))
        if failure_videos is not None:
            record_failure_videos(evaluation, envs[0], Path(failure_videos))
    return evaluation


def _with_detector(plan: RunPlan, detector: str) -> RunPlan:
    """Return the plan with a detector, and with the observations that it has without.

    Raises:
        ConfigError: The run has several tasks.
    """
    with contextlib.closing(env_factory.make_env(plan)) as env:
        if not isinstance(env, RobotEnv):
            raise ConfigError(bad_value("detector", detector, "null, or a run of a single task"))
        observations = list(env.observation_spec.components)
    images = plan.config.image_params.model_copy(update={"detector": detector})
    return plan_of(plan.config.model_copy(update={"image_params": images, "observations": observations}))


def print_notes(plan: RunPlan, model: Any = None) -> None:
    """Print notes on a run: a better algorithm, rollouts, observations, fine-tuning, values of a URDF, warnings.

    Args:
        plan: The run.
        model: The model that is trained; None: no notes on the algorithm.
    """
    judge = judge_of(plan.config.engine)
    if not HAS_BULLET and judge == MUJOCO:
        print_note(f"evaluations and videos use {judge}, because PyBullet is not installed")
    if model is not None:
        if reasons := plan.resolved.origins["algo"].partition("; ")[2]:
            print_note(f"{plan.algorithm.name} trains the task: {reasons}")
        if plan.algorithm.parent:
            print_note(f"{plan.algorithm.name} inherits its unset values from {plan.algorithm.parent}")
        if (steps := rollout_steps(model, plan.config)) > plan.config.steps:
            more = f"more than steps, {plan.config.steps:,}"
            print_note(f"{plan.algorithm.name} trains in whole rollouts of up to {steps:,} env steps, {more}")
        if reason := _reason_for_numpy(plan):
            print_note(f"{plan.algorithm.name} makes its steps in numpy, more slowly than on the GPU: {reason}")
        for name, value, used in model_factory.overridden(plan, model):
            print_note(f"{type(model).__name__} sets {name} to {used}, not to {value}")
        if not plan.algorithm.dict_observations:
            name = f"{plan.algorithm.name} of {plan.algorithm.framework}"
            print_note(f"{name} takes no dictionary observations: it gets flat vectors")
        for strategy in plan.strategies if plan.config.pretrained.path is None else ():
            if isinstance(strategy, FineTuning):
                why = "few parameters change a network of random weights; --pretrained RUN names a trained one"
                print_note(f"strategy {strategy.name} without pretrained: {why}")
    if unused := _unused_objects(plan):
        print_note(f"{', '.join(unused)}: no effect, because {find_task(plan.config.task).name} has no object")
    for line in notes_on_inference(plan.config.robot):
        print_note(line)
    if warning := support_warning(plan.config):
        print_note(warning)


def _unused_objects(plan: RunPlan) -> list[str]:
    """Return the keys about objects with other values than the task's, where no task of the run has an object."""
    if any(find_task(variant.config.task).roles for variant in plan.variants):
        return []
    params, task = plan.config.task_params.model_dump(), find_task(plan.config.task)
    plain = {"object": task.subtasks[0].object, "objects": {}, "rotation": task.rotation, "colors": {}}
    return [f"task_params.{name}" for name, value in plain.items() if params[name] not in (None, value)]


def _reason_for_numpy(plan: RunPlan) -> str:
    """Return why the steps of the fused engine on a GPU go through numpy because of a user's class."""
    config = plan.config
    if env_factory.engine_device(config) == "cpu":
        return ""
    from mygym.algos.stable_baselines import reason_for_numpy

    inherited = implemented_combos[plan.algorithm.parent or config.algo][config.framework][0]
    return reason_for_numpy(plan.schema.cls, plan.schema.component(("policy",)), inherited)
