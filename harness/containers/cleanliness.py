"""Whether the containers of a cluster are, after a run, as they were before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import APIError

from .reaping import containers_of

_EXECUTORS = ("org.apache.spark.executor.", "pyspark.daemon", "pyspark.worker")
"""In the command line of what an application leaves on a worker while it runs."""


@dataclass(frozen=True)
class Standing:
    """A node that stays between runs, and what it was given."""

    name: str
    container: str
    address: str
    memory: int
    """Bytes."""
    nano_cpus: int


def changes(client: docker.DockerClient, run: str, nodes: Sequence[Standing]) -> list[str]:
    """What is not as it was, in words. Raises the engine's own errors."""
    stay = {node.container for node in nodes}
    more = [one for one in containers_of(client, run) if one.id not in stay]
    return [
        *(f"container {one.name} is still there" for one in more),
        *(f"{node.name} {change}" for node in nodes for change in _changes(client, node)),
    ]


def _changes(client: docker.DockerClient, node: Standing) -> Iterator[str]:
    try:
        found: dict[str, Any] = client.api.inspect_container(node.container)
        if not found["State"]["Running"]:
            yield "does not run"
            return
        if found["State"]["Paused"]:
            yield "is paused"
            return
        # Of a paused container this would wait until it goes on.
        processes = client.api.top(node.container)["Processes"]
    except APIError as error:
        if error.status_code not in (404, 409):
            raise
        yield "has ended"
        return
    given, host = (node.memory, node.memory, node.nano_cpus), found["HostConfig"]
    limits = host["Memory"], host["MemorySwap"], host["NanoCpus"]
    if limits != given or host["CpuQuota"]:
        yield f"has other limits: {limits} (quota {host['CpuQuota']}), not {given}"
    addresses = [network["IPAddress"] for network in found["NetworkSettings"]["Networks"].values()]
    if addresses != [node.address]:
        yield f"is at {', '.join(addresses) or 'no address'}, not {node.address}"
    if any(sign in process[-1] for process in processes for sign in _EXECUTORS):
        yield "runs an executor still"
