"""MuJoCo models of a robot, the fixtures of its workspace, and objects, from the same descriptions as Bullet's."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from mygym.engines.robots import finger_speeds, simulated_model
from mygym.errors import AssetError
from mygym.robotics.controllers import Mode
from mygym.robotics.fixtures import (
    ArticulatedPart,
    FixtureSpec,
    articulated_parts,
    base_geoms,
    fixture_pose,
    fixture_urdf,
)
from mygym.robotics.mesh_files import read_hulls
from mygym.robotics.objects import DEFAULT_FRICTION, ObjectSpec, geom_of
from mygym.robotics.robot_spec import GripperSpec, RobotSpec
from mygym.robotics.shapes import Piece, pieces, transformed
from mygym.robotics.transforms import matrix_to_quaternion, pose_matrix, quaternion_to_matrix
from mygym.robotics.urdf import Joint, inertial, numbers_of, origin_of, read_joints, root_link
from mygym.robotics.workspace import WorkspaceSpec
from mygym.types import FloatArray

ARMATURE = 0.1
"""kg m², added to the inertia of each joint of an arm. Without it a joint's servo, whose gain is that of the joint
alone, swings against the others: the tool is 37 to 58 mm away from Bullet's in place of 2."""

GAIN = 0.7
"""Share of the missing momentum of a joint that its motor gives in a physics step. With the full share two joints that
share a load overshoot at their largest forces in every step, and the tool shakes by 0.3 m/s."""

CONTACT = (0.01, 2.0)
"""s, time constant in which a contact stops bodies; and damping. With critical damping, 1, an object leaves a hand that
pushes it faster than the hand, which costs policies from another engine a tenth of their success in `push`."""

IMPEDANCE = (0.97, 0.99, 0.001, 0.5, 2.0)
"""Hardness of contacts and of the robot's limits, MuJoCo's `solimp`: fingers lose objects at (0.95, 0.99)."""

PART_LIMIT, PART_IMPEDANCE = (0.015, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
"""The same of the limits of parts. The pressed button gives by 4 mm, as in Bullet; with the robot's values it pushes
the hand back, and policies that hold it in MuJoCo do not in Bullet. The switch at rest sinks by less than the change
that counts as a touch, `mygym.envs.episodes.MOVED`."""

FRICTION_HARDNESS = 10.0
"""Hardness of friction as a multiple of the normal direction's, MuJoCo's `impratio`."""

TABLE = 0.5
"""m: edge of a level box from which it is a table, whose top is a plane for the links of arms."""

PATCH = 0.01
"""m: radius of the patch in which a finger's pad meets an object. In a point a bar would turn."""

_GEOMS = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "hull": mujoco.mjtGeom.mjGEOM_MESH,
}

_FORCE = 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE)
_DISTANCE = 1 << int(mujoco.mjtConDataField.mjCONDATA_DIST)
_NEAREST, _STRONGEST = 1, 2  # which of several contacts a sensor reports

ROBOT, FINGER, BASE, FIXTURE = "robot", "finger", "base", "fixture"


@dataclass(frozen=True)
class _Surface:
    """A geom, what it belongs to, and its friction."""

    owner: str
    """`ROBOT`, `BASE`, `FIXTURE`, or the name of an object's body."""
    friction: float
    spinning: float = 0.0
    rolling: float = 0.0
    geom: str = ""


