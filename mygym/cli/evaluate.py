"""`mygym evaluate`, `python evaluate.py` and `mygym search`: judge a run, a policy, or paths of super-networks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.cli.command import CONFIG_FLAGS, FORCE, JSON, TRUST, argument, check_output, command, count, parse_seed
from mygym.cli.config_files import check_engine, config_layers
from mygym.cli.output import print_json, print_table
from mygym.config.loading import parse_value
from mygym.config.schema import DEFAULT_ENGINE
from mygym.errors import ConfigError, bad_value, counted, print_message
from mygym.training.files import check_writable

if TYPE_CHECKING:
    from mygym.training.evaluation import Evaluation


@command(
    "evaluate.py",
    argument("run", nargs="?", metavar="RUN", help="a run directory, or a best_policy.safetensors or model.zip in it"),
    argument(
        "--policy",
        metavar="P",
        help="oracle, random, zero or hover, instead of a run; in a window: keyboard or sliders (you)",
    ),
    argument("--gui", action="store_true", help="play in a window, whose sliders move the goal"),
    count("--episodes", "number of episodes", 100),
    argument(
        "--engine",
        dest="judge",
        metavar="E",
        help="physics engine of the episodes: a name of `mygym list engine` with single worlds "
        f"(default {DEFAULT_ENGINE})",
    ),
    argument("--video", metavar="FILE", help="write an MP4 video of the first episodes, or a GIF"),
    argument("--detector", metavar="FILE", help="act on the objects that a detector sees, see mygym detector --help"),
    argument("--failure-videos", metavar="DIR", help="write an MP4 video of the first failed episode of each stage"),
    FORCE,
    TRUST,
    JSON,
    config_flags=CONFIG_FLAGS.keys() - {"engine"},
    examples="""
python evaluate.py runs/reach/panda/sac/1a2b3c4d/seed_0
python evaluate.py runs/reach/panda/sac/1a2b3c4d/seed_0 --episodes 500 --video reach.mp4
python evaluate.py runs/reach/panda/sac/1a2b3c4d/seed_0/best_policy.safetensors
python evaluate.py runs/reach/panda/sac/1a2b3c4d/seed_0 --engine mujoco --video reach.mp4
python evaluate.py --policy oracle --task push --robot kuka
python evaluate.py --policy random --task AGMDW --json
python evaluate.py runs/reach/panda/sac/1a2b3c4d/seed_0 --gui
python evaluate.py --policy keyboard --task push --set task_params.horizon=300
python evaluate.py --policy sliders --control joint_position
python evaluate.py --policy random --task pick_and_place --failure-videos failures
python evaluate.py runs/pick_and_place/panda/dagger/1a2b3c4d/seed_0 --detector cube.safetensors
""",
    notes="""
