"""Exported policies: a network with normaliser and action scaling in a file that needs neither mygym nor torch.

formats          names of the formats and of the graph's inputs and outputs; messages
graph            the acting part of a policy as one module of torch, and as an ONNX model
description      robot, controller, observations and actions of a run, as the file's metadata
export           `export`: writes a file and verifies it against the policy
exported_policy  `ExportedPolicy`: acts with numpy and onnxruntime alone
playing          plays a file in PyBullet, without torch
"""
