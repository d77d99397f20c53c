"""`mygym check`, `card` and `parity`: validate a component, measure a task, compare an engine with Bullet."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mygym.checks.suite import FAILED, LEFT_OUT, PASSED, SUITES, TRAINED, Outcome
from mygym.cli.command import (
    CONFIG_FLAGS,
    JSON,
    argument,
    command,
    command_kind,
    count,
    flag_value,
    parse_seed,
    registry_kind,
    repeated,
)
from mygym.cli.config_files import check_engine, config_layers
from mygym.cli.output import exit_with_failure, print_json, print_table
from mygym.config import Layer, merge_configs, resolve
from mygym.errors import ConfigError, bad_value, counted, print_message
from mygym.registry import registry
from mygym.reporting.tables import as_text

if TYPE_CHECKING:
    from mygym.checks.parity import Parity

KINDS_IN_WORDS = ", ".join(map(command_kind, [*SUITES][:-1])) + f" or {command_kind([*SUITES][-1])}"


@command(
    "mygym check",
    argument("kind", metavar="KIND", help=KINDS_IN_WORDS),
    argument("name", nargs="?", metavar="NAME", help="a name of `mygym list KIND`, or a URDF or YAML file"),
    argument("--all", action="store_true", help="check all components of the kind"),
    argument("--framework", metavar="F", help="framework of an algorithm or policy: pytorch, jax (default: its first)"),
    count("--steps", "env steps of each training (default 2000; of a policy 500)"),
    argument("--robot", metavar="R", help="robot that is tried in a workspace (default: all robots with a pose in it)"),
    repeated("--skip", "CHECK", "leave out a check; may be repeated"),
    JSON,
    examples="""
mygym check algo sac
mygym check algo my_algo --steps 500
mygym check algo my_algo --skip learns
mygym check task push
mygym check robot --all
mygym check workspace drawer --robot kuka
mygym check object path/to/thing.urdf
mygym check algo my_algo --json --import my.module
""",
    notes="""
The checks of an algorithm: it can be constructed, accepts the observations that its registration names, trains, acts
the same after loading, is completely described by config and result, is repeatable, resumes, ends with a clear
message in a broken environment, and learns reach as fast as the algorithm from which it inherits (which takes
minutes). Built-in components pass the same checks. All files that the checks write are removed.
The checks of a robot end with its tasks: each is solved by the scripted expert, or left out with the reason why the
robot cannot do it. A failed grasp has its cause, and the keys of the robot's YAML file that correct it.
Exit codes: 0 all checks passed, 1 a check failed, 2 invalid input.
""",
)
def check(options: argparse.Namespace) -> None:
    """Validate a component: run all checks of its kind."""
    kind = _validate(options)
    outcomes = []
    for outcome in _outcomes(kind, options):
        outcomes.append(outcome)
        if not options.json:
            status = outcome.status.upper() if outcome.failed else outcome.status
            print(f"  {status:<9}{outcome.check:<29}{outcome.seconds:6.1f} s  {outcome.why}".rstrip(), flush=True)
    if options.json:
        print_json(outcomes)
    else:
        numbers = Counter(outcome.status for outcome in outcomes)
        counts = ", ".join(f"{numbers[status]} {status}" for status in (PASSED, FAILED, LEFT_OUT))
        print(f"{counts}, {sum(outcome.seconds for outcome in outcomes):.1f} s")
    if any(outcome.failed for outcome in outcomes):
        exit_with_failure()


def _validate(options: argparse.Namespace) -> str:
    """Return the kind; refuse flags that do not apply to it."""
    kind = registry_kind(options.kind)
    if kind not in SUITES:
        raise ConfigError(bad_value("check", options.kind, map(command_kind, SUITES), "has no checks"))
    if (options.name is None) != options.all:
        raise ConfigError("check: give either a NAME or --all")
    for flag in ("steps", "framework"):
        if getattr(options, flag) is not None and kind not in TRAINED:
            raise ConfigError(bad_value(f"--{flag}", kind, map(command_kind, TRAINED), "is not trained"))
    if options.robot is not None and kind != "workspace":
        raise ConfigError(bad_value("--robot", kind, ["workspace"], "is not checked with a robot"))
    return kind


def _outcomes(kind: str, options: argparse.Namespace) -> Iterator[Outcome]:
    """Run the checks of the chosen components."""
    from mygym.checks import check

    config = {"imports": options.imports} if options.imports else {}
    for name in registry(kind).names() if options.all else [options.name]:
        entry = registry(kind).get(name, options.kind)
        if options.all and kind == "robot" and entry.missing_extras:  # its model files are not installed
            continue
        frameworks = entry.frameworks if kind in TRAINED and entry.frameworks else ("pytorch",)
        if options.all:
            frameworks = tuple(each for each in frameworks if options.framework in (None, each))
        else:
            frameworks = (options.framework or frameworks[0],)
        for framework in frameworks:
            # refuses unknown names
            outcomes = check(kind, name, framework, options.steps, config, options.robot, options.skip)
            if not options.json:
                suffix = f" ({framework})" if entry.frameworks else ""
                print(f"{kind} {name}{suffix}", flush=True)
            yield from outcomes


@command(
    "mygym card",
    argument("task", nargs="?", metavar="TASK", help=CONFIG_FLAGS["task"][1]),
    count("--episodes", "episodes of each policy, and 6 N resets", 100),
    JSON,
    config_flags=("robot", "workspace", "control"),
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
def card(options: argparse.Namespace) -> None:
    """Measure how hard a task is: success rates and returns of random, idle and scripted expert policies."""
    file, flags = config_layers(options)
    checked = resolve([Layer("file", file), Layer("flag", flags)])  # report wrong types before the robot is loaded
    check_engine(checked.config, flags)
    config = merge_configs(file, flags)
    if "task" not in config:
        raise ConfigError("card: give a TASK, or a --config with a task")

    from mygym.checks.tasks import make_card

    name = options.config if options.config and not options.task else str(config["task"])
    card = make_card(config, options.episodes, lambda message: print_message(f"card of {name}: {message}")).to_json()
    if options.json:
        print_json(card)
    else:
        _print_card(card, options.episodes)


def _print_card(card: Mapping[str, Any], episodes: int) -> None:
    from mygym.checks.tasks import IDLE, REWARDS

    print(f"{card['task']}: {card['words']}")
    scene = f"{card['robot']}, workspace {card['workspace']}, {card['control']}"
    print(f"{scene}; {counted(episodes, 'episode')} of each policy")
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


DEFAULTS = {"robot": "panda", "task": "reach", "control": "ee_delta"}
"""Values of the flags that a run replaces."""


@command(
    "mygym parity",
    argument("run", nargs="?", metavar="RUN", help="a run, whose policy is to be compared instead"),
    argument("--robot", metavar="R", help="the arm (default panda)"),
    argument("--task", metavar="T", help="the task (default reach)"),
    argument("--control", metavar="C", help="the controller (default ee_delta)"),
    argument("--engine", metavar="E", default="fused", help="the engine: fused, mujoco … (default fused)"),
    count("--episodes", "episodes of each kind (default 20), or of a run's policy (default 100)"),
    argument("--seed", type=parse_seed, metavar="S", default=0, help="seed of actions and episodes (default 0)"),
    JSON,
    examples="""
