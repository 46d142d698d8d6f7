"""Nodes in containers without a Spark, for tests of what is done to nodes: they echo, and count datagrams."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import docker
from docker.models.containers import Container

from streamproof.harness.core.waiting import wait_until
from streamproof.harness.worlds.docker import image, labels
from streamproof.harness.worlds.docker.engine import connect
from streamproof.harness.worlds.docker.executing import run_in_shell
from streamproof.harness.worlds.docker.labels import RunLabels
from streamproof.harness.worlds.docker.network import make_network
from streamproof.harness.worlds.docker.packets import TRIALS, PacketCarrier
from streamproof.harness.worlds.docker.reaping import remove_all
from streamproof.harness.worlds.docker.sidecars import Sidecars
from streamproof.harness.worlds.embedded.reaping import this_process

_PORT = 7
_ECHO = f"""
import collections, json, socket, threading
def echo(peer):
    with peer:
        while data := peer.recv(65536):
            peer.sendall(data)
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.bind(("", {_PORT}))
def count():
    counts = collections.Counter()
    while True:
        said, sender = datagrams.recvfrom(64)
        if said == b"?":
            datagrams.sendto(json.dumps(counts).encode(), sender)
        counts[sender[0]] += 1
threading.Thread(target=count, daemon=True).start()
with socket.create_server(("", {_PORT}), backlog=64) as listener:
    while True:
        threading.Thread(target=echo, args=listener.accept()[:1], daemon=True).start()
"""


class PlainContainers:
    """Started as a cluster starts its nodes: on a network of the run's own, each with a sidecar."""

    def __init__(self, engine: docker.DockerClient, run: str, nodes: tuple[str, ...], scratch: Path) -> None:
        self.run = run
        self.engine = engine
        self.containers: dict[str, str] = {}
        self._nodes = nodes
        self._image = image.require(engine)
        self._labels = RunLabels(run, this_process(), scratch)
        self._network = make_network(engine, run, self._labels.of())
        self.packets = PacketCarrier(Sidecars(engine, self._image, self._labels), self.address, TRIALS)

    def address(self, node: str) -> str:
        return self._network.address(self._nodes.index(node))

    def start(self, *nodes: str) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._start, nodes))
        for node in nodes:
            wait_until(lambda node=node: self.connect(node, node) == "open", 20, f"{node} to listen")

    def _start(self, node: str) -> None:
        endpoint = self.engine.api.create_endpoint_config(ipv4_address=self.address(node))
        created = self.engine.api.create_container(
            self._image,
            ["python3", "-c", _ECHO],
            labels=self._labels.of(node),
            host_config=self.engine.api.create_host_config(init=True, cap_drop=["ALL"]),
            networking_config=self.engine.api.create_networking_config({str(self._network.network.name): endpoint}),
        )
        container = self.containers[node] = str(created["Id"])
        self.engine.api.start(container)
        self.packets.node_started(node, container)

    def kill(self, node: str) -> None:
        self.engine.api.kill(self.containers[node], "SIGKILL")
        self.engine.api.wait(self.containers[node])

    def sidecars(self) -> list[Container]:
        found = self.engine.containers.list(filters={"label": f"{labels.RUN}={self.run}"})
        return [one for one in found if labels.NODE not in one.labels]

    def in_sidecars(self, commands: str) -> dict[str, str]:
        """What shell commands print in the sidecar of each node."""
        beside = {one.attrs["HostConfig"]["NetworkMode"]: one for one in self.sidecars()}
        with ThreadPoolExecutor() as pool:
            said = pool.map(lambda at: self._said(beside[f"container:{at}"], commands), self.containers.values())
            return dict(zip(self.containers, said, strict=True))

    def _said(self, container: Container, commands: str) -> str:
        """What commands that only look print: again, where the engine has lost it."""
        return next(
            ended.said
            for ended in (run_in_shell(self.engine, str(container.id), f"{{ {commands}\n}} || true") for _ in range(3))
            if ended.is_all
        )

    @contextmanager
    def talking(self, sender: str, receiver: str) -> Iterator[Talk]:
        """A connection that is used all the time."""
        talk = Talk(self, sender, receiver)
        talk.await_line("talks")
        yield talk
        talk.end()

    def python(self, node: str, program: str) -> str:
        """What a program prints that runs in the node's container."""
        container = self.engine.containers.get(self.containers[node])
        status, said = container.exec_run(["python3", "-c", f"import os, socket, time\n{program}"])
        text = str(said.decode(errors="replace").strip())
        assert status == 0, text
        return text

    def connect(self, sender: str, receiver: str, seconds: float = 0.4) -> str:
        """What becomes of a connection: `open`, or the error's name."""
        return self.python(
            sender,
            f"try:\n    socket.create_connection(({self.address(receiver)!r}, {_PORT}), {seconds}).close()\n"
            "    print('open')\nexcept OSError as error:\n    print(type(error).__name__)",
        )

    def round_trips(self, sender: str, receiver: str, count: int = 10) -> list[float]:
        """Milliseconds that it takes until what was sent comes back, over one connection."""
        times: list[float] = json.loads(
            self.python(
                sender,
                f"times = []\nwith socket.create_connection(({self.address(receiver)!r}, {_PORT}), 5) as peer:\n"
                f"    for _ in range({count}):\n"
                "        began = time.perf_counter()\n        peer.sendall(b'x')\n        peer.recv(1)\n"
                "        times.append((time.perf_counter() - began) * 1e3)\nprint(times)",
            )
        )
        return times

    def transfer(self, sender: str, receiver: str, size: int) -> float:
        """Seconds that it takes until so many bytes, sent at once, have all come back."""
        return float(
            self.python(
                sender,
                "began = time.perf_counter()\nback = 0\n"
                f"with socket.create_connection(({self.address(receiver)!r}, {_PORT}), 5) as peer:\n"
                f"    peer.sendall(bytes({size}))\n    while back < {size}:\n        back += len(peer.recv(65536))\n"
                "print(time.perf_counter() - began)",
            )
        )

    def send_all(self, datagrams: int) -> dict[tuple[str, str], int]:
        """From every node to every other: how many of so many datagrams arrive."""
        return self._send({node: [other for other in self._nodes if other != node] for node in self._nodes}, datagrams)

    def send(self, sender: str, receiver: str, datagrams: int = 50) -> int:
        """How many of so many datagrams arrive."""
        return self._send({sender: [receiver]}, datagrams)[sender, receiver]

    def arrived(self, sender: str, receiver: str) -> int:
        """Datagrams, since both were started."""
        return self._arrived(receiver).get(self.address(sender), 0)

    def _send(self, receivers: Mapping[str, Sequence[str]], datagrams: int) -> dict[tuple[str, str], int]:
        pairs = [(sender, receiver) for sender, sent in receivers.items() for receiver in sent]
        counting = sorted({receiver for _, receiver in pairs})
        with ThreadPoolExecutor() as pool:
            before = dict(zip(counting, pool.map(self._arrived, counting), strict=True))
            list(pool.map(lambda sender: self._send_from(sender, receivers[sender], datagrams), receivers))
            after = dict(zip(counting, pool.map(self._arrived, counting), strict=True))
        addresses = {pair: self.address(pair[0]) for pair in pairs}
        return {pair: after[pair[1]].get(at, 0) - before[pair[1]].get(at, 0) for pair, at in addresses.items()}

    def _send_from(self, sender: str, receivers: Sequence[str], datagrams: int) -> None:
        self.python(
            sender,
            "to = socket.socket(type=socket.SOCK_DGRAM)\n"
            f"for _ in range({datagrams}):\n"
            f"    for address in {[self.address(receiver) for receiver in receivers]}:\n"
            f"        to.sendto(b'x', (address, {_PORT}))\n"
            "    time.sleep(0.0005)",
        )

    def _arrived(self, node: str) -> dict[str, int]:
        """Datagrams by their sender's address. The question queues up behind them."""
        counts: dict[str, int] = json.loads(
            self.python(
                node,
                "asking = socket.socket(type=socket.SOCK_DGRAM)\nasking.settimeout(5)\n"
                f"asking.sendto(b'?', ('127.0.0.1', {_PORT}))\nprint(asking.recv(4096).decode())",
            )
        )
        return counts


