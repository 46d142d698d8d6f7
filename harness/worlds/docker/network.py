"""The network of a run: its own, without a way out, with addresses that are known before anything starts."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from zlib import crc32

import docker
from docker.errors import APIError
from docker.models.networks import Network
from docker.types import IPAMConfig, IPAMPool

from ...core.errors import MissingTool, Unsupported

_POOL = IPv4Network("10.201.0.0/16")
"""Where runs take their networks from, 256 addresses each."""
_PREFIX = 24
_FIRST = 10
"""The place of the first node in a network; the gateway, which is the harness's end, has the first address."""


@dataclass(frozen=True)
class RunNetwork:
    network: Network
    subnet: IPv4Network

    @property
    def gateway(self) -> str:
        """This machine's own address there."""
        return str(self.subnet[1])

    def address(self, number: int) -> str:
        """Of the node with this number."""
        return str(self.subnet[_FIRST + number])


def make_network(client: docker.DockerClient, run: str, labels: Mapping[str, str]) -> RunNetwork:
    """Raises MissingTool when no addresses are free, Unsupported when the engine's networks are not on this machine."""
    taken = list(_routes())
    for subnet in _candidates(run):
        if any(subnet.overlaps(other) for other in taken):
            continue
        pool = IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))])
        try:
            network = client.networks.create(
                f"streamproof-{run}",
                driver="bridge",
                internal=True,
                ipam=pool,
                labels=dict(labels),
            )
        except APIError as error:
            if "overlap" in str(error.explanation).lower():
                continue  # Another run has just taken it.
            raise
        made = RunNetwork(network, subnet)
        _require_reachable(made)
        return made
    raise MissingTool(f"no network of {1 << (32 - _PREFIX)} addresses is free in {_POOL}: `streamproof reap`")


def _candidates(run: str) -> Iterator[IPv4Network]:
    """From a place of the run's own onwards, so that runs side by side seldom want the same."""
    subnets = list(_POOL.subnets(new_prefix=_PREFIX))
    first = crc32(run.encode()) % len(subnets)
    yield from (*subnets[first:], *subnets[:first])


def _routes() -> Iterator[IPv4Network]:
    """The networks that this machine has a route to, the default one aside."""
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        fields = line.split()
        target, mask = (struct.pack("<I", int(fields[place], 16)) for place in (1, 7))
        if any(mask):
            yield IPv4Network((target, socket.inet_ntoa(mask)), strict=False)


def _require_reachable(made: RunNetwork) -> None:
    """Only on the machine where the engine runs can its gateway be listened on."""
    try:
        with socket.socket() as probe:
            probe.bind((made.gateway, 0))
    except OSError as error:
        raise Unsupported(
            f"the engine's network {made.subnet} is not on this machine ({error.strerror}): the engine runs on another "
            "one, or in a virtual machine, where containers cannot reach the harness"
        ) from error
