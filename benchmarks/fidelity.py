"""How much accuracy each physics setting costs, against a fine reference: chooses `mygym.sim.world.SolverSettings`.

    python benchmarks/fidelity.py --output benchmarks/results/fidelity.md

Every setting replays the same actions as the reference (80 substeps of 0.5 ms, 200 iterations, no residual threshold) on the
Panda. Columns: time of `World.step` (median, random actions, with a cube), RMS deviation of the end-effector's path on a sine,
largest settled position error, RMS and largest deviation of a pushed cube's final position, and grasps that lift and hold.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mygym.sim.kinematics import Kinematics
from mygym.sim.objects import load_object
from mygym.sim.robot import load_robot
from mygym.sim.world import SolverSettings, World
from mygym.sim.workspace import load_workspace

Array = NDArray[np.float64]

REFERENCE = SolverSettings(80, 200, 1e-12)
CANDIDATES = [
    SolverSettings(substeps, iterations, threshold)
    for substeps in (8, 10, 20)
    for iterations, threshold in ((50, 1e-2), (50, 1e-3), (50, 1e-4), (50, 1e-7), (10, 1e-3), (20, 1e-3), (10, 1e-4), (20, 1e-4))
]


def make_world(solver: SolverSettings, gripper: bool, cube: bool = True) -> World:
    """The Panda at the table under `ee_delta`."""
    objects = [load_object("cube")] if cube else []
    return World(load_robot("panda"), load_workspace("table"), objects, "ee_delta", gripper=gripper, solver=solver)


def pose(x: float, y: float, yaw: float = 0.0) -> Array:
    """`(1, 7)` pose of the cube on the table."""
    return np.array([[x, y, 0.02, 0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)]])


def sine_path(world: World) -> Array:
    """`(100, 3)` end-effector positions while actions swing it on three axes, at up to 0.5 m/s."""
    world.reset(np.zeros((0, 7)))
    path = []
    for step in range(100):
        t = step * world.dt
        speed = np.array([0.35 * np.cos(2.5 * t), 0.35 * np.cos(2.5 * t + 2.0), 0.2 * np.cos(5.0 * t)])
        world.step(speed * world.dt / 0.05)
        path.append(world.state.ee_position[0].copy())
    return np.array(path)


def settled_error(world: World) -> float:
    """m: largest distance from the commanded position after 1.2 s, over six targets."""
    rng = np.random.default_rng(1)
    area = world.workspace.areas["reach"]
    worst = 0.0
    for target in rng.uniform(area.low, area.high, (6, 3)):
        world.reset(np.zeros((0, 7)))
        for _ in range(30):
            world.step(world.action_towards(target))
        worst = max(worst, float(np.linalg.norm(world.state.ee_position[0] - target)))
    return worst


def pushes(world: World) -> Array:
    """`(8, 2)` final positions of a cube that closed fingers push off centre, without feedback."""
    rng = np.random.default_rng(2)
    result = []
    for angle, offset in zip(rng.uniform(-np.pi, np.pi, 8), rng.uniform(-0.008, 0.008, 8), strict=True):
        ahead, aside = np.array([np.cos(angle), np.sin(angle), 0.0]), np.array([-np.sin(angle), np.cos(angle), 0.0])
        world.reset(pose(0.0, 0.0, angle / 2))
        start = -0.08 * ahead + offset * aside
        for _ in range(15):
            world.step(world.action_towards(start + np.array([0.0, 0.0, 0.1])))
        for _ in range(15):
            world.step(world.action_towards(start + np.array([0.0, 0.0, 0.02])))
        for _ in range(30):
            world.step(np.array([*(0.006 * ahead / 0.05)]))
        for _ in range(10):
            world.step(np.zeros(3))
        result.append(world.state.object_position[0, 0, :2].copy())
    return np.array(result)


def grasps(world: World) -> Iterator[bool]:
    """For twelve cubes: grasped, lifted 20 cm, swung fast and held still: is it still in the hand?"""
    rng = np.random.default_rng(3)
    for x, y, yaw in rng.uniform((-0.12, -0.12, -0.3), (0.12, 0.12, 0.3), (12, 3)):
        world.reset(pose(x, y, yaw))
        for height, gripper, steps in ((0.1, 1, 15), (0.02, 1, 15), (0.02, -1, 10), (0.22, -1, 15)):
            for _ in range(steps):
                world.step(world.action_towards(np.array([x, y, height]), gripper))
        for corner in ((0.15, 0.15), (-0.15, -0.15), (0.15, -0.15), (-0.15, 0.15)):
            for _ in range(12):
                world.step(world.action_towards(np.array([*corner, 0.22]), -1))
        for _ in range(25):
            world.step(np.array([0.0, 0.0, 0.0, -1.0]))
        yield bool(np.linalg.norm(world.state.object_position[0, 0] - world.state.ee_position[0]) < 0.02)


def step_time(world: World, steps: int = 400) -> float:
    """µs: median time of `World.step` under random actions."""
    rng = np.random.default_rng(4)
    times = []
    world.reset(pose(0.1, 0.1)[: len(world.objects)])
    for action in rng.uniform(-0.5, 0.5, (steps, world.action_size)):
        start = time.perf_counter()
        world.step(action)
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e6


def inverse_kinematics_table() -> str:
    """Our own step against Bullet's solver: residual after a move, and time."""
    import pybullet  # noqa: PLC0415  only here: the library itself does not use Bullet's solver

    world = make_world(SolverSettings(), gripper=False, cube=False)
    kinematics, down = world.kinematics, world.kinematics.chain.down
    rng = np.random.default_rng(5)
    area = world.workspace.areas["reach"]
    starts = [kinematics.inverse(world.home, point, down) for point in rng.uniform(area.low, area.high, (100, 3))]
    moves = rng.uniform(-1, 1, (100, 3)) * 0.05
    quaternion = world.state.ee_orientation[0].tolist()
    rows = ["| solver | mean residual, mm | largest, mm | µs |", "|---|---|---|---|"]

    def bullet(q: Array, position: Array, iterations: int) -> Array:
        flange = position - down @ np.array(world._ee_offset)
        answer = pybullet.calculateInverseKinematics(
            world._robot, world._ee_link, flange.tolist(), quaternion, currentPositions=q.tolist(),
            maxNumIterations=iterations, residualThreshold=1e-4, physicsClientId=world._client,
        )  # fmt: skip
        return np.array(answer)

    solvers = {
        "ours, 1 iteration": lambda q, x: kinematics.inverse(q, x, down, 1),
        "ours, 2 iterations": lambda q, x: kinematics.inverse(q, x, down, 2),
        "ours, as `ee_delta` has it (the second if more than 1 mm is left)": lambda q, x: kinematics.inverse(q, x, down, 2, 1e-3),
        "Bullet, 1 iteration": lambda q, x: bullet(q, x, 1),
        "Bullet, 5 iterations": lambda q, x: bullet(q, x, 5),
        "Bullet, 20 iterations (its default)": lambda q, x: bullet(q, x, 20),
    }
    for name, solve in solvers.items():
        residuals, times = [], []
        for q, move in zip(starts, moves, strict=True):
            target = _position(kinematics, q) + move
            begin = time.perf_counter()
            answer = solve(q, target)
            times.append(time.perf_counter() - begin)
            residuals.append(np.linalg.norm(_position(kinematics, answer) - target) * 1e3)
        rows.append(f"| {name} | {np.mean(residuals):.2f} | {np.max(residuals):.2f} | {np.median(times) * 1e6:.0f} |")
    world.close()
    return "\n".join(rows)


