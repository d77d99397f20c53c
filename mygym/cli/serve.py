"""`mygym serve`: a dashboard in the browser, and an API."""

from __future__ import annotations

import argparse

from mygym.cli.command import argument, command, log_directory, parse_count, parse_integer
from mygym.cli.output import print_note

PORT = 8080


@command(
    "mygym serve",
    "Start, watch, stop and compare runs in a browser; the API under it is at /api.",
    argument("--host", default="127.0.0.1", metavar="H", help="address to bind (default: 127.0.0.1, this machine)"),
    argument("--port", default=str(PORT), metavar="N", help=f"port (default {PORT}; 0: any free port)"),
    argument("--token", metavar="T", help="token of clients (default: that of the log directory, created once)"),
    argument("--slots", metavar="N", help="cores that jobs may keep busy (default: all)"),
    logdir=log_directory("folder of all runs; created if it is missing"),
    examples="""
mygym serve
mygym serve --logdir runs --port 9000
mygym serve --logdir runs --host 0.0.0.0 --token 'a long secret word'
""",
    notes="""
Open the printed address; it works once, and the browser stays signed in. Clients send `Authorization: Bearer TOKEN`.
Runs are processes that go on when the server ends; a server that starts again finds them.
""",
)
def serve(options: argparse.Namespace) -> None:
    """Run the command."""
    port = parse_integer(options.port, "--port", "a port, 0 to 65535", 0, 65_535)
    slots = parse_count(options.slots, "--slots") if options.slots else None

    from mygym.dashboard.server import serve

    serve(options.folder, options.host, port, options.token, slots, print_note)