_TALK = """
import os, socket, sys, time
path = sys.argv[3]
def say(line):
    with open(path + ".new", "w") as file: file.write(line)
    os.rename(path + ".new", path)
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 5) as peer:
    try:
        while not os.path.exists(path + ".end"):
            peer.sendall(b"x")
            peer.recv(1)
            say("talks")
            time.sleep(0.01)
        say("goes on")
    except OSError as error:
        say(type(error).__name__)
"""


class Talk:
    """A program in the sender's container that sends to the receiver and waits for the echo, again and again."""

    def __init__(self, nodes: PlainContainers, sender: str, receiver: str) -> None:
        self._nodes = nodes
        self._sender = sender
        self._path = f"/tmp/talk-{secrets.token_hex(4)}"
        container = nodes.engine.containers.get(nodes.containers[sender])
        container.exec_run(["python3", "-c", _TALK, nodes.address(receiver), str(_PORT), self._path], detach=True)

    def await_line(self, *wanted: str) -> str:
        return wait_until(lambda: (line := self._line()) in wanted and line, 10, f"{wanted}", self._line)

    def end(self) -> str:
        """`goes on`, or the name of the error that has ended it."""
        self._nodes.python(self._sender, f"open('{self._path}.end', 'w').close()")
        return wait_until(lambda: (line := self._line()) not in ("", "talks") and line, 10, "its end", self._line)

    def _line(self) -> str:
        return self._nodes.python(
            self._sender, f"print(open('{self._path}').read() if os.path.exists('{self._path}') else '')"
        )


@contextmanager
def plain_containers(*nodes: str, scratch: Path) -> Iterator[PlainContainers]:
    """They run. None of them is left in the end."""
    with closing(connect(seconds=60)) as engine:
        run = f"plain-{secrets.token_hex(4)}"
        try:
            containers = PlainContainers(engine, run, nodes, scratch)
            containers.start(*nodes)
            yield containers
        finally:
            assert remove_all(engine, run).survivors == ()
