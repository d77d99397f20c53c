"""`mygym card`: success rates and returns of random, idle and expert policies on a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mygym.cli.arguments import CONFIG_FLAGS, flag_value, parse_count
from mygym.cli.command import CONFIG, JSON, SET, argument, command
from mygym.cli.foreign_configs import read_config
from mygym.cli.output import print_json, print_note, print_table
from mygym.config import Layer, merge_configs, parse_overrides, resolve
from mygym.errors import ConfigError

FLAGS = ("robot", "workspace", "control")

PARSER = command(
    "mygym card",
    "Measure how hard a task is: success rates and returns of random, idle and scripted expert policies.",
    argument("task", nargs="?", metavar="TASK", help=CONFIG_FLAGS["task"][1]),
    CONFIG,
    SET,
    *(argument(f"--{key}", metavar=CONFIG_FLAGS[key][0], help=CONFIG_FLAGS[key][1]) for key in FLAGS),
    argument("--episodes", default="100", metavar="N", help="episodes of each policy, and 6 N resets (default 100)"),
    JSON,
    examples="""
mygym card push
mygym card AGMDW --robot xarm6_gripper --control joint_delta
mygym card "[approach, push]" --episodes 20
mygym card open_drawer --json
mygym card --config my_run.yaml --set task_params.tolerance=0.02
""",
    notes="""
A good task is solved neither at its reset (at most 0.5 % of resets) nor by random or idle policies (at most 5 % of
episodes; 20 % if the goal is only a point to reach). Its expert solves it (at least 95 %), and every kind of reward
is higher for the expert than for any idle policy. The column `bound` has the limit at 95 % confidence: after 100
episodes without success, at most 3 % are solved; after 100 successes, at least 97 %. `mygym check task NAME` fails if
the card has a flaw.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    episodes = parse_count(options.episodes, "--episodes")
    texts = {key: getattr(options, key) for key in ("task", *FLAGS)}
    flags = {key: flag_value(key, text) for key, text in texts.items() if text is not None}
    flags = merge_configs(flags, parse_overrides(options.set))
    file = read_config(options.config, flags) if options.config else {}
    resolve([Layer("file", file), Layer("flag", flags)])  # report wrong types before the robot is loaded
    config = merge_configs(file, flags)
    if "task" not in config:
        raise ConfigError("card: give a TASK, or a --config with a task")

    from mygym.checks.cards import make_card

    name = options.config if options.config and not options.task else str(config["task"])
    card = make_card(config, episodes, lambda message: print_note(f"card of {name}: {message}")).to_json()
    if options.json:
        print_json(card)
    else:
        _print_card(card, episodes)


def _print_card(card: Mapping[str, Any], episodes: int) -> None:
    from mygym.checks.cards import IDLE, REWARDS, in_words

    print(f"{card['task']}: {card['words']}")
    print(f"{card['robot']}, workspace {card['workspace']}, {card['control']}; {in_words(episodes)} of each policy")
    print_table(
        [
            {
                "policy": policy,
                "solved": f"{values['success_rate']:.1%}",
                "bound": f"≤ {values['at_most']:.1%}" if policy in IDLE else f"≥ {values['at_least']:.1%}",
                "steps": f"{values['mean_length']:.1f}",
                **{f"{kind} return": f"{values['returns'][kind]:.2f}" for kind in REWARDS},
                "episodes end in": ", ".join(f"{stage} {count}" for stage, count in values["stage_reached"].items()),
            }
            for policy, values in card["policies"].items()
        ]
    )
    print(f"solved at reset: {card['solved_at_reset']:.1%} of {card['resets']} resets")
    for requirement, reason in card["flaws"].items():
        print(f"{requirement}: NO, {reason}")
    if card["flaws"]:
        return
    if card["inconclusive"]:
        print(f"no flaw so far, but {'; '.join(card['inconclusive'])}: run more --episodes to be sure")
    else:
        print("no flaw")
