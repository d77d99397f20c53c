"""`mygym parity`: compare an engine with Bullet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from mygym.cli.arguments import flag_value, parse_count
from mygym.cli.command import JSON, argument, command
from mygym.cli.output import print_json, print_table
from mygym.config import Layer, resolve
from mygym.errors import ConfigError, bad_value

if TYPE_CHECKING:
    from mygym.checks.parity import Parity

PARSER = command(
    "mygym parity",
    "Compare an engine with Bullet: the same actions in both; distances between tools and objects, and grasps.",
    argument("run", nargs="?", metavar="RUN", help="a run, whose policy is to be compared instead"),
    argument("--robot", metavar="R", help="the arm (default panda)"),
    argument("--task", metavar="T", help="the task (default reach)"),
    argument("--control", metavar="C", help="the controller (default ee_delta)"),
    argument("--engine", metavar="E", default="fused", help="the engine: fused, mujoco … (default fused)"),
    argument("--episodes", metavar="N", help="episodes of each kind (default 20), or of a run's policy (default 100)"),
    argument("--seed", metavar="S", default="0", help="seed of actions and episodes (default 0)"),
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

DEFAULTS = {"robot": "panda", "task": "reach", "control": "ee_delta"}
"""Values of the flags that a run replaces."""

RUN_FLAGS = ["--engine", "--episodes", "--seed", "--json", "--import"]
"""Flags that may be combined with a run."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    flags = {key: value for key in DEFAULTS if (value := getattr(options, key)) is not None}
    seed = resolve([Layer("flag", {"seed": flag_value("seed", options.seed)})]).config.seed
    if options.run is not None:
        if flags:
            raise ConfigError(bad_value("parity", f"--{next(iter(flags))}", RUN_FLAGS, "cannot be combined with a run"))
        count = parse_count(options.episodes or "100", "--episodes")
        _print_transfer(options.run, count, seed, options.engine, options.json)
        return
    episodes = parse_count(options.episodes or "20", "--episodes")
    values = {**DEFAULTS, **flags}
    values["control"] = flag_value("control", values["control"])
    resolve([Layer("flag", values)])

    from mygym.checks.parity import compare_engines

    kinds = compare_engines(values, episodes, seed, options.engine)
    if options.json:
        print_json([asdict(kind) for kind in kinds])
        return
    rows = [
        {
            "actions": kind.actions,
            "episodes": kind.episodes,
            "mean, mm": f"{kind.mean:.1f}",
            "95 %, mm": f"{kind.percentile:.1f}",
            "object mean, mm": _number(kind.object_mean),
            "median, mm": _number(kind.object_median),
            "pybullet": _share(kind.success_pybullet),
            options.engine: _share(kind.success_engine),
            "grasps": "" if kind.grasps is None else str(kind.grasps),
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
        print_json(asdict(transfer))
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
    return (
        f"{_share(kind.gate)}; {_share(kind.gate_same_place) or 'none'} of {kind.grasps_same_place} from the same place"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