`mygym evaluate` is the same program. Config flags other than --seed need --policy. --json also prints every episode.
""",
)
def evaluate(options: argparse.Namespace) -> None:
    """Evaluate the policy of a run, or a policy that needs no training, on seeded episodes."""
    if (options.run is None) == (options.policy is None):
        raise ConfigError("evaluate: give either the path of a run or --policy NAME, e.g. --policy oracle --task push")
    file, flags = config_layers(options)
    seed = parse_seed(flags.get("seed", file.get("seed", 0)))
    _check_flags(options, file, flags)

    from mygym.api import evaluate
    from mygym.demonstrations.teleoperation import INSTRUCTIONS, KEYBOARD
    from mygym.planning.resolve import resolve_config

    if options.policy == KEYBOARD:
        print_message(INSTRUCTIONS)
    resolved = resolve_config(file, flags) if options.run is None else None
    if resolved is not None and options.judge is None:
        check_engine(resolved.config, flags, "--engine")
    evaluation = evaluate(
        options.run,
        policy=options.policy,
        config=resolved,
        episodes=options.episodes,
        seed=seed,
        video=options.video,
        failure_videos=options.failure_videos,
        trust=options.trust,
        gui=options.gui,
        detector=options.detector,
        engine=options.judge,
    )
    if options.json:
        content = {"failures": _failures(evaluation), "episodes": evaluation.episodes}
        print_json({"engine": evaluation.engine, **evaluation.summary(), **content})
        return
    _print_evaluation(evaluation)
    if options.video:
        print(f"video: {options.video}")
    if options.failure_videos:
        folder = options.failure_videos if evaluation.failures else "none, as no episode failed"
        print(f"failure videos: {folder}")


def _check_flags(options: argparse.Namespace, file: dict[str, Any], flags: dict[str, Any]) -> None:
    """Refuse config values in combination with a run, and files that cannot be written."""
    unused = set(flags) - {"seed", "imports"}
    if options.run is not None and (file or unused):
        allowed = "--episodes, --seed, --engine, --video, --failure-videos, --json"
        wrong = f"--{next(iter(unused), 'config')}"
        raise ConfigError(bad_value("evaluate", wrong, allowed, "cannot be combined with a run"))
    if options.video is not None:
        from mygym.training.video import OUTPUTS

        check_output(Path(options.video), "--video", OUTPUTS, options.force)
    if options.failure_videos is not None:
        check_writable(options.failure_videos, "--failure-videos")


def _print_evaluation(evaluation: Evaluation) -> None:
    print(f"episodes       {len(evaluation.episodes)} in {evaluation.engine}")
    print(f"success_rate   {evaluation.success_rate:.1%}")
    for task, rate in evaluation.success_by_task.items():
        print(f"  {task:<12} {rate:.1%}")
    print(f"mean_return    {evaluation.mean_return:.2f}")
    print(f"mean_length    {evaluation.mean_length:.1f} steps")
    print(f"mean_distance  {100 * evaluation.mean_distance:.2f} cm at the end")
    print("stage_reached  " + ", ".join(f"{name} {count}" for name, count in evaluation.stage_reached.items()))
    for failure in _failures(evaluation):
        stage = f"failed in {failure['stage']} ({failure['phrase']})"
        share = f"{failure['count']} of {len(evaluation.episodes)} episodes, {failure['share']:.1%}"
        print(f"{stage}: {share}; the first has seed {failure['seed']}")


def _failures(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return a row for each stage in which episodes ended without success."""
    rows = []
    for failure in evaluation.failures:
        number = evaluation.failed_in(failure.stage)
        share = number / len(evaluation.episodes)
        row = {"stage": failure.stage, "phrase": failure.phrase, "count": number, "share": share, "seed": failure.seed}
        rows.append(row)
    return rows


METHODS = ("evolutionary", "random")
SHOWN = 20
"""Maximum number of rows of the table."""


@command(
    "mygym search",
    argument("run", metavar="RUN", help="a run directory, or a policy file in it"),
    argument("--method", default=METHODS[0], metavar="M", help="evolutionary (default) or random"),
    count("--tries", "number of evaluated paths", 20),
    argument("--budget-us", metavar="X", help="longest forward pass with one observation, in microseconds"),
    count("--episodes", "episodes per path", 20),
    argument("--seed", type=parse_seed, default=0, metavar="S", help="seed of paths and episodes (default 0)"),
    argument("--out", metavar="FILE", help="write the policy with the best path: RUN/NAME.safetensors"),
    JSON,
    examples="""
mygym search runs/reach/panda/ppo/1a2b3c4d/seed_0
mygym search runs/reach/panda/ppo/1a2b3c4d/seed_0 --method random --tries 50 --episodes 100
mygym search RUN --budget-us 80 --out RUN/fast.safetensors      then: python evaluate.py RUN/fast.safetensors
""",
    notes="""
In a run with `--strategy mixture` whose networks are sampled (`by: sampler`) or mixed, a path is a choice of one
candidate in each layer. The command measures the time of each path and evaluates all paths on the same episodes. It
does not change the run.
""",
)
def search(options: argparse.Namespace) -> None:
    """Search the best path through the super-networks of a run."""
    if options.method not in METHODS:
        raise ConfigError(bad_value("--method", options.method, METHODS))
    budget = None if options.budget_us is None else parse_value(options.budget_us, "--budget-us")
    if budget is not None and (not isinstance(budget, int | float) or isinstance(budget, bool) or not budget > 0):
        raise ConfigError(bad_value("--budget-us", options.budget_us, "a number above 0"))

    from mygym.api import search

    candidates = search(
        options.run,
        method=options.method,
        tries=options.tries,
        budget_us=budget,
        episodes=options.episodes,
        seed=options.seed,
        out=options.out,
    )
    if options.json:
        print_json(candidates)
        return
    print_table(
        [
            {
                "path": " ".join(map(str, candidate.path)),
                "forward pass": f"{candidate.microseconds:.0f} µs",
                "success": f"{candidate.success_rate:.1%}",
                "mean return": f"{candidate.mean_return:.2f}",
            }
            for candidate in candidates[:SHOWN]
        ],
        f"{counted(len(candidates), 'path')}, {counted(options.episodes, 'episode')} each",
    )
    if options.out:
        print(f"policy: {options.out}")
