"""Runs for other programs: policies in files that need neither mygym nor torch, hyperparameters, environments.

formats          names of the formats and of the graph's inputs and outputs; messages
graph            the acting part of a policy as one module of torch
jax_actor        the actor of a JAX policy as a module of torch
files            a graph as an ONNX file, or as a file of `torch.export`
description      robot, controller, observations and actions of a run, as the file's metadata
export           `export`: writes a file and verifies it against the policy
sessions         functions of a file: by onnxruntime, or by torch
exported_policy  `ExportedPolicy`: acts with numpy and onnxruntime alone, or with torch
deployment       `DeployedPolicy`: acts on the joint states of a robot
closed_loop      durations of a closed loop at the control rate
playing          plays a file in PyBullet, without torch
zoo              a run as an entry of RL Zoo
envhub           environments as an `env.py` for LeRobot's EnvHub
"""
