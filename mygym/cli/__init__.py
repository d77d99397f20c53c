"""The command line: one thin module per command, `main` to choose and to end with the right exit code."""
