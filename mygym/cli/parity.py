"""`mygym parity`: compare the fused engine with Bullet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from mygym.cli.arguments import flag_value, parse_count
from mygym.cli.command import JSON, argument, command
from mygym.cli.output import print_json, print_table
from mygym.config import Layer, resolve

PARSER = command(
    "mygym parity",
    "Compare the fused engine with Bullet: the same actions in both; distances between tools and objects, and grasps.",
    argument("--robot", metavar="R", default="panda", help="the arm (default panda)"),
    argument("--task", metavar="T", default="reach", help="the task (default reach)"),
    argument("--control", metavar="C", default="ee_delta", help="the controller (default ee_delta)"),
    argument("--episodes", metavar="N", default="20", help="episodes of each kind (default 20)"),
    argument("--seed", metavar="S", default="0", help="seed of actions and episodes (default 0)"),
    JSON,
    examples="""
mygym parity
mygym parity --robot kuka --episodes 50
mygym parity --task pick_and_place
mygym parity --json
""",
    notes="""
Random episodes have 50 full-scale actions; expert episodes have those of the scripted expert in Bullet; those of the
noisy expert are of the scripted expert in the engine, with noise. All are open loop from the reset: errors add up.
Success is that of the expert, in each engine by itself. Grasps: episodes in which the engine holds the object, and the
share of them in which Bullet holds it under the same actions.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    episodes = parse_count(options.episodes, "--episodes")
    seed = flag_value("seed", options.seed)
    values = {"robot": options.robot, "task": options.task, "control": flag_value("control", options.control)}
    config = resolve([Layer("flag", {**values, "seed": seed})]).config

    from mygym.checks.parity import compare_engines

    kinds = compare_engines(values, episodes, config.seed)
    if options.json:
        print_json([asdict(kind) for kind in kinds])
        return
    print_table(
        [
            {
                "actions": kind.actions,
                "episodes": kind.episodes,
                "mean, mm": f"{kind.mean:.1f}",
                "95 %, mm": f"{kind.percentile:.1f}",
                "object mean, mm": _number(kind.object_mean),
                "median, mm": _number(kind.object_median),
                "pybullet": _share(kind.success_pybullet),
                "fused": _share(kind.success_fused),
                "grasps": "" if kind.grasps is None else str(kind.grasps),
                "of them in pybullet": _share(kind.gate),
            }
            for kind in kinds
        ]
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
