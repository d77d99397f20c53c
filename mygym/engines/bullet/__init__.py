"""Physics simulation with PyBullet.

world               a simulated world: exact reset, step, state
robot_body          the robot in a client: loading, motors, sensors
fixture_bodies      the workspace's fixtures and their articulated parts
object_bodies       the objects: creation, weight, state, contacts
moving_distractor   motion of distractors
collision_shapes    collision shapes made of convex pieces
primitives          primitive shapes fitted to meshes
robot_lookup        robots by name, or inferred from a URDF whose meshes Bullet reads
inspection          collision, joint-travel and reachability queries on a world
resting             measurement of an undisturbed object
saved_world         saved states of a world in Bullet's memory
bullet              the only import of pybullet
rendering           images and a window, each in a separate client
"""
