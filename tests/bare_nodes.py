"""Containers that are given to faults without a Spark in them, labelled as those of a run are."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import docker
from docker.types import Mount

from streamproof.harness.worlds.docker import image
from streamproof.harness.worlds.docker.engine import connect
from streamproof.harness.worlds.docker.labels import RunLabels
from streamproof.harness.worlds.docker.reaping import remove_all
from streamproof.harness.worlds.embedded.reaping import this_process


class BareNodes:
    """Nodes that run one command each. A node that is started again is another container."""

    def __init__(self, client: docker.DockerClient, folder: Path) -> None:
        self.client = client
        self.run = f"test-{uuid.uuid4().hex[:12]}"
        self.labels = RunLabels(self.run, this_process(), folder / "scratch")
        self.image = image.require(client)
        self._containers: dict[str, str] = {}
        self._started = 0

    def start(self, node: str, command: Sequence[str], *mounts: Mount) -> str:
        """As the cluster starts its nodes: no privileges, 2 cores, 256 MiB. Returns the container."""
        self._started += 1
        made = self.client.api.create_container(
            self.image,
            list(command),
            name=f"streamproof-{self.run}-{node}-{self._started}",
            user=f"{os.geteuid()}:{os.getegid()}",
            labels=self.labels.of(node),
            host_config=self.client.api.create_host_config(
                init=True,
                mounts=list(mounts),
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                cpu_period=100_000,
                cpu_quota=200_000,
                mem_limit=256 << 20,
                memswap_limit=256 << 20,
            ),
        )
        container = self._containers[node] = str(made["Id"])
        self.client.api.start(container)
        return container

    def of(self, node: str) -> str:
        """Its present container."""
        return self._containers[node]

    def kill(self, node: str) -> None:
        self.client.api.kill(self.of(node), "SIGKILL")
        self.client.api.wait(self.of(node))

    def commands(self, node: str) -> list[str]:
        """What runs there."""
        return [str(process[-1]) for process in self.client.api.top(self.of(node))["Processes"]]


@contextmanager
def bare_nodes(folder: Path) -> Iterator[BareNodes]:
    client = connect()
    nodes = BareNodes(client, folder)
    try:
        yield nodes
    finally:
        remove_all(client, nodes.run)
        client.close()
