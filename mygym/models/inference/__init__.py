"""Inference of robots from bare URDF files.

robots    description of a robot: arm, gripper, tool point, home and base position
arms      the arm: the joints between torso and hand
tools     gripper and tool point
completion  robots of YAML files that have corrections alone
findings  `Finding`: an inferred property, its certainty and the key that corrects it
"""