def _position(kinematics: Kinematics, q: Array) -> Array:
    return kinematics.pose(q)[:3, 3]


def run(solver: SolverSettings) -> dict[str, Array]:
    """All measurements of one setting."""
    closed, still, open_ = make_world(solver, False), make_world(solver, False, cube=False), make_world(solver, True)
    result = {
        "path": sine_path(still),
        "settled": np.array(settled_error(still)),
        "pushes": pushes(closed),
        "grasps": np.array(list(grasps(open_))),
        "time": np.array([step_time(open_), step_time(still)]),
    }
    for world in (closed, still, open_):
        world.close()
    return result


def row(solver: SolverSettings, result: dict[str, Array], reference: dict[str, Array]) -> str:
    """A line of the table."""
    path = np.sqrt(np.mean(np.sum((result["path"] - reference["path"]) ** 2, axis=1))) * 1e3
    apart = np.linalg.norm(result["pushes"] - reference["pushes"], axis=1) * 1e3
    return (
        f"| {solver.substeps} | {solver.iterations} | {solver.residual_threshold:g} | {result['time'][0]:.0f} | {result['time'][1]:.0f} "
        f"| {path:.2f} | {float(result['settled']) * 1e3:.2f} | {np.sqrt(np.mean(apart**2)):.1f} | {apart.max():.1f} "
        f"| {int(result['grasps'].sum())}/{len(result['grasps'])} |"
    )


def main() -> None:
    """Measure and print; write to a file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    reference = run(REFERENCE)
    lines = [
        "# Physics settings against a fine reference",
        "",
        f"`python benchmarks/fidelity.py`; Python {platform.python_version()}, {platform.machine()}. What the columns mean: its docstring.",
        f"The setting in use: {SolverSettings()}.",
        "",
        "| substeps | iterations | residual threshold | grasp step, µs | reach step, µs | path, mm | settled, mm | push RMS, mm | push max, mm | held |",
        "|---|---|---|---|---|---|---|---|---|---|",
        row(REFERENCE, reference, reference),
    ]
    for solver in CANDIDATES:
        lines.append(row(solver, run(solver), reference))
        print(lines[-1], file=sys.stderr)
    lines += ["", "## Inverse kinematics, one move of up to 5 cm along each axis", "", inverse_kinematics_table()]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
