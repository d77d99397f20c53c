"""Tracking error of the end effector in mygym and panda-gym, on the same paths.

    python benchmarks/tracking.py > benchmarks/results/tracking.md

Both are the Panda's reach environment at 25 Hz control. At each step a driver chooses the action that commands the next
point of the path. panda-gym adds the displacement to the measured position: its action is (next - measured) / 5 cm.
mygym adds it to the commanded position: its action is (next - commanded) / 5 cm. The error is the distance between
the measured position after the step and that point. The results are deterministic.

Paths: three sines, c + A (sin wt, sin(wt + 2pi/3), 0.6 sin 2wt), after a second at the start; the first 0.4 s of the
motion do not count. Steps: 5 cm from rest in both directions of the three axes, from five positions. Settled: error two
seconds after a command to a random point of the reach area. Tilt: largest angle between the tool and straight down.
Joint speed: the largest mean speed of a joint over a control step, as a share of the real joint's limit; above 1 the
simulated arm exceeds the real arm. "Asked" is the same share for the path itself, by exact inverse kinematics.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.training.result import versions_in_words

Array = NDArray[np.float64]

CENTRE = (0.0, 0.0, 0.2)
PATHS = [(0.05, 0.25), (0.10, 0.25), (0.10, 0.5), (0.14, 0.5), (0.05, 1.0), (0.10, 1.0), (0.05, 2.0)]
"""Amplitude in m, frequency in Hz."""
STARTS = [(0.0, 0.0, 0.2), (0.1, 0.1, 0.1), (0.1, -0.1, 0.25), (-0.1, 0.1, 0.25), (-0.1, -0.1, 0.1)]
MARKS = (1, 2, 4, 8)
"""Control steps after which the error of a 5 cm step is measured."""
STEP = 0.05
"""m: displacement of an action component of 1, in both."""
CONTROL_STEP = 0.04
"""s, in both."""
SPEED_LIMITS = (2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61)
"""rad/s: limits of the Panda (Franka Control Interface documentation)."""
REST = 25
UNCOUNTED = 10


@dataclass(frozen=True)
class Tracking:
    """Measurements over `n` control steps."""

    errors: Array
    """`(n,)` m after each step."""
    tilts: Array
    """`(n,)` rad after each step."""
    speed: float
    """Largest mean speed of a joint in a step, as a share of its limit."""


def speed_share(joints: Array) -> float:
    """Return the largest share of a joint's speed limit between postures `(n, 7)` in rad, one control step apart."""
    return float((np.abs(np.diff(joints, axis=0)) / CONTROL_STEP / np.array(SPEED_LIMITS)).max())


class Arm(ABC):
    """Base class of arms, i.e. environments that are driven to points."""

    name: str

    def __init__(self, env: Any) -> None:
        self.env = env
        env.reset(seed=0)

    @abstractmethod
    def position(self) -> Array:
        """`(3,)` m, measured."""

    @abstractmethod
    def orientation(self) -> Array:
        """`(4,)` quaternion, measured."""

    @abstractmethod
    def joints(self) -> Array:
        """`(7,)` rad, measured."""

    @abstractmethod
    def action(self, target: Array) -> Array:
        """Return the action that commands a point `(3,)` for the end of the next step."""

    def follow(self, path: Iterable[Array]) -> Tracking:
        """Drive along points `(n, 3)`."""
        errors, tilts, joints = [], [], [self.joints()]
        for target in path:
            self.env.step(self.action(target))
            errors.append(np.linalg.norm(self.position() - target))
            x, y, _, _ = self.orientation()
            tilts.append(np.arccos(np.clip(2.0 * (x * x + y * y) - 1.0, -1.0, 1.0)))
            joints.append(self.joints())
        return Tracking(np.array(errors), np.array(tilts), speed_share(np.array(joints)))


class MygymArm(Arm):
    """mygym: displacements from the commanded position."""

    name = "mygym"

    def position(self) -> Array:
        """`(3,)` m."""
        position: Array = self.env.world.state.ee_position[0].copy()
        return position

    def orientation(self) -> Array:
        """`(4,)`."""
        orientation: Array = self.env.world.state.ee_orientation[0].copy()
        return orientation

    def joints(self) -> Array:
        """`(7,)`."""
        position: Array = self.env.world.state.joint_position[0].copy()
        return position

    def action(self, target: Array) -> Array:
        """Return the displacement from the last command to the target."""
        action: Array = self.env.world.action_towards(target)
        return action


class PandaGymArm(Arm):
    """panda-gym: displacements from the measured position."""

    name = "panda-gym"

    def position(self) -> Array:
        """`(3,)` m."""
        return np.array(self.env.robot.get_ee_position())

    def orientation(self) -> Array:
        """`(4,)`."""
        return np.array(self.env.sim.get_link_orientation("panda", self.env.robot.ee_link))

    def joints(self) -> Array:
        """`(7,)`."""
        return np.array([self.env.robot.get_joint_angle(joint=index) for index in range(7)])

    def action(self, target: Array) -> Array:
        """Return the displacement from the measured position to the target."""
        return np.clip((target - self.position()) / STEP, -1.0, 1.0)


def sine(amplitude: float, frequency: float, seconds: float = 5.0) -> Array:
    """Return a path `(n, 3)` in m, one point for the end of each control step."""
    phase = 2 * np.pi * frequency * np.arange(int(seconds * 25) + 1)[:, None] / 25
    offset = np.array([[0.0, 2 * np.pi / 3, 0.0]])
    wave = np.sin(phase * np.array([[1.0, 1.0, 2.0]]) + offset)
    path: Array = np.array(CENTRE) + amplitude * np.array([1.0, 1.0, 0.6]) * wave
    return path