mygym parity
mygym parity --robot kuka --episodes 50
mygym parity --task pick_and_place
mygym parity --task open_door --engine mujoco
mygym parity runs/reach/panda/ppo/1a2b3c4d/seed_0
mygym parity --json
""",
    notes="""
Random episodes have 50 full-scale actions; expert episodes have those of the scripted expert in Bullet; those of the
noisy expert are of the scripted expert in the engine, with noise. All are open loop from the reset: errors add up.
Success is that of the expert, in each engine by itself. Grasps: episodes in which the engine holds the object, and the
share of them in which Bullet holds it under the same actions; then the same for grasps before which the object is
within 5 mm of Bullet's, as no earlier contact has moved it elsewhere.

With a run: success of its policy in fresh episodes of each engine, and the gap between them; `mygym certify` plays the
same episodes in both.
""",
)
def parity(options: argparse.Namespace) -> None:
    """Compare an engine with Bullet: the same actions in both; distances between tools and objects, and grasps."""
    flags = {key: value for key in DEFAULTS if (value := getattr(options, key)) is not None}
    if options.run is not None:
        if flags:
            allowed = ["--engine", "--episodes", "--seed", "--json", "--import"]
            raise ConfigError(bad_value("parity", f"--{next(iter(flags))}", allowed, "cannot be combined with a run"))
        _print_transfer(options.run, options.episodes or 100, options.seed, options.engine, options.json)
        return
    values = {**DEFAULTS, **flags}
    values["control"] = flag_value("control", values["control"])
    resolve([Layer("flag", values)])

    from mygym.checks.parity import compare_engines

    kinds = compare_engines(values, options.episodes or 20, options.seed, options.engine)
    if options.json:
        print_json(kinds)
        return
    rows = [
        {
            "actions": kind.actions,
            "episodes": kind.episodes,
            "mean, mm": f"{kind.mean:.1f}",
            "95 %, mm": f"{kind.percentile:.1f}",
            "object mean, mm": as_text(kind.object_mean, ".1f"),
            "median, mm": as_text(kind.object_median, ".1f"),
            "pybullet": as_text(kind.success_pybullet, ".0%"),
            options.engine: as_text(kind.success_engine, ".0%"),
            "grasps": as_text(kind.grasps, "d"),
            "of them in pybullet": _gate(kind),
        }
        for kind in kinds
    ]
    measured = [name for name in rows[0] if any(row[name] != "" for row in rows)]
    print_table([{name: row[name] for name in measured} for row in rows])


def _print_transfer(run: str, episodes: int, seed: int, engine: str, as_json: bool) -> None:
    """Print the success of a run's policy in both engines."""
    from mygym.checks.parity import measure_transfer

    transfer = measure_transfer(run, episodes, seed, engine)
    if as_json:
        print_json(transfer)
        return
    gap = 100 * (transfer.success_engine - transfer.success_pybullet)
    print(f"episodes  {transfer.episodes} in each engine")
    print(f"{engine:<8}  {transfer.success_engine:.1%}")
    print(f"pybullet  {transfer.success_pybullet:.1%}")
    print(f"gap       {gap:+.1f} points ({engine} - pybullet)")


def _gate(kind: Parity) -> str:
    """Return the share of the grasps on which Bullet agrees, and of those with the object at the same place before."""
    if kind.gate is None:
        return ""
    same_place = as_text(kind.gate_same_place, ".0%") or "none"
    return f"{kind.gate:.0%}; {same_place} of {kind.grasps_same_place} from the same place"
