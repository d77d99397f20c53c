"""Command line: a module for each command, with its name, and `main`, which selects the command.

main             the `mygym` program
start            start of the programs: Ctrl-C while Python imports
command          `command()`, which builds the parser of a command
arguments        parsing of flag values
foreign_configs  config files of other systems: conversion, areas within reach
import_config    `mygym import`
output           notes, tables and JSON
descriptions     descriptions of components, for `describe`
camera_sheet     images of a camera in an episode, for `mygym view camera`
pictures         pictures as arrays, for `view`
dry_run          `--dry-run`
explain          `--explain`
seeds            `train.py --seeds`
new              `mygym new`: scaffolds
"""
