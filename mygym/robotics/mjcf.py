"""Robots in MuJoCo's XML (MJCF) as URDF trees: the package `mujoco` compiles the file, which resolves its defaults."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.registry import resolve
from mygym.robotics.files import temporary_file
from mygym.robotics.inference.findings import Finding
from mygym.robotics.mesh_files import binary_stl
from mygym.robotics.transforms import pose_matrix, quaternion_to_matrix
from mygym.robotics.urdf import add_joint, set_inertial, set_origin, text_of
from mygym.types import FloatArray

FREE, BALL, SLIDE, HINGE = range(4)
"""mjtJoint."""

PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = range(8)
"""mjtGeom."""

CONNECT, WELD, JOINT = range(3)
"""mjtEq."""

ACTUATED_JOINT = 0
"""mjtTrn."""

SHOWN_GROUPS = 3
"""MuJoCo's viewer shows geoms of the groups below this."""

TOOL_SITE = re.compile("attach|grasp|pinch|tcp|tool|gripper|end_?effector|^ee", re.IGNORECASE)
"""Names of the sites that become links: places for a tool, and tool points."""


def read_mjcf(path: Path) -> tuple[ET.Element, list[Finding]]:
    """Return the `<robot>` element of the bodies of a MuJoCo file that joints move, and a finding for each omission.

    Raises:
        AssetError: MuJoCo refuses the file, it has no body that a hinge or a slide moves, or it has a ball joint.
        RegistryError: The package `mujoco` is not installed.
    """
    compile_file = resolve("mujoco:MjModel", f"the MuJoCo file {path}").from_xml_path
    try:
        model = compile_file(str(path))
    except ValueError as error:
        why = f"cannot be compiled ({' '.join(str(error).split())[:300]})"
        raise AssetError(bad_value("robot", str(path), "a valid MuJoCo XML file", why)) from error
    return _Conversion(path, model).tree()


