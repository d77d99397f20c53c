"""Command line: a module for each command, and `main`, which selects the command."""
