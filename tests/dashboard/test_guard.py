"""The guard refuses other hosts, other origins, missing and replayed tokens, large bodies and floods."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from starlette.websockets import WebSocketDisconnect

from mygym.dashboard import guard as guarding
from mygym.dashboard.guard import MAX_BODY_BYTES, Guard, allowed_hosts
from mygym.dashboard.service import Service
from tests.dashboard.conftest import ADDRESS, TOKEN
from tests.reporting.runs import make_run


def sign_in(client: Any) -> Any:
    return client.post("/login", data={"token": TOKEN}, headers={"Origin": ADDRESS})


def test_without_a_token_nothing_is_served(stranger: Any) -> None:
    for path in ("/", "/api/runs", "/openapi.json", "/api", "/_nicegui/x.js"):
        assert stranger.get(path).status_code == 401, path
    page = stranger.get("/", headers={"Accept": "text/html"})
    assert "<form" in page.text


def test_the_word_in_the_address_opens_the_page_once(stranger: Any, guard: Guard) -> None:
    word = guard.login_word
    answer = stranger.get(f"/?token={word}&task=push")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?task=push"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert stranger.get("/api/runs").status_code == 200
    stranger.cookies.clear()
    assert stranger.get(f"/?token={word}").status_code == 401


def test_login_page(stranger: Any) -> None:
    assert stranger.post("/login", data={"token": "wrong"}, headers={"Origin": ADDRESS}).status_code == 401
    assert stranger.post("/login", data={"token": TOKEN}, headers={"Origin": "http://evil.example"}).status_code == 403
    assert sign_in(stranger).status_code == 303
    assert stranger.get("/api/runs").status_code == 200


def test_redirects_stay_on_the_server(stranger: Any, guard: Guard) -> None:
    answer = stranger.get(f"{ADDRESS}//evil.example/?token={guard.login_word}")
    assert answer.headers["location"] == "/"


def test_a_browser_cannot_read_another_host_in_a_redirect(stranger: Any, guard: Guard) -> None:
    answer = stranger.get(f"{ADDRESS}/%5Cevil.example/%0d%0aX:1?token={guard.login_word}")
    assert answer.headers["location"] == "/%5Cevil.example/%0D%0AX:1"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "0.0.0.0:8080", "[::2]"]
)
def test_other_hosts(client: Any, host: str) -> None:
    assert client.get("/api/runs", headers={"Host": host}).status_code == 400


def test_all_interfaces_have_names() -> None:
    assert "0.0.0.0" not in allowed_hosts("0.0.0.0")
    assert {"127.0.0.1", "localhost", "[::1]"} <= allowed_hosts("0.0.0.0")
    assert allowed_hosts("fd00::1") == {"127.0.0.1", "localhost", "[::1]", "[fd00::1]"}


def test_changes_need_the_same_origin(stranger: Any) -> None:
    sign_in(stranger)
    body = {"json": {"algo": "sax"}}
    assert stranger.post("/api/check", **body).status_code == 403
    for origin in ("null", "http://evil.example", "https://127.0.0.1:9999", "file://"):
        assert stranger.post("/api/check", **body, headers={"Origin": origin}).status_code == 403, origin
    assert stranger.post("/api/check", **body, headers={"Origin": ADDRESS}).status_code == 422


def test_websockets_need_token_and_origin(stranger: Any, client: Any) -> None:
    with client.websocket_connect("ws://127.0.0.1:8080/ws") as socket:
        socket.send_text("hello")
        assert socket.receive_text() == "hello"
    sign_in(stranger)
    for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": ADDRESS, "Host": "evil.example"}):
        with pytest.raises(WebSocketDisconnect), stranger.websocket_connect("ws://127.0.0.1:8080/ws", headers=headers):
            pass
    with stranger.websocket_connect("ws://127.0.0.1:8080/ws", headers={"Origin": ADDRESS}):
        pass
    stranger.cookies.clear()
    with (
        pytest.raises(WebSocketDisconnect),
        stranger.websocket_connect("ws://127.0.0.1:8080/ws", headers={"Origin": ADDRESS}),
    ):
        pass


def test_floods_of_websockets_end(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "MAX_MESSAGES", 5)
    with client.websocket_connect("ws://127.0.0.1:8080/ws") as socket, pytest.raises(WebSocketDisconnect):  # noqa: PT012
        for _ in range(200):
            socket.send_text("flood")
            socket.receive_text()
    monkeypatch.setattr(guarding, "MAX_SOCKETS", 0)
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("ws://127.0.0.1:8080/ws"):
        pass


def test_large_bodies(client: Any) -> None:
    assert client.post("/api/check", content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    chunks = (b"x" * 65_536 for _ in range(20))  # without a length
    assert client.post("/api/check", content=chunks).status_code in (400, 413)
    assert client.get("/api/runs", headers={"Content-Length": "-5"}).status_code == 413


def test_two_hundred_hostile_requests(client: Any, stranger: Any, service: Service, tmp_path: Path) -> None:
    run = make_run(service.logdir)
    (tmp_path / "secret.txt").write_text("secret")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    identifier = client.get("/api/runs").json()[0]["id"]
    rng = random.Random(0)
    climbs = ("..", "%2e%2e", "..%2f..", "....//", "%252e%252e", "..\\..", "/etc", "\0", "%00")

    def hostile() -> Any:
        path = "/".join(rng.choices(climbs, k=rng.randint(1, 6))) + "/secret.txt"
        kind = rng.randrange(8)
        if kind == 0:
            return client.get(f"/api/runs/{identifier}/files/{path.replace(chr(0), '%00')}")
        if kind == 1:
            return client.get(f"/api/runs/{path.replace(chr(0), '%00')}")
        if kind == 2:
            return client.get("/api/runs", headers={"Host": f"{rng.random()}.example"})
        if kind == 3:
            return client.post("/api/runs", json={}, headers={"Origin": f"http://{rng.random()}.example"})
        if kind == 4:
            broken = rng.choice(["{", '{"algo":', "[1]", '"x"', "null", '{"algo": NaN}', "\xff", "[" * 2000])
            return client.post("/api/runs", content=broken, headers={"Content-Type": "application/json"})
        if kind == 5:
            return stranger.request(rng.choice(["GET", "POST", "DELETE"]), "/api/runs")
        if kind == 6:
            return stranger.get(
                "/api/runs", headers={"Authorization": rng.choice(["Bearer x", "Basic eDp4", "Bearer", ""])}
            )
        if kind == 7 and rng.random() < 0.3:
            nested: Any = {}
            for _ in range(rng.randint(30, 800)):
                nested = {"algo_params": nested}
            return client.post("/api/runs", json=nested)
        value = rng.choice(
            [
                "/etc/passwd",
                "~nobody_has_this_name/x",
                "../../secret.yaml",
                "x\0y/z",
                "~root/x",
                str(tmp_path / "secret.txt"),
            ]
        )
        key = rng.choice(["robot", "pretrained", "logdir"])
        return client.post("/api/runs", json={key: value})

    for _ in range(200):
        answer = hostile()
        assert 400 <= answer.status_code < 500, (answer.request.url, answer.status_code, answer.text)
        assert "secret" not in answer.text or "secret.txt" in str(answer.request.url) or answer.status_code == 422
        assert "Traceback" not in answer.text
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert service.jobs.queue.newest() == []
