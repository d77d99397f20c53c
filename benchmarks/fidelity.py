"""Accuracy of physics settings relative to a fine reference; basis of `mygym.engines.bullet.world.SolverSettings`.

    python benchmarks/fidelity.py > benchmarks/results/fidelity.md

Every setting replays the same actions as the reference (80 substeps of 0.5 ms, 100 iterations, no residual threshold)
on the Panda. Columns: median time of `BulletWorld.step` under random actions (with a cube and the gripper; alone), RMS
deviation of the end-effector's path on a sine, largest settled position error, RMS and largest deviation of a pushed
cube's final position, grasps that lift, swing and hold the cube, and the slip of the cube in these grasps.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mygym.engines.bullet.client import bullet, connect, disconnect
from mygym.engines.bullet.world import SOLVER, BulletWorld, SolverSettings
from mygym.engines.world import WorldSpec
from mygym.robotics.objects import load_object
from mygym.robotics.robot import load_robot
from mygym.robotics.workspace import load_workspace

Array = NDArray[np.float64]

REFERENCE = SolverSettings(80, 100, 1e-10)
CANDIDATES = [
    SolverSettings(substeps, iterations, threshold)
    for substeps in (8, 10, 20)
    for iterations, threshold in ((50, 1e-6), (20, 1e-3), (20, 3e-3), (20, 1e-2), (20, 1e-1), (10, 3e-3))
]


def make_world(solver: SolverSettings, gripper: bool, cube: bool = True) -> BulletWorld:
    """Return a world with the Panda at the table, controlled by `ee_delta`."""
    objects = [load_object("cube")] if cube else []
    return BulletWorld(WorldSpec(load_robot("panda"), load_workspace("table"), objects, gripper=gripper), solver)


def pose(x: float, y: float, yaw: float = 0.0) -> Array:
    """Return the pose `(1, 7)` of the cube on the table."""
    return np.array([[x, y, 0.02, 0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)]])


def sine_path(world: BulletWorld) -> Array:
    """Return end-effector positions `(100, 3)` of a swing on three axes at up to 0.5 m/s."""
    world.reset(np.zeros((0, 7)))
    path = []
    for step in range(100):
        t = step * world.dt
        speed = np.array([0.35 * np.cos(2.5 * t), 0.35 * np.cos(2.5 * t + 2.0), 0.2 * np.cos(5.0 * t)])
        world.step(speed * world.dt / 0.05)
        path.append(world.state.ee_position[0].copy())
    return np.array(path)


def settled_error(world: BulletWorld) -> float:
    """Return the largest distance in m from the commanded position after 1.2 s, over six targets."""
    rng = np.random.default_rng(1)
    area = world.workspace.areas["reach"]
    worst = 0.0
    for target in rng.uniform(area.low, area.high, (6, 3)):
        world.reset(np.zeros((0, 7)))
        for _ in range(30):
            world.step(world.action_towards(target))
        worst = max(worst, float(np.linalg.norm(world.state.ee_position[0] - target)))
    return worst


def pushes(world: BulletWorld) -> Array:
    """Return final positions `(8, 2)` of a cube pushed on a face, up to 3 mm off centre, in open loop."""
    rng = np.random.default_rng(2)
    result = []
    for angle, offset in zip(rng.uniform(-np.pi, np.pi, 8), rng.uniform(-0.003, 0.003, 8), strict=True):
        ahead, aside = np.array([np.cos(angle), np.sin(angle), 0.0]), np.array([-np.sin(angle), np.cos(angle), 0.0])
        world.reset(pose(0.0, 0.0, angle))
        start = -0.06 * ahead + offset * aside
        for height in (0.1, 0.02):
            for _ in range(15):
                world.step(world.action_towards(start + np.array([0.0, 0.0, height])))
        for _ in range(24):
            world.step(0.1 * ahead)  # 5 mm a step, 12.5 cm/s
        for _ in range(10):
            world.step(np.zeros(3))
        result.append(world.state.object_position[0, 0, :2].copy())
    return np.array(result)


def move(world: BulletWorld, target: Array, gripper: float, speed: float) -> None:
    """Move the hand to a target on a straight line at a speed in m/s."""
    start = world.state.ee_position[0].copy()
    steps = int(np.ceil(np.linalg.norm(target - start) / (speed * world.dt)))
    for step in range(1, steps + 1):
        world.step(world.action_towards(start + (target - start) * step / steps, gripper))


def grasps(world: BulletWorld) -> Array:
    """Return the slip `(12,)` in m of cubes that are grasped, lifted, swung at 1 m/s and held for 1 s; inf if lost."""
    rng = np.random.default_rng(3)
    slipped = []
    for x, y, yaw in rng.uniform((-0.12, -0.12, -0.3), (0.12, 0.12, 0.3), (12, 3)):
        world.reset(pose(x, y, yaw))
        for height, gripper, steps in ((0.1, 1, 12), (0.02, 1, 12), (0.02, -1, 12)):
            for _ in range(steps):
                world.step(world.action_towards(np.array([x, y, height]), gripper))
        before = world.state.object_position[0, 0] - world.state.ee_position[0]
        move(world, np.array([x, y, 0.22]), -1, 0.5)
        for corner in ((0.15, 0.15), (-0.15, -0.15), (0.15, -0.15), (-0.15, 0.15)):
            move(world, np.array([*corner, 0.22]), -1, 1.0)
        for _ in range(25):
            world.step(np.array([0.0, 0.0, 0.0, -1.0]))
        after = world.state.object_position[0, 0] - world.state.ee_position[0]
        slipped.append(np.linalg.norm(after - before) if np.linalg.norm(after) < 0.03 else np.inf)
    return np.array(slipped)


def step_time(world: BulletWorld, steps: int = 400) -> float:
    """Return the median time of `BulletWorld.step` in µs under random actions."""
    rng = np.random.default_rng(4)
    times = []
    world.reset(pose(0.1, 0.1)[: len(world.objects)])
    for action in rng.uniform(-0.5, 0.5, (steps, world.action_size)):
        start = time.perf_counter()
        world.step(action)
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e6


def inverse_kinematics_table() -> str:
    """Return the table of residual and time of mygym's and Bullet's inverse kinematics, from the previous posture.

    Bullet is used as in panda-gym: with the Panda of `pybullet_data` and its grasp target as the link to move.
    """
    world = make_world(SOLVER, gripper=False, cube=False)
    kinematics, down = world.kinematics, world.kinematics.chain.rotation
    rng = np.random.default_rng(5)
    area = world.workspace.areas["reach"]
    starts = [kinematics.inverse(world.home, point, down) for point in rng.uniform(area.low, area.high, (100, 3))]
    moves = rng.uniform(-1, 1, (100, 3)) * 0.05
    client = connect()
    urdf = str(Path(import_module("pybullet_data").getDataPath()) / "franka_panda" / "panda.urdf")
    panda = bullet.loadURDF(urdf, world.robot.base_position, useFixedBase=True, physicsClientId=client)

    def set_posture(q: Array) -> Array:
        for index, position in enumerate(q.tolist()[:7]):
            bullet.resetJointState(panda, index, position, physicsClientId=client)
        return np.array(bullet.getLinkState(panda, 11, computeForwardKinematics=True, physicsClientId=client)[4])

    def bullet_solver(q: Array, target: Array, iterations: int) -> tuple[Array, float]:
        set_posture(q)
        start = time.perf_counter()
        answer = bullet.calculateInverseKinematics(
            panda, 11, target.tolist(), [1.0, 0.0, 0.0, 0.0], maxNumIterations=iterations, physicsClientId=client
        )
        seconds = time.perf_counter() - start
        return set_posture(np.array(answer)), seconds

    def mygym_solver(q: Array, target: Array, iterations: int, tolerance: float) -> tuple[Array, float]:
        start = time.perf_counter()
        answer = kinematics.inverse(q, target, down, iterations, tolerance)
        seconds = time.perf_counter() - start
        return kinematics.pose(answer)[:3, 3], seconds

    solvers: dict[str, Callable[[Array, Array], tuple[Array, float]]] = {
        "mygym, 1 iteration": lambda q, x: mygym_solver(q, x, 1, 1e-4),
        "mygym, 2 iterations": lambda q, x: mygym_solver(q, x, 2, 1e-4),
        "mygym, as in `ee_delta` (a second if more than 1 mm is left)": lambda q, x: mygym_solver(q, x, 2, 1e-3),
        "Bullet, 1 iteration": lambda q, x: bullet_solver(q, x, 1),
        "Bullet, 5 iterations": lambda q, x: bullet_solver(q, x, 5),
        "Bullet, 20 iterations (its default)": lambda q, x: bullet_solver(q, x, 20),
    }
    rows = ["| solver | mean residual, mm | largest, mm | µs |", "|---|---|---|---|"]
    for name, solve in solvers.items():
        residuals, times = [], []
        for q, move_by in zip(starts, moves, strict=True):
            target = kinematics.pose(q)[:3, 3] + move_by
            reached, seconds = solve(q, target)
            times.append(seconds)
            residuals.append(np.linalg.norm(reached - target) * 1e3)
        rows.append(f"| {name} | {np.mean(residuals):.2f} | {np.max(residuals):.2f} | {np.median(times) * 1e6:.0f} |")
    disconnect(client)
    world.close()
    return "\n".join(rows)


def run(solver: SolverSettings) -> dict[str, Array]:
    """Return all measurements of one setting."""
    closed, still, open_ = make_world(solver, False), make_world(solver, False, cube=False), make_world(solver, True)
    result = {
        "path": sine_path(still),
        "settled": np.array(settled_error(still)),
        "pushes": pushes(closed),
        "grasps": grasps(open_),
        "time": np.array([step_time(open_), step_time(still)]),
    }
    for world in (closed, still, open_):
        world.close()
    return result


def row(solver: SolverSettings, result: dict[str, Array], reference: dict[str, Array]) -> str:
    """Return a table row."""
    path = np.sqrt(np.mean(np.sum((result["path"] - reference["path"]) ** 2, axis=1))) * 1e3
    held = np.isfinite(result["grasps"])
    pushed = np.linalg.norm(result["pushes"] - reference["pushes"], axis=1) * 1e3
    return (
        f"| {solver.substeps} | {solver.iterations} | {solver.residual_threshold:g} "
        f"| {result['time'][0]:.0f} | {result['time'][1]:.0f} "
        f"| {path:.2f} | {float(result['settled']) * 1e3:.2f} | {np.sqrt(np.mean(pushed**2)):.1f} | {pushed.max():.1f} "
        f"| {held.sum()}/{len(held)} | {result['grasps'][held].mean() * 1e3:.1f} |"
    )


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    reference = run(REFERENCE)
    lines = [
        "# Physics settings against a fine reference",
        "",
        f"`python benchmarks/fidelity.py`; Python {platform.python_version()}, {platform.machine()}, a shared machine.",
        "The docstring of the program explains the columns.",
        f"In use: {SOLVER}.",
        "",
        "| substeps | iterations | residual threshold | grasp step, µs | reach step, µs | path, mm | settled, mm "
        "| push RMS, mm | push max, mm | held | slip, mm |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        row(REFERENCE, reference, reference),
    ]
    for solver in CANDIDATES:
        lines.append(row(solver, run(solver), reference))
        print(lines[-1], file=sys.stderr)
    lines += ["", "## Inverse kinematics, one move of up to 5 cm along each axis", "", inverse_kinematics_table()]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
