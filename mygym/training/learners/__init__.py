"""Several processes that train the same model, each with a share of the environments (config key `workers`).

training_workers  start, messages and end of the other processes
synchronization   callback that lets the other processes begin each rollout
joint_training    the two ways of training together
gradient_mean     optimiser steps with the mean gradients of all processes
step_count        callback that counts the env steps of all processes
worker_training   code of the other processes
answers           callback of the other processes that answers commands
"""
