"""`mygym serve` refuses a port that is in use."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mygym.cli.main import main


def test_port_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        with pytest.raises(SystemExit) as end:
            main(["serve", str(tmp_path), "--port", str(port)])
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: --port: {port} cannot be used (Address already in use)")
    assert list(tmp_path.iterdir()) == []
