"""Command line: a module for each command, with its name, and `main`, which selects the command."""
