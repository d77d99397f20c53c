"""The command line: one module per command, and `main`, which selects the command."""
