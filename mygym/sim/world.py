"""One simulated world: a robot, a workspace and objects in a Bullet client of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mygym.sim.arm import Arm
from mygym.sim.bodies import add_fixture, add_object, modelled
from mygym.sim.bullet import bullet, connect, disconnect
from mygym.sim.controllers import make_controller
from mygym.sim.kinematics import Kinematics, make_chain
from mygym.sim.objects import ObjectSpec
from mygym.sim.robot import RobotSpec
from mygym.sim.urdf import read_urdf
from mygym.sim.workspace import WorkspaceSpec
from mygym.tasks.state import State

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SolverSettings:
    """How finely Bullet integrates."""

    substeps: int
    """Physics steps in a control step."""
    iterations: int
    """Of the constraint solver, at most."""
    residual_threshold: float
    """The solver stops when no constraint changes a velocity by more than the square root of this, m/s or rad/s."""


SOLVER = SolverSettings(substeps=8, iterations=20, residual_threshold=3e-3)
"""The default, chosen by measurement: benchmarks/results/fidelity.md."""

GRAVITY = 9.81
"""m/s². It acts on objects only: real arms compensate their own weight, and the solver then has less to find out."""


class World:
    """A robot, a workspace and objects, simulated.

    `state` is the same object for the life of the world; its arrays are refilled in place by `reset` and `step`.

    Args:
        robot: The arm.
        workspace: Where it stands.
        objects: What lies there, in the order of `State.object_position`.
        control: Name of the controller, see `mygym.sim.controllers`.
        control_hz: Control steps in a second.
        gripper: Whether the last action component moves the gripper (-1 closed, +1 open). If not, or if the robot has
            none, actions are the arm's alone, the fingers are welded shut and the state has none (`F = 0`).
        solver: Integration settings.

    Raises:
        ConfigError: the controller's name is not known.
        AssetError: the robot's URDF cannot be used.
    """

    def __init__(
        self,
        robot: RobotSpec,
        workspace: WorkspaceSpec,
        objects: Sequence[ObjectSpec] = (),
        control: str = "ee_delta",
        control_hz: float = 25.0,
        gripper: bool = True,
        solver: SolverSettings = SOLVER,
    ) -> None:
        self.robot, self.workspace, self.objects = robot, workspace, tuple(objects)
        self.solver = solver
        self.control_hz, self.dt = control_hz, 1.0 / control_hz
        self.has_gripper = gripper and robot.gripper is not None
        self.kinematics = Kinematics(make_chain(robot, read_urdf(Path(robot.urdf))))
        chain = self.kinematics.chain
        self.controller = make_controller(
            control,
            self.kinematics,
            np.array([joint.velocity for joint in robot.joints]),
            workspace.tool_bounds,
            self.dt,
        )
        self.control_names = self.controller.names + (("gripper",) if self.has_gripper else ())
        self.action_size = len(self.control_names)
        self.home = self.kinematics.inverse(chain.home, np.array(workspace.tool_home), chain.down)
        fingers = robot.gripper.links if robot.gripper and gripper else ()
        self.state = State.zeros(1, len(robot.joints), len(fingers), len(self.objects))
        self._weights = [(0.0, 0.0, -GRAVITY * spec.mass) for spec in self.objects]
        self._client = connect()
        self._arm = Arm(robot, self._client, gripper, self.dt, solver.substeps)
        self.reset(self._objects_in_a_row())

    def _objects_in_a_row(self) -> Array:
        """Poses `(k, 7)` to start with: on the table, apart from each other, away from the tool."""
        poses = np.zeros((len(self.objects), 7))
        for index, spec in enumerate(self.objects):
            poses[index] = (0.1 * index - 0.1, 0.15, spec.half_height, 0.0, 0.0, 0.0, 1.0)
        return poses

    def reset(self, object_poses: Array, joint_position: Array | None = None) -> None:
        """Start again, exactly: what follows does not depend on what happened before, to the last bit.

        Bullet keeps contact and solver caches through anything less than `resetSimulation`, so everything is rebuilt.

        Args:
            object_poses: `(k, 7)` position in m and quaternion of each object's centre of mass.
            joint_position: `(J,)` rad; without it the arm starts at `home`, the tool at the workspace's `tool_home`.
                The gripper starts open.
        """
        client = self._client
        bullet.resetSimulation(physicsClientId=client)
        bullet.setPhysicsEngineParameter(
            fixedTimeStep=self.dt,
            numSubSteps=self.solver.substeps,
            numSolverIterations=self.solver.iterations,
            solverResidualThreshold=self.solver.residual_threshold,
            physicsClientId=client,
        )
        for fixture in self.workspace.fixtures.values():
            if fixture.collides:
                add_fixture(client, fixture)
        self._arm.load(np.array(self.home if joint_position is None else joint_position, dtype=float))
        self._bodies = [add_object(client, spec, pose) for spec, pose in zip(self.objects, object_poses, strict=True)]
        self._ticks = 0
        self._read_state()
        self.controller.reset(self.state.joint_position[0], self.state.ee_position[0])

    def step(self, action: Array) -> None:
        """Advance one control step.

        Args:
            action: `(A,)` in [-1, 1], see `control_names`; values outside are clipped.
        """
        state = self.state
        action = np.minimum(np.maximum(action, -1.0), 1.0)
        arm = action[:-1] if self.has_gripper else action
        q = state.joint_position[0]
        target = self.controller.command(arm, q, state.ee_position[0])
        self._arm.drive(target, q, float(action[-1]))
        for body, weight, position in zip(self._bodies, self._weights, state.object_position[0].tolist(), strict=True):
            # Holds through all substeps of the call.
            bullet.applyExternalForce(body, -1, weight, position, bullet.WORLD_FRAME, physicsClientId=self._client)
        bullet.stepSimulation(physicsClientId=self._client)
        self._ticks += 1
        self._read_state()

    def action_towards(self, ee_target: Array, gripper: float = 1.0) -> Array:
        """The action that brings the end effector towards a target in a straight line, whatever the controller.

        Args:
            ee_target: `(3,)` m in the world frame; the tool keeps pointing down.
            gripper: -1 closed to +1 open; left out where the gripper is blocked.

        Returns:
            `(A,)` in [-1, 1].
        """
        state = self.state
        arm = self.controller.action_towards(
            np.asarray(ee_target, float), state.joint_position[0], state.ee_position[0]
        )
        action = np.append(arm, gripper) if self.has_gripper else arm
        return np.minimum(np.maximum(action, -1.0), 1.0)

    def reachable(self, points: Array) -> NDArray[np.bool_]:
        """`(n,)`: whether the tool, pointing down, can be at each point `(n, 3)` to 5 mm within the joint limits."""
        return self.kinematics.reachable(np.asarray(points, dtype=float), self.kinematics.chain.down)

    def close(self) -> None:
        """Close the physics client; may be called again."""
        disconnect(self._client)

    def _read_state(self) -> None:
        state, client = self.state, self._client
        self._arm.read(state)
        for k, (body, spec) in enumerate(zip(self._bodies, self.objects, strict=True)):
            position, orientation = bullet.getBasePositionAndOrientation(body, physicsClientId=client)
            velocity, spin = bullet.getBaseVelocity(body, physicsClientId=client)
            state.object_position[0, k], state.object_orientation[0, k] = position, modelled(spec, orientation)
            state.object_velocity[0, k], state.object_angular_velocity[0, k] = velocity, spin
        if self._arm.finger_of_link and self._bodies:
            self._read_contacts()
        state.time[0] = self._ticks * self.dt

    def _read_contacts(self) -> None:
        contact, finger_of_link = self.state.finger_contact, self._arm.finger_of_link
        contact[...] = False
        for point in bullet.getContactPoints(self._arm.body, physicsClientId=self._client):
            finger = finger_of_link.get(point[3])
            if finger is not None and point[9] > 0.0 and point[2] in self._bodies:
                contact[0, self._bodies.index(point[2]), finger] = True
