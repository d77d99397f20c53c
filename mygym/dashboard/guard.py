"""Guard of the server: every request and websocket needs an allowed Host and the token, changes the same Origin."""

from __future__ import annotations

import hmac
import secrets
import socket
import time
from collections.abc import Mapping
from urllib.parse import parse_qs, urlencode, urlsplit

import psutil
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SAFE = ("GET", "HEAD", "OPTIONS")

MAX_BODY_BYTES = 1_000_000
"""Bytes of a request, and of a message of a websocket."""

MAX_SOCKETS = 64
"""Websockets at the same time."""

MAX_MESSAGES = 1_000
"""Messages that a websocket may send before its connection must have lasted `MESSAGE_SECONDS` for each."""

SECURITY_HEADERS = {"x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "same-origin"}

LOGIN = """<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>mygym: sign in</title><style>:root{color-scheme:light dark}body{font:16px system-ui;max-width:34em;
margin:15vh auto;padding:0 1em}input,button{font:inherit;padding:.5em}</style><h1>mygym</h1><p>%s</p>
<form method=post action=/login><label>Token <input name=token type=password autofocus required></label>
<button>Sign in</button></form><p>The token is the word after <code>token:</code> in the terminal of
<code>mygym serve</code>.</p>"""


class Refusal(Exception):  # noqa: N818
    """A request that gets an error and nothing else."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Guard:
    """ASGI middleware outside everything else: `Authorization: Bearer TOKEN`, or the cookie of the login page.

    A server that is bound to `0.0.0.0` or `::` answers the names of all its interfaces. The port names the cookie,
    because browsers send a cookie to every port.
    """

    def __init__(self, app: ASGIApp, token: str, host: str = "127.0.0.1", port: int = 0) -> None:
        self.app, self.token = app, token
        self._named = TrustedHostMiddleware(self._answer, sorted(allowed_hosts(host)), www_redirect=False)
        self.cookie_name = f"mygym_{port}"
        self.cookie = hmac.new(token.encode(), b"cookie", "sha256").hexdigest()
        self.login_word = secrets.token_urlsafe(24)
        """Word in the URL that opens the dashboard once; empty after its use."""
        self._sockets = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to an allowed host, or pass it on."""
        await self._named(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = HTTPConnection(scope).headers
        try:
            if scope["type"] == "websocket":
                await self._serve_websocket(scope, headers, receive, send)
            else:
                await self._serve_request(scope, headers, receive, send)
        except ClientDisconnect:  # while it signed in
            return
        except Refusal as refusal:
            await _refuse(scope, refusal, headers, receive, send)

    async def _serve_request(self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        if scope["method"] not in SAFE:
            self._check_origin(headers, required="authorization" not in headers and scope["path"] != "/login")
        if not headers.get("content-length", "0").isdigit() or int(headers.get("content-length", "0")) > MAX_BODY_BYTES:
            raise Refusal(413, f"the body is too large: at most {MAX_BODY_BYTES:,} bytes")
        received = _limited(receive)
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if scope["path"] == "/login" and scope["method"] == "POST":
            body = await Request(scope, received).body()
            if not _equal(parse_qs(body.decode("latin-1")).get("token", [""])[0], self.token):
                raise Refusal(401, "this is not the token of the server")
            await self._signed_in("/")(scope, receive, send)
        elif (word := query.pop("token", [""])[0]) and self._enter(word):
            path = scope["path"] if scope["path"].startswith("/") and not scope["path"].startswith("//") else "/"
            await self._signed_in(f"{path}?{urlencode(query, doseq=True)}" if query else path)(scope, receive, send)
        elif self._is_authorized(scope, headers):
            await self.app(scope, received, _with_headers(send))
        else:
            raise Refusal(401, "this page needs the token of the server")

    async def _serve_websocket(self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        self._check_origin(headers, required="authorization" not in headers)
        if not self._is_authorized(scope, headers):
            raise Refusal(403, "no token")
        if self._sockets >= MAX_SOCKETS:
            raise Refusal(403, "too many websockets")
        self._sockets += 1
        try:
            await self.app(scope, _paced(receive, send), send)
        finally:
            self._sockets -= 1

    def _check_origin(self, headers: Mapping[str, str], required: bool) -> None:
        """Refuse changes and websockets that a page of another site has begun."""
        origin = headers.get("origin")
        if origin is None:
            if required or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                raise Refusal(403, "the request has no Origin; clients send `Authorization: Bearer TOKEN`")
            return
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or parts.netloc.lower() != headers["host"].lower():
            raise Refusal(403, "the request comes from a page of another site")

    def _is_authorized(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        if "authorization" in headers:
            kind, _, token = headers["authorization"].partition(" ")
            return kind.lower() == "bearer" and _equal(token, self.token)
        return _equal(HTTPConnection(scope).cookies.get(self.cookie_name, ""), self.cookie)

    def _enter(self, word: str) -> bool:
        """Return whether a word opens the dashboard, which it does once."""
        if self.login_word and _equal(word, self.login_word):
            self.login_word = ""
            return True
        return False

    def _signed_in(self, target: str) -> Response:
        """Return an answer that sets the cookie, and opens a page without the token in its address."""
        answer = RedirectResponse(target, 303, SECURITY_HEADERS)
        answer.set_cookie(self.cookie_name, self.cookie, httponly=True, samesite="strict")
        return answer


def allowed_hosts(host: str) -> frozenset[str]:
    """Return the names in `Host` headers that the server answers, in lower case and without a port."""
    every = host in ("0.0.0.0", "::")  # noqa: S104  compared, not bound
    addresses = [address.address for each in psutil.net_if_addrs().values() for address in each] if every else [host]
    names = {f"[{name.partition('%')[0]}]" if ":" in name else name for name in addresses}
    names |= {socket.gethostname(), socket.getfqdn()} if every else set()
    return frozenset(name.lower() for name in {*LOOPBACK, *names} - {"0.0.0.0", "[::]"})  # noqa: S104


def _equal(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(errors="replace"), secret.encode())


def _limited(receive: Receive) -> Receive:
    """Return a `receive` that refuses a body without a length when it becomes too large."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_BODY_BYTES:
            raise Refusal(413, f"the body is too large: at most {MAX_BODY_BYTES:,} bytes")
        return message

    return limited


def _paced(receive: Receive, send: Send) -> Receive:
    """Return a `receive` that ends a websocket that sends large messages, or more than 100 messages in a second."""
    begin, count = time.monotonic(), 0

    async def paced() -> Message:
        nonlocal count
        message = await receive()
        count += 1
        size = len(message.get("bytes") or b"") + len(message.get("text") or "")
        if size > MAX_BODY_BYTES or count > MAX_MESSAGES + 100 * (time.monotonic() - begin):
            await send({"type": "websocket.close", "code": 1008})
            return {"type": "websocket.disconnect", "code": 1008}
        return message

    return paced


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
            message["headers"] = [*message.get("headers", []), *added]
        await send(message)

    return sending


async def _refuse(scope: Scope, refusal: Refusal, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": str(refusal)})
        return
    extra = (
        SECURITY_HEADERS | {"cache-control": "no-store"} | ({"connection": "close"} if refusal.status == 413 else {})
    )
    answer: Response
    if refusal.status == 401 and "text/html" in headers.get("accept", ""):
        answer = HTMLResponse(LOGIN % str(refusal).capitalize(), 401, extra)
    else:
        answer = JSONResponse({"errors": [{"field": "", "message": str(refusal)}]}, refusal.status, extra)
    await answer(scope, receive, send)
