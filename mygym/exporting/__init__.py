"""Runs for other programs: policies in files that need neither mygym nor torch, hyperparameters, environments."""
