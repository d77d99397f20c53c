"""Fit the motor model of the fused engine to Bullet: the largest acceleration of each joint of each robot.

    python benchmarks/fused_motors.py [ROBOT ...] --write

Bullet plays random actions; the engine repeats them from the reset, open loop. Coordinate descent lowers the mean
distance between the tool points: each joint in turn takes the best of several values, all of which are tried in one
batch. `--write` stores the values in mygym/engines/fused/motors.yaml. The table has the distances on fresh episodes.
"""

from __future__ import annotations

import argparse
from contextlib import closing

import numpy as np
import yaml

from mygym.engines.arrays import find_arrays
from mygym.engines.fused.arm import FILE, ArmModel, BatchArm, fitted_accelerations
from mygym.envs.fused_worlds import arm_model
from mygym.envs.robot_env import RobotEnv
from mygym.errors import MygymError
from mygym.registry import registry
from mygym.types import FloatArray

EPISODES, STEPS = 24, 50
START = 60.0
"""rad/s²: acceleration of every joint before the fit."""

ROUNDS = (np.geomspace(0.2, 5.0, 9), np.geomspace(0.5, 2.0, 9), np.geomspace(0.8, 1.25, 9))
"""Factors that are tried for each joint, round by round."""

HEADER = "# rad/s²: largest acceleration of each joint; fitted by: python benchmarks/fused_motors.py --write\n"

LIMITS = 5.0, 1000.0
"""rad/s²: range of the fit."""


def main() -> None:
    """Fit, print the table, and write the file if asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="*", help="names (default: every built-in robot)")
    parser.add_argument("--write", action="store_true", help="store the values in the engine's file")
    options = parser.parse_args()
    fitted = {name: list(values) for name, values in fitted_accelerations().items()}
    print("| robot | accelerations, rad/s² | tool error, fitted: mean, mm | 95 %, mm | at 60 rad/s²: mean, mm |")
    print("|---|---|---|---|---|")
    installed = [entry.name for entry in registry("robot") if entry.built_in and not entry.missing_extras]
    for name in options.robots or installed:
        try:
            env = RobotEnv("reach", robot=name)
        except MygymError as error:
            print(f"| {name} | {' '.join(str(error).split())} | | | |")
            continue
        with closing(env):
            if len(env.robot.arms) > 1:
                print(f"| {name} | two arms | | | |")
                continue
            values = fit(env)
            fitted[name] = [float(f"{value:.3g}") for value in values]
            model = arm_model(env, np.array(fitted[name]))
            errors = tool_errors(model, *play(env, 1000))[0]
            before = tool_errors(arm_model(env, np.full(len(values), START)), *play(env, 1000))[0]
            figures = errors.mean(), np.percentile(errors, 95), before.mean()
            numbers = ", ".join(f"{value:g}" for value in fitted[name])
            print(
                f"| {name} | {numbers} | " + " | ".join(f"{1000 * figure:.1f}" for figure in figures) + " |", flush=True
            )
    if options.write:
        FILE.write_text(
            HEADER + yaml.safe_dump(dict(sorted(fitted.items())), default_flow_style=None), encoding="utf-8"
        )


def play(env: RobotEnv, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return random actions `(steps, 3, episodes)`, and the tool points `(steps, 3, episodes)` m of Bullet.

    Half of the episodes have independent actions, the other half actions that change slowly.
    """
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1, 1, (STEPS, 3, EPISODES))
    for step in range(1, STEPS):
        changes = rng.random(EPISODES // 2) < 0.2
        actions[step, :, : EPISODES // 2] = np.where(
            changes, actions[step, :, : EPISODES // 2], actions[step - 1, :, : EPISODES // 2]
        )
    positions = np.zeros((STEPS, 3, EPISODES))
    for episode in range(EPISODES):
        env.world.reset(np.zeros((0, 7)))
        for step in range(STEPS):
            env.world.step(actions[step, :, episode])
            positions[step, :, episode] = env.world.state.ee_position[0]
    return actions, positions


def tool_errors(model: ArmModel, actions: FloatArray, positions: FloatArray, copies: int = 1) -> FloatArray:
    """Return the distances `(copies, steps, episodes)` m between the engine's and Bullet's tool points."""
    arrays = find_arrays("numpy")
    arm = BatchArm(model, copies * EPISODES, arrays)
    errors = np.zeros((copies, STEPS, EPISODES))
    for step in range(STEPS):
        arm.step(arrays.floats(np.tile(actions[step], copies)))
        difference = arm.ee_position - np.tile(positions[step], copies)
        errors[:, step] = np.linalg.norm(difference, axis=0).reshape(copies, EPISODES)
    return errors


def fit(env: RobotEnv) -> FloatArray:
    """Return the accelerations `(J,)` rad/s² with the least mean distance."""
    actions, positions = play(env, 0)
    best = np.full(len(env.world.home), START)
    for factors in ROUNDS:
        for joint in range(len(best)):
            tried = np.repeat(best[:, None], len(factors), axis=1)
            tried[joint] = np.clip(tried[joint] * factors, *LIMITS)
            model = arm_model(env, np.repeat(tried, EPISODES, axis=1))
            errors = tool_errors(model, actions, positions, len(factors)).mean(axis=(1, 2))
            best = tried[:, int(errors.argmin())]
    return best


if __name__ == "__main__":
    main()
