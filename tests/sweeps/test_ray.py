"""The executor on Ray: bad input, and a cluster of simulated nodes that loses a node."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from mygym.errors import ConfigError
from mygym.sweeps.executors import Execution, Job, RayExecutor


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"--executor ray needs the package 'ray': pip install \"mygym\[cluster\]\""):
        RayExecutor()


def test_an_address_without_a_cluster_is_refused() -> None:
    pytest.importorskip("ray", reason="needs Ray (the extra `cluster`)")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        for address in (f"127.0.0.1:{unused.getsockname()[1]}", "nowhere"):
            with pytest.raises(ConfigError, match=f"--address: '{address}' has no cluster"):
                RayExecutor(address)
    with pytest.raises(ConfigError, match=r"--resource: \{'num_cpu': 1\}"):
        RayExecutor(resources={"num_cpu": 1})


def test_a_machine_without_the_folder_of_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no folder"):
        Execution(Job(tuple, tmp_path / "missing/log"), str(tmp_path))()


@pytest.mark.slow
def test_a_cluster_that_loses_a_node_has_the_same_weights(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs Ray (the extra `cluster`)")
    from benchmarks.ray_cluster import compare

    rows = compare(tmp_path, 4096)
    assert [row["state"] for row in rows] == ["complete"] * 6
    assert [row["node killed"] for row in rows].count("yes") == 1
    assert next(row for row in rows if row["node killed"])["continued from"]
    assert {row["same weights"] for row in rows} == {"yes"}
