"""`mygym serve`: a port that is in use, and a log directory that is missing."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path

import pytest

from mygym.cli.main import main
from tests.dashboard.servers import server


def test_port_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        with pytest.raises(SystemExit) as end:
            main(["serve", str(tmp_path), "--port", str(port)])
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: --port: {port} cannot be used (Address already in use)")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_missing_is_served_and_appears(tmp_path: Path) -> None:
    pytest.importorskip("nicegui", reason="the extra dashboard is not installed")
    (tmp_path / "run").mkdir()
    with server(tmp_path / "runs") as served:
        assert "did you mean 'run'?" in served.note
        assert (tmp_path / "runs").is_dir()
        assert served.call("/api/runs") == []
        request = urllib.request.Request(f"{served.address}/", headers={"Authorization": f"Bearer {served.token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert b"has no runs yet" in answer.read()
