"""`mygym evaluate`, which `python evaluate.py` is too."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.cli.arguments import Parser, add_config_flags, check_video, config_layers, count
from mygym.config import Layer, resolve
from mygym.errors import ConfigError, bad_value
from mygym.runs.files import check_writable

if TYPE_CHECKING:
    from mygym.runs.evaluation import Evaluation

EXAMPLES = """\
examples:
  python evaluate.py runs/reach/panda/sac/1a2b3c4d/seed_0
  python evaluate.py runs/reach/panda/sac/1a2b3c4d/seed_0 --episodes 500 --video reach.mp4
  python evaluate.py runs/reach/panda/sac/1a2b3c4d/seed_0/best_policy.safetensors
  python evaluate.py --policy oracle --task push --robot kuka
  python evaluate.py --policy random --task AGMDW --json
  python evaluate.py --policy random --task pick_and_place --failure-videos failures
"""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    if (options.run is None) == (options.policy is None):
        raise ConfigError("evaluate: give either the path of a run or --policy NAME, e.g. --policy oracle --task push")
    episodes = count(options.episodes, "--episodes")
    file, flags = config_layers(options)
    seed = resolve([Layer("flag", {"seed": flags.get("seed", 0)})]).config.seed
    other = set(flags) - {"seed", "imports"}
    if options.run is not None and (file or other):
        wrong = f"--{next(iter(other), 'config')}"
        raise ConfigError(
            bad_value(
                "evaluate", wrong, "--episodes, --seed, --video, --failure-videos, --json", "does not go with a run"
            )
        )
    if options.video is not None:
        check_video(Path(options.video))
    if options.failure_videos is not None:
        check_writable(options.failure_videos, "--failure-videos")

    from mygym.api import evaluate
    from mygym.runs.resolve_config import resolve_config

    evaluation = evaluate(
        options.run,
        policy=options.policy,
        config=resolve_config(file, flags) if options.run is None else None,
        episodes=episodes,
        seed=seed,
        video=options.video,
        failure_videos=options.failure_videos,
        trust=options.trust,
    )
    if options.json:
        content = {"failures": _failures(evaluation), "episodes": [asdict(episode) for episode in evaluation.episodes]}
        print(json.dumps({**evaluation.summary(), "stage_reached": evaluation.stage_reached, **content}, indent=2))
        return
    print(f"episodes       {len(evaluation.episodes)}")
    print(f"success_rate   {evaluation.success_rate:.1%}")
    for task, rate in evaluation.success_by_task.items():
        print(f"  {task:<12} {rate:.1%}")
    print(f"mean_return    {evaluation.mean_return:.2f}")
    print(f"mean_length    {evaluation.mean_length:.1f} steps")
    print(f"mean_distance  {100 * evaluation.mean_distance:.2f} cm at the end")
    print("stage_reached  " + ", ".join(f"{name} {count}" for name, count in evaluation.stage_reached.items()))
    for failure in _failures(evaluation):
        where = f"failed in {failure['stage']} ({failure['phrase']})"
        share = f"{failure['count']} of {len(evaluation.episodes)} episodes, {failure['share']:.1%}"
        print(f"{where}: {share}; the first has seed {failure['seed']}")
    if options.video:
        print(f"video: {options.video}")
    if options.failure_videos:
        print(
            f"failure videos: {options.failure_videos}" if evaluation.failures else "films: none, as no episode failed"
        )


def _failures(evaluation: Evaluation) -> list[dict[str, Any]]:
    """In which stages episodes ended without success."""
    found = []
    for failure in evaluation.failures:
        failed = evaluation.failed_in(failure.stage)
        numbers = {"count": failed, "share": failed / len(evaluation.episodes), "seed": failure.seed}
        found.append({"stage": failure.stage, "phrase": failure.phrase, **numbers})
    return found


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "evaluate.py",
        description="Judge the policy of a run, or a policy that needs no training, over seeded episodes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="a run directory, or best_policy.safetensors or model.zip in one"
    )
    parser.add_argument("--policy", metavar="P", help="oracle, random, zero or hover, in place of a run")
    parser.add_argument("--episodes", default="100", metavar="N", help="how many (default 100)")
    parser.add_argument("--video", metavar="FILE", help="film the first episodes as MP4")
    parser.add_argument("--failure-videos", metavar="DIR", help="film the first failed episode of each stage as MP4")
    parser.add_argument(
        "--trust", action="store_true", help="open a .zip of somebody else's: its pickles can run any code"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, every episode in it")
    add_config_flags(parser)
    return parser
