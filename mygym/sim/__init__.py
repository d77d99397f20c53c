"""Everything that touches PyBullet, and the robots, workspaces and objects that it simulates.

robot, workspace, objects   descriptions as data, read from YAML by `assets`
shapes, meshes              boxes, tubes, hulls … and bodies made of them: where they collide
inertia, links              what shapes weigh, and links of a URDF made of them
urdf, transforms            URDF made light, rotations
kinematics, controllers     from actions to joint targets
fixtures                    what stands in a workspace, as data: shapes, and what of them slides or turns
world                       one simulated world: exact reset, step, state; made of `arm`, `surroundings` and `bodies`
variation, shuttle          what differs in one episode; what moves by itself
scene, camera               pictures and a window, in clients of their own, as `looks` and `patterns` have them
bullet                      the one import of pybullet
"""
