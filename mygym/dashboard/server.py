"""Server: API and pages in one process, behind the guard."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mygym.errors import ConfigError, bad_value, did_you_mean
from mygym.training.files import check_writable

if TYPE_CHECKING:
    from mygym.dashboard.helper import Helper

MIN_TOKEN_LENGTH = 12
NO_ADDRESS = (errno.EADDRNOTAVAIL, 10049)
"""Errors of an address that no interface of this machine has; the second is Windows'."""

LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    logdir: str, host: str, port: int, token: str | None, slots: int | None, notify: Callable[[str], None]
) -> None:
    """Serve the dashboard of a log directory, which is created if it is missing, until Ctrl-C or SIGTERM.

    `token` is by default that of the log directory, which its first use creates. `slots` are the cores that jobs may
    keep busy, all by default. `notify` gets lines for the user.

    Raises:
        ConfigError: The folder cannot be created or written, the port is in use, another machine could connect without
            `--token`, or the extra `dashboard` is not installed.
    """
    folder = Path(logdir)
    check_writable(folder, "--logdir")
    if host not in LOCAL and token is None:
        raise ConfigError(
            bad_value("--host", host, f"{', '.join(LOCAL)}; or another with --token TOKEN", "needs --token")
        )
    if token is not None and (len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable()):
        why = "is too short or has unusual characters"
        raise ConfigError(bad_value("--token", "…", f"{MIN_TOKEN_LENGTH} ASCII characters or more", why))
    bound = _bind(host, port)
    with contextlib.closing(bound):
        _serve(folder.resolve(), host, bound, token, slots, notify)


def _serve(
    logdir: Path, host: str, bound: socket.socket, token: str | None, slots: int | None, notify: Callable[[str], None]
) -> None:
    try:
        import uvicorn
        from nicegui import ui
    except ImportError as error:
        why = f"is not installed ({error.name}); pip install 'mygym[dashboard]'"
        raise ConfigError(f"mygym serve: the extra dashboard {why}") from None
    from fastapi import FastAPI

    from mygym.dashboard.api import add_api
    from mygym.dashboard.guard import MAX_BODY_BYTES, Guard
    from mygym.dashboard.pages import add_pages
    from mygym.dashboard.service import Service, stored_token

    if not logdir.exists():
        near = did_you_mean(logdir.name, (path.name for path in logdir.parent.glob("[!.]*/")))
        notify(f"note: {logdir} is new and has no runs{near}")
    service = Service(logdir, slots)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        idle = asyncio.create_task(_end_idle_helper(service.helper))
        service.jobs.start()
        yield
        idle.cancel()
        service.close()

    app = FastAPI(title="mygym", docs_url=None, redoc_url=None, lifespan=lifespan)
    add_api(app, service)
    add_pages(service)
    ui.run_with(app, title="mygym", dark=None, show_welcome_message=False, storage_secret=None)
    port = bound.getsockname()[1]
    guard = Guard(app, token or stored_token(logdir), host, port)
    if host not in LOCAL:
        notify(f"warning: --host {host} lets other machines connect, unencrypted; the token allows them to run code")
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host  # noqa: S104
    notify(f"dashboard: http://{name}:{port}/?token={guard.login_word} (opens once)")
    notify(f"token: {guard.token}")
    config = uvicorn.Config(
        guard,
        log_level="error",
        ws_max_size=MAX_BODY_BYTES,
        server_header=False,
        timeout_graceful_shutdown=2,
        lifespan="on",
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[bound])


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    if sys.platform != "win32":  # there, two servers could have the same port
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen()  # a browser that opens the address at once waits, and is not refused
    except OSError as error:
        bound.close()
        flag = "--host" if isinstance(error, socket.gaierror) or error.errno in NO_ADDRESS else "--port"
        value = host if flag == "--host" else port
        allowed = "an address of this machine" if flag == "--host" else "a free port, e.g. --port 0 for any"
        raise ConfigError(bad_value(flag, value, allowed, f"cannot be used ({error.strerror or error})")) from None
    return bound


async def _end_idle_helper(helper: Helper) -> None:
    while True:
        await asyncio.sleep(10)
        helper.end_if_idle()
