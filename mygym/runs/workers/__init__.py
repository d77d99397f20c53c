"""Several processes that train the same model, each with a share of the environments (config key `workers`).

training_workers  start, messages and end of the other processes
worker_callbacks  callbacks that count the steps of all processes and synchronise the processes
worker_training   code of the other processes
gradient_mean     optimiser steps with the mean gradients of all processes
"""