@dataclass(frozen=True)
class _Conversion:
    path: Path
    model: Any
    """A compiled `MjModel`."""

    def tree(self) -> tuple[ET.Element, list[Finding]]:
        m = self.model
        roots = [body for body in self._children(0) if self._joint_types(body) & {SLIDE, HINGE}]
        if not roots:
            allowed = "a MuJoCo file with bodies that hinges or slides move"
            raise AssetError(bad_value("robot", str(self.path), allowed, "has none"))
        if any(BALL in self._joint_types(body) for body in roots):
            raise AssetError(bad_value("robot", str(self.path), "hinges and slides", "has a ball joint"))
        robot = ET.Element("robot", name=self.path.stem)
        poses = [self._pose(m.body_pos[body], m.body_quat[body]) for body in roots]
        corner = np.array([pose[:3, 3] for pose in poses])
        origin = [*corner[:, :2].mean(axis=0), corner[:, 2].min()]  # the workspace decides where a base stands
        for pose in poses:
            pose[:3, 3] -= origin
        if len(roots) > 1 or self._joints(roots[0]) or not np.allclose(poses[0], np.eye(4)):
            ET.SubElement(robot, "link", name="world")
            for body, pose in zip(roots, poses, strict=True):
                self._add(robot, body, "world", pose)
        else:
            self._add(robot, roots[0], "", np.eye(4))
        self._add_mimics(robot)
        return robot, self._findings(roots)

    def _findings(self, roots: list[int]) -> list[Finding]:
        m = self.model
        findings = []
        left_out = [self._name("body", body) for body in self._children(0) if body not in roots]
        if left_out:
            findings.append(
                Finding(f"bodies of the MuJoCo file that nothing moves are left out: {', '.join(left_out)}")
            )
        loops = [self._name("equality", k) for k in range(m.neq) if m.eq_type[k] in (CONNECT, WELD)]
        if loops:
            text = f"closed loops of the MuJoCo file are left open: {', '.join(loops)}"
            findings.append(Finding(text, certainty="guess"))
        return findings

    def _children(self, body: int) -> list[int]:
        return [child for child in range(1, self.model.nbody) if self.model.body_parentid[child] == body]

    def _joints(self, body: int) -> range:
        first = int(self.model.body_jntadr[body])
        return range(first, first + int(self.model.body_jntnum[body]))

    def _joint_types(self, body: int) -> set[int]:
        """Return the types of the joints of a body and of the bodies behind it."""
        types = {int(self.model.jnt_type[joint]) for joint in self._joints(body)}
        return types.union(*(self._joint_types(child) for child in self._children(body)))

    def _name(self, kind: str, number: int) -> str:
        return getattr(self.model, kind)(number).name or f"{kind}_{number}"

    @staticmethod
    def _pose(position: FloatArray, quaternion: FloatArray) -> FloatArray:
        w, x, y, z = quaternion.tolist()
        return pose_matrix(position, quaternion_to_matrix((x, y, z, w)))

    def _add(self, robot: ET.Element, body: int, parent: str, pose: FloatArray) -> None:
        """Add a body and all bodies behind it; a body of several joints becomes a chain of links."""
        m, name = self.model, self._name("body", body)
        joints = [joint for joint in self._joints(body) if m.jnt_type[joint] != FREE]
        for joint in joints:
            anchor = pose_matrix(m.jnt_pos[joint], np.eye(3))
            is_last = joint == joints[-1] and np.allclose(m.jnt_pos[joint], 0)
            child = name if is_last else f"{name}_{self._name('joint', joint)}"
            self._add_joint(robot, joint, parent, child, pose @ anchor)
            if is_last:
                break
            ET.SubElement(robot, "link", name=child)
            parent, pose = child, pose_matrix(-m.jnt_pos[joint], np.eye(3))
        else:
            if parent:
                add_joint(robot, f"{parent}_to_{name}", "fixed", parent, name, pose)
        link = ET.SubElement(robot, "link", name=name)
        if m.body_mass[body] > 0:
            inertial_pose = self._pose(m.body_ipos[body], m.body_iquat[body])
            rotation = inertial_pose[:3, :3]
            inertia = rotation @ np.diag(m.body_inertia[body]) @ rotation.T
            set_inertial(link, float(m.body_mass[body]), inertial_pose[:3, 3], inertia)
        first = int(m.body_geomadr[body])
        for geom in range(first, first + int(m.body_geomnum[body])):
            for tag in self._tags(geom):
                self._add_shape(link, tag, geom)
        for site in range(m.nsite):
            site_name = m.site(site).name
            if m.site_bodyid[site] == body and TOOL_SITE.search(site_name):
                ET.SubElement(robot, "link", name=f"{site_name}_site")
                site_pose = self._pose(m.site_pos[site], m.site_quat[site])
                add_joint(robot, f"{site_name}_site_joint", "fixed", name, f"{site_name}_site", site_pose)
        for child_body in self._children(body):
            self._add(robot, child_body, name, self._pose(m.body_pos[child_body], m.body_quat[child_body]))

    def _add_joint(self, robot: ET.Element, joint: int, parent: str, child: str, pose: FloatArray) -> None:
        m = self.model
        is_slide = m.jnt_type[joint] == SLIDE
        is_limited = bool(m.jnt_limited[joint])
        kind = "prismatic" if is_slide else "revolute" if is_limited else "continuous"
        element = add_joint(robot, self._name("joint", joint), kind, parent, child, pose)
        ET.SubElement(element, "axis", xyz=text_of(m.jnt_axis[joint]))
        limit = ET.SubElement(element, "limit")
        if is_limited:  # MuJoCo's positions begin at a reference, a URDF's at zero
            low, high = m.jnt_range[joint] - m.qpos0[m.jnt_qposadr[joint]]
            limit.attrib.update(lower=repr(float(low)), upper=repr(float(high)))
        effort = max(self._efforts(joint), default=0.0)
        if effort > 0:
            limit.set("effort", repr(effort))

    def _efforts(self, joint: int) -> Iterator[float]:
        """Yield the largest force of each actuator of a joint, N m or N."""
        m = self.model
        if m.jnt_actfrclimited[joint]:
            yield float(np.abs(m.jnt_actfrcrange[joint]).max())
        for k in range(m.nu):
            is_driven = m.actuator_trntype[k] == ACTUATED_JOINT and m.actuator_trnid[k, 0] == joint
            if is_driven and m.actuator_forcelimited[k]:
                yield float(np.abs(m.actuator_forcerange[k]).max() * abs(m.actuator_gear[k, 0]))

    def _tags(self, geom: int) -> tuple[str, ...]:
        m = self.model
        if m.geom_type[geom] in (PLANE, HFIELD) or m.geom_type[geom] > MESH:
            return ()
        collides = bool(m.geom_contype[geom] or m.geom_conaffinity[geom])
        shown = bool(m.geom_group[geom] < SHOWN_GROUPS)
        return ("collision",) * collides + ("visual",) * (shown or not collides)

    def _add_shape(self, link: ET.Element, tag: str, geom: int) -> None:
        m = self.model
        element = ET.SubElement(link, tag)
        set_origin(element, self._pose(m.geom_pos[geom], m.geom_quat[geom]))
        shape, size = ET.SubElement(element, "geometry"), m.geom_size[geom]
        kind = m.geom_type[geom]
        if kind == MESH:
            ET.SubElement(shape, "mesh", filename=self._mesh(int(m.geom_dataid[geom])))
        elif kind == SPHERE:
            ET.SubElement(shape, "sphere", radius=repr(float(size[0])))
        elif kind in (CAPSULE, CYLINDER):
            name = "capsule" if kind == CAPSULE else "cylinder"
            ET.SubElement(shape, name, radius=repr(float(size[0])), length=repr(float(2 * size[1])))
        else:  # a box, or the box in an ellipsoid that has its volume
            edges = 2 * size * (1.0 if kind == BOX else (math.pi / 6) ** (1 / 3))
            ET.SubElement(shape, "box", size=text_of(edges))
        if tag == "visual":
            material = int(m.geom_matid[geom])
            color = m.mat_rgba[material] if material >= 0 else m.geom_rgba[geom]
            paint = ET.SubElement(element, "material", name=f"geom_{geom}")
            ET.SubElement(paint, "color", rgba=text_of(color))

    def _mesh(self, mesh: int) -> str:
        m = self.model
        start, count = int(m.mesh_vertadr[mesh]), int(m.mesh_vertnum[mesh])
        first, faces = int(m.mesh_faceadr[mesh]), int(m.mesh_facenum[mesh])
        vertices = m.mesh_vert[start : start + count].astype(float)
        content = binary_stl(vertices[m.mesh_face[first : first + faces]])
        return temporary_file(f"{self._name('mesh', mesh).replace('/', '_')}.stl", content)

    def _add_mimics(self, robot: ET.Element) -> None:
        """Add a `<mimic>` for each equality of two joints; only its constant and its factor are used."""
        m = self.model
        for k in range(m.neq):
            if m.eq_type[k] != JOINT or m.eq_obj2id[k] < 0:
                continue
            follower, leader = (self._name("joint", int(ids[k])) for ids in (m.eq_obj1id, m.eq_obj2id))
            element = robot.find(f"joint[@name='{follower}']")
            if element is not None:
                offset, factor = (repr(float(value)) for value in self.model.eq_data[k, :2])
                ET.SubElement(element, "mimic", joint=leader, multiplier=factor, offset=offset)
