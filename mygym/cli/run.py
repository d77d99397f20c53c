"""`mygym run`: play an exported policy in PyBullet, without torch."""

from __future__ import annotations

from collections.abc import Sequence

from mygym.cli.arguments import flag_value, parse_count
from mygym.cli.command import JSON, argument, command
from mygym.cli.output import print_json
from mygym.config import Layer, resolve

PARSER = command(
    "mygym run",
    "Play an exported policy in PyBullet, an ONNX file with numpy and onnxruntime alone, and measure its latency.",
    argument("file", metavar="FILE", help="a file that `mygym export` has written"),
    argument("--episodes", default="100", metavar="N", help="number of episodes (default 100)"),
    argument("--seed", metavar="S", default="0", help="seed of the episodes (default 0)"),
    argument("--gui", action="store_true", help="play in a window, whose sliders move the goal"),
    argument("--trust", action="store_true", help="a .pt2 file, or a file that names modules: both can run any code"),
    JSON,
    examples="""
mygym run reach.onnx
mygym run reach.onnx --episodes 500 --seed 1
mygym run reach.onnx --gui
mygym run reach.onnx --json
""",
    notes="""
`mygym evaluate RUN` plays the same episodes. The latency is that of the policy for a single observation, in Python.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    episodes = parse_count(options.episodes, "--episodes")
    seed = resolve([Layer("flag", {"seed": flag_value("seed", options.seed)})]).config.seed

    from mygym.exporting.playing import play
    from mygym.reporting.statistics import success_interval

    playing = play(options.file, episodes, seed, options.gui, trust=options.trust)
    evaluation = playing.evaluation
    interval = success_interval(evaluation.solved, len(evaluation.episodes))
    if options.json:
        latency = {"median": playing.microseconds(50), "percentile_99": playing.microseconds(99)}
        print_json({**evaluation.summary(), "interval": list(interval), "latency_us": latency})
        return
    print(f"episodes      {len(evaluation.episodes)}")
    print(f"success_rate  {evaluation.success_rate:.1%} (95 %: {interval.low:.1%} to {interval.high:.1%})")
    print(f"latency       median {playing.microseconds(50):.0f} µs, 99 % {playing.microseconds(99):.0f} µs")
