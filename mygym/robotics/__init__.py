"""Descriptions of robots, workspaces and objects, their geometry and kinematics, and controllers. No simulator.

assets                 YAML files → validated dataclasses
robot                  names and loading of robots
robot_spec             `RobotSpec`, the description of a robot
robot_validation       checks of a robot's description against its URDF
inference              inference of robots from bare URDF files
robot_descriptions     robots' files of any format as URDF trees, with repairs
robot_archives         robots' files in archives
xacro_files            expansion of xacro files
mjcf                   robots in MuJoCo's XML
estimated_inertia      masses and inertias that a robot's file lacks
robot_model            URDF of a robot as it is simulated: tools mounted, other joints locked
base_placement         base position and home posture of a robot whose description has none
workspace              workspaces as data
fixtures               fixtures of a workspace as data
fixture_validation     checks of fixtures
fixture_urdf           URDF of a fixture, and its articulated parts
objects                rigid objects as data
object_urdf            URDF files of objects
urdf                   reading of URDF trees
urdf_editing           edits of URDF trees
urdf_validation        checks of URDF trees
links                  URDF links made of geoms
shapes                 geoms: shapes with a pose, colour and mass
surfaces               triangle meshes of geoms
surface_points         points on the surfaces of a URDF's shapes
meshes                 triangle meshes as arrays
mesh_files             mesh files as convex hulls
mesh_lookup            mesh files of robots' descriptions by name
mesh_triangles         triangles of mesh files
readable_meshes        mesh files that Bullet reads
stl                    mesh files as binary STL
collision_pieces       convex shapes that represent geoms in collisions
bounding_box           bounding box of geoms
inertia                volume, mass and inertia of geoms
rigid                  rigid bodies in the frame of their principal axes
transforms             rotations and rigid transforms
kinematics             forward and inverse kinematics
pose_error             pose error and Jacobian of a tool
tool_yaw               yaw of the tool
controllers            controllers of an arm
arm_controllers        the controllers of all arms as one action vector
episode_randomization  randomized parameters of one episode
textures               procedural textures
temporary_files        temporary files for Bullet
"""
