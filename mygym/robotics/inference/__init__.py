"""Inference of robots from their files alone.

robots      description of a robot: arm, gripper, tool point, home and base position
arms        the arm: the joints between torso and hand
hands       `Hand`: the links behind a wrist, their joints and surfaces
grippers    grippers, found by the gap that their joints close, and the tool point between the pads
boxes       boxes along the surfaces of fingers
tools       tool point of arms without a gripper
completion  robots of YAML files that have corrections alone
findings    `Finding`: an inferred property, its certainty and the key that corrects it
"""
