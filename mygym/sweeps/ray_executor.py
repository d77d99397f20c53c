"""Executor on a Ray cluster: each run is a task with resources, repeated on another node if its node is lost."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from typing import Any

from mygym.errors import ConfigError, RunError, bad_value
from mygym.sweeps.executors import Job
from mygym.sweeps.remote import Execution

RETRIES = 20
"""Number of lost nodes or processes after which a run has failed."""

PATIENCE = 5.0
"""s in which the address of a cluster must accept a connection."""


class RayExecutor:
    """Executes each run as a task of a Ray cluster.

    Args:
        address: Address of the cluster, e.g. `auto` or `10.0.0.1:6379`.
        workers: Largest number of runs at the same time; None: as many as the nodes have resources for.
        resources: Resources of a run, options of Ray's tasks, e.g. `num_gpus`; one CPU by default.

    Raises:
        ConfigError: Ray is missing, the address has no cluster, or a resource is unknown.
    """

    def __init__(
        self, address: str = "auto", workers: int | None = None, resources: Mapping[str, Any] | None = None
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise ConfigError("--executor ray needs the package 'ray': pip install \"mygym[cluster]\"") from error
        self._ray: Any = ray
        self._chosen = workers
        self.workers = workers or 1
        self._options = {"num_cpus": 1, "max_retries": RETRIES, "scheduling_strategy": "SPREAD", **(resources or {})}
        try:
            self._task: Any = ray.remote(_execute)
            self._task.options(**self._options)
        except (ValueError, TypeError) as error:
            raise ConfigError(bad_value("--resource", dict(resources or {}), "options of Ray's tasks")) from error
        _connect(address)

    def limit(self, memory: int) -> None:
        """Limit the workers to those that fit into the nodes of the cluster.

        Raises:
            ConfigError: No node has the resources of a run.
        """
        cpus = float(self._options["num_cpus"])
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        fitting = sum(int(min(node.get("CPU", 0) // cpus, node.get("memory", 0) // memory)) for node in nodes)
        if fitting < 1:
            largest = max((node.get("memory", 0) for node in nodes), default=0)
            why = f"needs a node with {cpus:g} free CPUs and {memory / 1e9:.1f} GB of memory"
            allowed = f"{len(nodes)} nodes with at most {largest / 1e9:.1f} GB"
            raise ConfigError(bad_value("--executor", "ray", allowed, why))
        self.workers = self._chosen or fitting

    def submit(self, job: Job) -> Any:
        """Submit the task of a run; return its reference."""
        return self._task.options(**self._options, memory=job.memory).remote(Execution(job, os.getcwd()))  # noqa: PTH109 (a string)

    def poll(self, handle: Any) -> int | None:
        """Return the exit code of a run; None while it waits or is executing.

        Raises:
            RunError: A node has no access to the folder of the sweep, or the connection to the cluster is lost.
        """
        ready, _ = self._ray.wait([handle], timeout=0)
        if not ready:
            return None
        try:
            return int(self._ray.get(handle))
        except self._ray.exceptions.TaskCancelledError:
            return 130
        except self._ray.exceptions.RayTaskError as error:
            raise RunError(f"{error.cause}: run directories must be on storage that all nodes share") from error
        except self._ray.exceptions.RayError:  # the last of its nodes is lost
            return 1

    def stop(self, handle: Any) -> None:
        """Cancel the task of a run, which stops its process with a checkpoint."""
        self._ray.cancel(handle)


def _execute(execution: Execution) -> int:
    return execution()


def _connect(address: str) -> None:
    """Connect to a cluster.

    Raises:
        ConfigError: The address has no cluster.
    """
    import ray

    allowed = "the address of a cluster that `ray start --head` has printed, or auto on one of its machines"
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address != "auto":
        try:
            socket.create_connection((host, int(port)), PATIENCE).close()
        except (OSError, ValueError, OverflowError) as error:
            raise ConfigError(bad_value("--address", address, allowed, "has no cluster")) from error
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(bad_value("--address", address, allowed, "has no cluster")) from error
