"""Whether containers are as they were, by what an engine answers. No engine is needed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from streamproof.harness.worlds.docker import cleanliness
from streamproof.harness.worlds.docker.cleanliness import StandingNode, container_changes, granted

FOUND: dict[str, Any] = {
    "Id": "sidecar",
    "State": {"Running": True, "Paused": False},
    # As the engine has it where the kernel does not account swap.
    "HostConfig": {"Memory": 1 << 30, "MemorySwap": -1, "CpuQuota": 200_000},
    "NetworkSettings": {"Networks": {"run": {"IPAddress": "10.0.0.2"}}},
}

END = b"all was said\n"


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> StandingNode:
    monkeypatch.setattr(cleanliness, "containers_of", lambda client, run: [])
    return StandingNode("node-0", "0123456789abcdef", "10.0.0.2", granted(FOUND), comes_back=False)


def engine(host: dict[str, Any] | None = None, said: tuple[bytes, bytes] = (END, b""), status: int = 0) -> Mock:
    client = MagicMock()
    client.api.inspect_container.return_value = {**FOUND, "HostConfig": host or FOUND["HostConfig"]}
    client.api.top.return_value = {"Processes": []}
    client.api.exec_start.return_value = said
    client.api.exec_inspect.return_value = {"ExitCode": status}
    return client


def test_limits_are_compared_with_what_the_engine_made_of_them_at_the_start(node: StandingNode) -> None:
    assert container_changes(engine(), "run", [node]).lasting == ()
    (found,) = container_changes(engine({**FOUND["HostConfig"], "Memory": 1 << 29}), "run", [node]).lasting
    assert "node-0 has other limits than at its start" in found


def test_rules_that_cannot_be_listed_are_not_taken_for_none(node: StandingNode) -> None:
    assert container_changes(engine(said=(END, b"# Warning: other tables present\n")), "run", [node]).lasting == ()
    (found,) = container_changes(engine(said=(b"", b"iptables-save: no such table\n"), status=1), "run", [node]).lasting
    assert found.endswith("looking failed with status 1 (iptables-save: no such table)")


def test_rules_of_which_the_engine_hands_nothing_over_are_listed_again_and_never_taken_for_none(
    node: StandingNode,
) -> None:
    client = engine()
    client.api.exec_start.side_effect = [(None, None), (b"-A INPUT -j DROP\n" + END, None)]
    (found,) = container_changes(client, "run", [node]).lasting
    assert "-A INPUT -j DROP" in found
    (found,) = container_changes(engine(said=(b"", b"")), "run", [node]).lasting
    assert found.endswith("since the engine has lost 3 times what a look printed")


@pytest.mark.parametrize(("state", "passes"), [("created", True), ("exited", False)])
def test_a_sidecar_that_is_not_up_yet_is_waited_for_and_one_that_ended_is_not(
    state: str, passes: bool, node: StandingNode
) -> None:
    def inspect(name: str) -> dict[str, Any]:
        return {**FOUND, "State": {"Running": False, "Status": state}} if "sidecar" in name else FOUND

    client = engine()
    client.api.inspect_container.side_effect = inspect
    found = container_changes(client, "run", [node])
    assert (found.passing if passes else found.lasting) == (f"the sidecar of node-0 is {state}",)
    assert (found.lasting if passes else found.passing) == ()
    client.api.exec_create.assert_not_called()


@pytest.mark.parametrize(
    ("rules", "queues", "status", "said"),
    [
        ("echo '*filter'; echo ':INPUT ACCEPT'", "echo 'qdisc noqueue 0: dev eth0 root'", 0, ""),
        ("echo '-A INPUT -j DROP'", "true", 0, "-A INPUT -j DROP\n-A INPUT -j DROP\n"),
        ("true", "echo 'qdisc htb 1: dev eth0 root'", 0, "qdisc htb 1: dev eth0 root\n"),
        ("test $2 = mangle", "true", 1, ""),
        ("test $2 = filter", "true", 1, ""),
        ("true", "exit 2", 2, ""),
    ],
)
def test_what_lists_rules_fails_where_one_part_of_it_does(
    rules: str, queues: str, status: int, said: str, tmp_path: Path
) -> None:
    for name, body in (("iptables-save", rules), ("tc", queues)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    found = subprocess.run(
        ["/bin/sh", "-ec", cleanliness._LIST_RULES],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert (found.returncode, found.stdout) == (status, said)