class Model:
    """A compiled model, and where its parts are in MuJoCo's arrays; see `ModelBuilder` for the arguments."""

    def __init__(
        self,
        compiled: mujoco.MjModel,
        robot: RobotSpec,
        parts: Sequence[ArticulatedPart],
        objects: Mapping[int, ObjectSpec],
        gripper: bool,
    ) -> None:
        self.compiled, self.robot, self.parts, self.objects = compiled, robot, tuple(parts), dict(objects)
        self.grippers = [arm.gripper for arm in robot.arms if arm.gripper and gripper]
        self.gripper_of_arm = [arm.gripper if gripper else None for arm in robot.arms]
        arm_joints = [f"robot/{joint.name}" for arm in robot.arms for joint in arm.joints]
        finger_joints = [f"robot/{name}" for grip in self.grippers for name in grip.joints]
        part_joints = [f"part/{p}" for p in range(len(self.parts))]
        object_joints = [f"object/{k}" for k in self.objects]
        self.arm_q, self.arm_v = self._addresses(arm_joints)
        self.finger_q, _ = self._addresses(finger_joints)
        self.part_q, self.part_v = self._addresses(part_joints)
        self.object_q, self.object_v = self._addresses(object_joints)
        self.arm_motors = self._ids("actuator", arm_joints)
        self.finger_motors = self._ids("actuator", finger_joints)
        self.object_bodies = self._ids("body", object_joints)
        self.part_bodies = self._ids("body", part_joints)
        self.present = np.array(list(self.objects), dtype=int)
        """`(m,)` indices in `State.object_position` of the objects that are present."""
        self.object_dofs = self.object_v[:, None] + np.arange(6)
        """`(m, 6)` addresses of their velocities."""
        self.object_inertia = np.array([_inertia(spec) for spec in self.objects.values()]).reshape(-1, 6)
        """`(m, 6)` mass in kg three times, and moments of inertia about the model's axes in kg m²."""

    def _addresses(self, joints: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the first address of each joint in the positions, and in the velocities."""
        found = [self.compiled.joint(name) for name in joints]
        return (
            np.array([joint.qposadr[0] for joint in found], dtype=int),
            np.array([joint.dofadr[0] for joint in found], dtype=int),
        )

    def _ids(self, kind: str, names: Sequence[str]) -> NDArray[np.intp]:
        return np.array([getattr(self.compiled, kind)(name).id for name in names], dtype=int)

    def sensor(self, name: str, size: int) -> slice:
        """Return where the values of a sensor are."""
        first = int(self.compiled.sensor(name).adr[0])
        return slice(first, first + size)

    @cached_property
    def pair_owners(self) -> NDArray[np.bool_]:
        """`(pairs, m)`: whether a pair of geoms is of each present object."""
        model = self.compiled
        bodies = np.stack([model.geom_bodyid[model.pair_geom1], model.geom_bodyid[model.pair_geom2]], axis=1)
        owners: NDArray[np.bool_] = (bodies[:, :, None] == self.object_bodies).any(axis=1)
        return owners


class ModelBuilder:
    """The bodies of a world, from which one model is compiled.

    Args:
        robot: The robot, at its base in the workspace.
        workspace: The workspace.
        objects: Index in `State.object_position` → the object, of those that are present.
        gripper: Whether fingers move.
        mode: Meaning of the commands of joints.
    """

    def __init__(
        self,
        robot: RobotSpec,
        workspace: WorkspaceSpec,
        objects: Mapping[int, ObjectSpec],
        gripper: bool,
        mode: Mode,
    ) -> None:
        self._robot, self._objects, self._gripper, self._mode = robot, objects, gripper, mode
        self._gripper_of_arm = [arm.gripper if gripper else None for arm in robot.arms]
        self._hands = [hand for hand in self._gripper_of_arm if hand]
        self._spec = spec = mujoco.MjSpec()
        spec.compiler.degree = False
        option = spec.option
        # A grasped cube stays in the hand with this integrator alone: the others lose it in half of the episodes.
        option.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
        option.cone, option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, FRICTION_HARDNESS
        option.gravity = [0.0, 0.0, 0.0]  # weights of objects are forces: real arms compensate their own
        self._surfaces: list[_Surface] = []
        self._parts: list[ArticulatedPart] = []
        """Articulated parts of the fixtures, in the order of their bodies."""
        self._tops: dict[str, float] = {}
        """Geom of a table → height of its top, m."""
        self._text, self._links = simulated_model(robot, gripper, mode)
        self._fixtures: dict[str, list[str]] = {}
        """Fixture that collides → its geoms."""
        for name, fixture in workspace.fixtures.items():
            if fixture.collides:
                first = len(self._surfaces)
                self._add_fixture(fixture)
                self._fixtures[name] = [surface.geom for surface in self._surfaces[first:]]
        self._add_robot()
        for k, spec_of_object in objects.items():
            self._add_object(k, spec_of_object)

    def model(self, timestep: float) -> Model:
        """Compile the model of the world, whose physics steps take `timestep` s.

        Raises:
            AssetError: MuJoCo cannot represent a shape.
        """
        self._spec.option.timestep = timestep
        at_home = self._at_home()
        self._add_pairs(at_home)
        self._add_motors(at_home)
        self._add_sensors()
        return Model(self._compiled(), self._robot, self._parts, self._objects, self._gripper)

    def shapes(self, probe: Sequence[Piece]) -> tuple[mujoco.MjModel, dict[str, list[int]]]:
        """Compile the bodies of the world and a body `probe`, for questions about shapes.

        Args:
            probe: Shapes of the probe in its frame; it is a free body after all others.

        Returns:
            The model, whose positions are those of `model` and then the probe's; and fixture → its geoms.

        Raises:
            AssetError: MuJoCo cannot represent a shape.
        """
        self._add_probe(probe)
        model = self._compiled()
        return model, {name: [model.geom(geom).id for geom in geoms] for name, geoms in self._fixtures.items()}

    def _compiled(self) -> mujoco.MjModel:
        """Compile the model.

        Raises:
            AssetError: MuJoCo refuses it.
        """
        try:
            return self._spec.compile()
        except ValueError as error:
            raise AssetError(f"MuJoCo cannot compile this world: {error}") from error

    # Bodies ---------------------------------------------------------------------------------------------------------

    def _add_fixture(self, spec: FixtureSpec) -> None:
        position, orientation = fixture_pose(spec)
        frame, world = pose_matrix(position, quaternion_to_matrix(orientation)), self._spec.worldbody
        parts = articulated_parts(spec)
        if not parts and not spec.urdf:
            self._add_pieces(world, pieces(base_geoms(spec)), frame, _Surface(FIXTURE, spec.friction))
            return
        root = ET.fromstring(fixture_urdf(spec, "collision"))  # noqa: S314  written by us
        by_name = {part.name: part for part in parts}
        self._add_link_geoms(world, _link(root, root_link(root)), frame, FIXTURE)
        self._add_part_links(world, root, root_link(root), frame, by_name)

    def _add_part_links(
        self, parent: Any, root: ET.Element, name: str, frame: FloatArray, parts: Mapping[str, ArticulatedPart]
    ) -> None:
        """Add the links below a link of a fixture, whose frame is at `frame` in the parent's body."""
        for joint in _children(root, name):
            pose, link = frame @ joint.origin, _link(root, joint.child)
            part = parts.get(joint.name)
            if part is None:  # fixed
                self._add_link_geoms(parent, link, pose, FIXTURE)
                self._add_part_links(parent, root, joint.child, pose, parts)
                continue
            number, damping = len(self._parts), _dynamics(root, joint.name).get("damping", 0.0)
            self._parts.append(part)
            body = self._add_body(parent, f"part/{number}", pose)
            _set_inertia(body, *inertial(link))
            added = self._add_joint(body, f"part/{number}", joint, damping)
            added.frictionloss = part.friction
            added.solref_limit, added.solimp_limit = list(PART_LIMIT), list(PART_IMPEDANCE)
            if part.spring:
                added.stiffness, added.springref = [part.spring.stiffness, 0.0, 0.0], part.spring.rest
            body.add_site(name=f"handle/{number}", pos=list(part.handle))
            self._add_link_geoms(body, link, np.eye(4), FIXTURE)
            self._add_part_links(body, root, joint.child, np.eye(4), parts)

    def _add_robot(self) -> None:
        """Add the robot, with a site at each tool point."""
        robot, root = self._robot, ET.fromstring(self._text)  # noqa: S314  written by us
        pose = pose_matrix(robot.base_position, quaternion_to_matrix(robot.base_orientation))
        self._base = f"robot/{root_link(root)}"
        base = self._add_body(self._spec.worldbody, self._base, pose)
        self._add_link_geoms(base, _link(root, root_link(root)), np.eye(4), BASE)
        self._arm_joints = {joint.name for arm in robot.arms for joint in arm.joints}
        self._fingers = {self._links[link][0] for hand in self._hands for link in hand.links}
        self._add_robot_links(base, root, root_link(root))
        for number, arm in enumerate(robot.arms):
            link, placed = self._links[arm.end_effector.link]
            end = pose_matrix(arm.end_effector.position, quaternion_to_matrix(arm.end_effector.orientation))
            position, orientation = _pose(placed @ end)
            self._spec.body(f"robot/{link}").add_site(name=f"tool/{number}", pos=position, quat=orientation)

    def _add_robot_links(self, parent: Any, root: ET.Element, name: str) -> None:
        """Add the links below a link of the robot."""
        for joint in _children(root, name):
            link = _link(root, joint.child)
            body = self._add_body(parent, f"robot/{joint.child}", joint.origin)
            _set_inertia(body, *inertial(link))
            damping = _dynamics(root, joint.name).get("damping", 0.0)
            added = self._add_joint(body, f"robot/{joint.name}", joint, damping)
            added.armature = ARMATURE if joint.name in self._arm_joints and self._mode != "torque" else 0.0
            self._add_link_geoms(body, link, np.eye(4), FINGER if joint.child in self._fingers else ROBOT)
            self._add_robot_links(body, root, joint.child)

    def _add_object(self, k: int, spec: ObjectSpec) -> None:
        """Add an object; its body's frame is the model's, at the centre of mass."""
        rigid, name = spec.body, f"object/{k}"
        body = self._spec.worldbody.add_body(name=name)
        body.add_freejoint(name=name)
        frame = pose_matrix(np.zeros(3), quaternion_to_matrix(rigid.principal))
        surface = _Surface(name, spec.friction, spec.spinning_friction, spec.rolling_friction)
        self._add_pieces(body, rigid.pieces, frame, surface)
        body.mass, body.ipos, body.inertia = rigid.mass, [0.0, 0.0, 0.0], list(rigid.moments)
        body.iquat, body.explicitinertial = _wxyz(rigid.principal), True

    def _add_probe(self, shapes: Sequence[Piece]) -> None:
        """Add a free body of these shapes, which meets nothing."""
        body = self._spec.worldbody.add_body(name="probe", mass=1.0, inertia=[1.0, 1.0, 1.0], explicitinertial=True)
        body.add_freejoint(name="probe")
        self._add_pieces(body, shapes, np.eye(4), _Surface("probe", 0.0))

    def _add_body(self, parent: Any, name: str, pose: FloatArray) -> Any:
        position, orientation = _pose(pose)
        return parent.add_body(name=name, pos=position, quat=orientation)

    def _add_joint(self, body: Any, name: str, joint: Joint, damping: float) -> Any:
        slides = joint.kind == "prismatic"
        added = body.add_joint(
            name=name,
            type=mujoco.mjtJoint.mjJNT_SLIDE if slides else mujoco.mjtJoint.mjJNT_HINGE,
            axis=list(joint.axis),
            damping=[damping, 0.0, 0.0],
        )
        if joint.kind != "continuous" and math.isfinite(joint.lower) and math.isfinite(joint.upper):
            added.limited, added.range = mujoco.mjtLimited.mjLIMITED_TRUE, [joint.lower, joint.upper]
        else:
            added.limited = mujoco.mjtLimited.mjLIMITED_FALSE
        added.solref_limit, added.solimp_limit = list(CONTACT), list(IMPEDANCE)
        added.solref_friction = list(CONTACT)
        return added

    def _add_link_geoms(self, body: Any, link: ET.Element, frame: FloatArray, owner: str) -> None:
        """Add the collision shapes of a URDF link, whose frame is at `frame` in the body."""
        values = {each.tag: numbers_of(each).get("value", 0.0) for each in link.findall("contact/*")}
        surface = _Surface(
            owner,
            values.get("lateral_friction", DEFAULT_FRICTION),
            values.get("spinning_friction", 0.0),
            values.get("rolling_friction", 0.0),
        )
        self._add_pieces(body, tuple(_pieces_of_link(link)), frame, surface)

    def _add_pieces(self, body: Any, shapes: Sequence[Piece], frame: FloatArray, surface: _Surface) -> None:
        """Add convex shapes to a body; `frame` is the pose of their frame in the body's."""
        for piece in shapes:
            name = f"geom/{len(self._surfaces)}"
            position, orientation = _pose(frame @ pose_matrix(piece.position, quaternion_to_matrix(piece.orientation)))
            geom = body.add_geom(name=name, type=_GEOMS[piece.shape], pos=position, quat=orientation, mass=0.0)
            geom.contype = geom.conaffinity = 0  # only pairs collide
            if piece.shape == "hull":
                points = np.asarray(piece.points, dtype=float).ravel().tolist()
                mesh = self._spec.add_mesh(name=name, uservert=points)
                mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
                geom.meshname = name
            elif piece.shape == "box":
                geom.size = [edge / 2 for edge in piece.size]
                if surface.owner == FIXTURE and min(piece.size[:2]) >= TABLE and orientation == [1.0, 0.0, 0.0, 0.0]:
                    self._add_top(body, geom, name)
            elif piece.shape == "sphere":
                geom.size = [piece.size[0], 0.0, 0.0]
            else:
                geom.size = [piece.size[0], piece.size[1] / 2, 0.0]
            self._surfaces.append(replace(surface, geom=name))

    def _add_top(self, body: Any, box: Any, name: str) -> None:
        """Add the top of a box that is as large as a table as a plane, for the links of arms."""
        x, y, z = box.pos
        self._tops[name] = z + box.size[2]
        top = body.add_geom(name=f"{name}/top", type=mujoco.mjtGeom.mjGEOM_PLANE, pos=[x, y, self._tops[name]])
        top.size, top.mass = [box.size[0], box.size[1], 1.0], 0.0
        top.contype = top.conaffinity = 0

    # Contacts, motors, sensors --------------------------------------------------------------------------------------

    def _at_home(self) -> mujoco.MjData:
        """Return the state of the bodies with the robot at its home and open fingers."""
        model = self._compiled()
        data = mujoco.MjData(model)
        positions = {joint.name: joint.home for arm in self._robot.arms for joint in arm.joints}
        for hand in self._hands:
            positions.update(zip(hand.joints, hand.open, strict=True))
        for name, position in positions.items():
            data.qpos[model.joint(f"robot/{name}").qposadr[0]] = position
        mujoco.mj_forward(model, data)
        return data

    def _add_pairs(self, at_home: mujoco.MjData) -> None:
        """Add the pairs of geoms that may meet; their friction is the product of both, as in Bullet.

        For the links that are above a table at home it is a plane, without edges: all links are in the sphere around a
        box of that size, so that contacts with it would take a third of a step.
        """
        for number, first in enumerate(self._surfaces):
            for second in self._surfaces[number + 1 :]:
                if not _may_meet(first.owner, second.owner):
                    continue
                geom = first.geom
                if first.geom in self._tops and second.owner in (ROBOT, FINGER):
                    top, link = self._tops[first.geom], at_home.geom(second.geom).id
                    if at_home.geom_xpos[link, 2] - at_home.model.geom_rbound[link] > top:
                        geom = f"{first.geom}/top"
                friction = first.friction * second.friction
                spinning = first.spinning * second.friction + second.spinning * first.friction
                if FINGER in (first.owner, second.owner):
                    spinning = max(spinning, PATCH * friction)
                rolling = first.rolling * second.friction + second.rolling * first.friction
                self._spec.add_pair(
                    geomname1=geom,
                    geomname2=second.geom,
                    condim=6 if rolling else 4 if spinning else 3,
                    friction=[friction, friction, max(spinning, 1e-5), max(rolling, 1e-6), max(rolling, 1e-6)],
                    solref=list(CONTACT),
                    solimp=list(IMPEDANCE),
                )

    def _add_motors(self, at_home: mujoco.MjData) -> None:
        """Add a motor for each joint of the arms, and for each finger; couple the fingers of a hand.

        A motor of a velocity reaches it within a few physics steps, up to the joint's largest force.
        """
        inertia = _joint_inertias(at_home)
        for arm, hand in zip(self._robot.arms, self._gripper_of_arm, strict=True):
            for joint in arm.joints:
                name = f"robot/{joint.name}"
                gain = GAIN * inertia[name] / self._spec.option.timestep
                self._add_motor(name, None if self._mode == "torque" else gain, joint.effort)
            if hand:
                self._add_fingers(hand, inertia)

    def _add_fingers(self, grip: GripperSpec, inertia: Mapping[str, float]) -> None:
        for joint, speed in zip(grip.joints, finger_speeds(grip), strict=True):
            name, gain = f"robot/{joint}", grip.force / speed
            self._add_motor(name, gain, grip.force)
            # A lighter finger would swing: in a physics step its motor would give it more than the missing velocity.
            self._spec.joint(name).armature = max(0.0, gain * self._spec.option.timestep - inertia[name])
        for joint, opened, closed in zip(grip.joints[1:], grip.open[1:], grip.closed[1:], strict=True):
            ratio = (opened - closed) / (grip.open[0] - grip.closed[0])
            coupling = self._spec.add_equality(
                name=f"robot/{joint}",
                type=mujoco.mjtEq.mjEQ_JOINT,
                objtype=mujoco.mjtObj.mjOBJ_JOINT,
                name1=f"robot/{joint}",
                name2=f"robot/{grip.joints[0]}",
            )
            coupling.data[:5] = [closed - ratio * grip.closed[0], ratio, 0.0, 0.0, 0.0]
            coupling.solref = list(CONTACT)

    def _add_motor(self, joint: str, gain: float | None, force: float) -> None:
        """Add the motor of a joint: of velocities with a gain, or, with None, of forces."""
        motor = self._spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        if gain is not None:
            motor.set_to_velocity(kv=gain)
        motor.forcelimited, motor.forcerange = mujoco.mjtLimited.mjLIMITED_TRUE, [-force, force]

    def _add_sensors(self) -> None:
        """Add sensors of tools, handles, spins and contacts."""
        site, body, tree = mujoco.mjtObj.mjOBJ_SITE, mujoco.mjtObj.mjOBJ_BODY, mujoco.mjtObj.mjOBJ_XBODY
        kinds = mujoco.mjtSensor
        for number in range(len(self._robot.arms)):
            for name, kind in (
                ("position", kinds.mjSENS_FRAMEPOS),
                ("orientation", kinds.mjSENS_FRAMEQUAT),
                ("velocity", kinds.mjSENS_FRAMELINVEL),
            ):
                self._add_sensor(f"tool/{number}/{name}", kind, site, f"tool/{number}")
        for p in range(len(self._parts)):
            self._add_sensor(f"handle/{p}", kinds.mjSENS_FRAMEPOS, site, f"handle/{p}")
        for k in self._objects:
            name = f"object/{k}"
            self._add_sensor(f"spin/{k}", kinds.mjSENS_FRAMEANGVEL, tree, name)
            self._add_contact(f"touch/{k}", (tree, self._base), name, _FORCE, _STRONGEST)
            for hand, grip in enumerate(self._hands):
                for finger, link in enumerate(grip.links):
                    on_finger = body, f"robot/{self._links[link][0]}"
                    self._add_contact(f"finger/{k}/{hand}/{finger}", on_finger, name, _FORCE, _STRONGEST)
            others = ["world", *(f"part/{p}" for p in range(len(self._parts)))]
            for number, other in enumerate([*others, *(f"object/{i}" for i in self._objects if i != k)]):
                self._add_contact(f"depth/{k}/{number}", (body, other), name, _DISTANCE, _NEAREST)

    def _add_contact(self, name: str, of: tuple[Any, str], body: str, field: int, which: int) -> None:
        """Add a sensor of the contacts between a body and another, or a tree of them."""
        sensor = self._add_sensor(name, mujoco.mjtSensor.mjSENS_CONTACT, *of)
        sensor.reftype, sensor.refname = mujoco.mjtObj.mjOBJ_BODY, body
        sensor.intprm[:3] = [field, which, 1]

    def _add_sensor(self, name: str, kind: Any, object_type: Any, object_name: str) -> Any:
        return self._spec.add_sensor(name=name, type=kind, objtype=object_type, objname=object_name)


def _joint_inertias(data: mujoco.MjData) -> dict[str, float]:
    """Return the inertia of each joint, kg m² or kg, by name."""
    model = data.model
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    dofs = model.jnt_dofadr.tolist()
    return {model.joint(index).name: float(full[at, at]) for index, at in enumerate(dofs)}


def decay(lost: Any) -> Any:
    """Return the rates in 1/s at which velocities decay that lose shares in a second."""
    return -np.log1p(-np.minimum(lost, 0.999))


def _inertia(spec: ObjectSpec) -> list[float]:
    axes = quaternion_to_matrix(spec.body.principal)
    moments: list[float] = np.diag(axes @ np.diag(spec.body.moments) @ axes.T).tolist()
    return [*[spec.body.mass] * 3, *moments]


def _may_meet(first: str, second: str) -> bool:
    """Return whether bodies of these owners collide: objects with all others, an arm with fixtures."""
    arm = {ROBOT, FINGER, BASE}
    if first == second or {first, second} <= arm:
        return False
    return {first, second} != {BASE, FIXTURE}


def _pieces_of_link(link: ET.Element) -> Iterator[Piece]:
    """Return the collision shapes of a URDF link; a mesh becomes the convex hulls of its groups."""
    for collision in link.findall("collision"):
        geom = geom_of(collision)
        shapes = [Piece(geom.shape, geom.size)]  # type: ignore[arg-type]  # a primitive; a mesh is below
        if geom.shape == "mesh":
            hulls = [(points * geom.scale).tolist() for points in read_hulls(geom.file)]
            shapes = [Piece("hull", (), points=tuple((x, y, z) for x, y, z in corners)) for corners in hulls]
        yield from (transformed(piece, origin_of(collision)) for piece in shapes)


def _set_inertia(body: Any, mass: float, centre: FloatArray, inertia: FloatArray) -> None:
    moments, axes = np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0:
        axes[:, 0] *= -1
    body.mass, body.ipos = max(mass, 1e-6), centre.tolist()
    body.inertia, body.iquat = np.maximum(moments, 1e-9).tolist(), _wxyz(matrix_to_quaternion(axes).tolist())
    body.explicitinertial = True


def _children(root: ET.Element, link: str) -> list[Joint]:
    return [joint for joint in read_joints(root).values() if joint.parent == link]


def _link(root: ET.Element, name: str) -> ET.Element:
    return next(link for link in root.findall("link") if link.get("name") == name)


def _dynamics(root: ET.Element, joint: str) -> dict[str, float]:
    """Return damping and friction of a joint that has them."""
    return numbers_of(next(each for each in root.findall("joint") if each.get("name") == joint).find("dynamics"))


def _pose(matrix: FloatArray) -> tuple[list[float], list[float]]:
    return matrix[:3, 3].tolist(), _wxyz(matrix_to_quaternion(matrix[:3, :3]).tolist())


def _wxyz(quaternion: Sequence[float]) -> list[float]:
    x, y, z, w = quaternion
    return [w, x, y, z]