def on_path(arm: Arm, path: Array) -> Tracking:
    """Follow a path from rest at its first point; the beginning is not measured."""
    arm.env.reset(seed=0)
    arm.follow([path[0]] * REST)
    arm.follow(path[1 : UNCOUNTED + 1])
    return arm.follow(np.array(path[UNCOUNTED + 1 :]))


def required_speed(arm: MygymArm, path: Array) -> float:
    """Return the share of the joints' speed limits that a path requires."""
    kinematics, joints = arm.env.world.kinematics, [arm.env.world.home]
    for point in path:
        joints.append(kinematics.inverse(joints[-1], point, kinematics.chain.rotation, 30, 1e-5))
    return speed_share(np.array(joints[UNCOUNTED:]))


def on_steps(arm: Arm) -> Array:
    """Return the remaining errors `(30, marks)` in m of 5 cm steps."""
    left = []
    for start in STARTS:
        for axis in range(3):
            for sign in (1.0, -1.0):
                arm.env.reset(seed=0)
                arm.follow([np.array(start)] * 2 * REST)
                target = arm.position()
                target[axis] += sign * STEP
                errors = arm.follow([target] * max(MARKS)).errors
                left.append(errors[[mark - 1 for mark in MARKS]])
    return np.array(left)


def settled(arm: Arm) -> Array:
    """Return the errors `(40,)` in m, two seconds after a command to a random point."""
    rng = np.random.default_rng(0)
    points = rng.uniform((-0.15, -0.15, 0.02), (0.15, 0.15, 0.3), (40, 3))
    arm.env.reset(seed=0)
    return np.array([arm.follow([point] * 2 * REST).errors[-1] for point in points])


def tables(mygym_arm: MygymArm, panda_gym_arm: PandaGymArm) -> list[str]:
    """Return all tables as Markdown."""
    arms: tuple[Arm, Arm] = (mygym_arm, panda_gym_arm)
    lines = [
        "## Paths",
        "",
        "| amplitude, cm | frequency, Hz | fastest, m/s | joint speed asked | RMS, mm: mygym | panda-gym "
        "| max, mm: mygym | panda-gym | tilt, °: mygym | panda-gym | joint speed: mygym | panda-gym |",
        "|---" * 12 + "|",
    ]
    for amplitude, frequency in PATHS:
        path = sine(amplitude, frequency)
        fastest = np.linalg.norm(np.diff(path, axis=0), axis=1).max() / CONTROL_STEP
        both = [on_path(arm, path) for arm in arms]
        rms = [f"{np.sqrt(np.mean(motion.errors**2)) * 1e3:.2f}" for motion in both]
        largest = [f"{motion.errors.max() * 1e3:.2f}" for motion in both]
        tilt = [f"{np.degrees(motion.tilts.max()):.2f}" for motion in both]
        speed = [f"{motion.speed:.2f}" for motion in both]
        cells = [f"{amplitude * 100:.0f}", f"{frequency:g}", f"{fastest:.2f}", f"{required_speed(mygym_arm, path):.2f}"]
        lines.append("| " + " | ".join([*cells, *rms, *largest, *tilt, *speed]) + " |")
        print(lines[-1], file=sys.stderr)
    lines += [
        "",
        "## A step of 5 cm: mm left, mean (largest) of 30",
        "",
        "| | " + " | ".join(f"after {mark}" for mark in MARKS) + " |",
        "|---" * (len(MARKS) + 1) + "|",
    ]
    for arm in arms:
        left = on_steps(arm) * 1e3
        cells = [f"{mean:.2f} ({most:.2f})" for mean, most in zip(left.mean(0), left.max(0), strict=True)]
        lines.append(f"| {arm.name} | " + " | ".join(cells) + " |")
        print(lines[-1], file=sys.stderr)
    lines += ["", "## Settled: mm left after two seconds, 40 points", "", "| | mean | largest |", "|---|---|---|"]
    for arm in arms:
        left = settled(arm) * 1e3
        lines.append(f"| {arm.name} | {left.mean():.3f} | {left.max():.3f} |")
        print(lines[-1], file=sys.stderr)
    return lines


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    sys.stdout = os.fdopen(os.dup(1), "w")  # only for the table: Bullet prints to the standard output of C
    os.dup2(2, 1)

    import gymnasium
    import panda_gym  # noqa: F401  (registers its ids)

    import mygym  # noqa: F401

    warnings.simplefilter("ignore")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    mygym_arm = MygymArm(gymnasium.make("mygym/Reach-v0").unwrapped)
    panda_gym_arm = PandaGymArm(gymnasium.make("PandaReach-v3").unwrapped)
    assert abs(mygym_arm.env.world.dt - CONTROL_STEP) < 1e-9
    assert abs(panda_gym_arm.env.sim.dt - CONTROL_STEP) < 1e-9
    lines = [
        "# End-effector tracking, beside panda-gym",
        "",
        f"`python benchmarks/tracking.py`; Python {platform.python_version()}, "
        + versions_in_words("panda-gym", "pybullet")
        + ".",
        "The docstring of the program explains the columns.",
        f"Physics: mygym {mygym_arm.env.world.solver.substeps * 25} Hz, "
        f"panda-gym {1 / panda_gym_arm.env.sim.timestep:.0f} Hz. "
        "mygym's motors keep the Panda's joint speed and torque limits.",
        "",
        *tables(mygym_arm, panda_gym_arm),
    ]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
