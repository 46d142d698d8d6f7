"""The one way to talk to a toxiproxy: through toxiproxy-python, with what that lacks.

Its classes for proxies and toxics keep one server's host and port for the whole process, wait for ever, and cannot tell
which toxics are left; so what is used of it is the client below them, a class of its own for each server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from requests.exceptions import RequestException
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from ....core.errors import OwnFailure, Unsupported
from ....core.quantities import Duration
from ....core.wire import Endpoint

Stream = Literal["upstream", "downstream"]
"""Towards the server that is dialled, or back to the one that dials."""


@dataclass(frozen=True)
class Toxic:
    """What a proxy does to what passes in one direction."""

    type: str
    """In toxiproxy's words, as are the attributes."""
    attributes: tuple[tuple[str, int], ...]
    least: Duration = Duration(0)
    """How long at least it holds up what it is for."""
    rate: int | None = None
    """How many bytes/s at most it lets pass."""


def latency(by: Duration, jitter: Duration | None = None) -> Toxic:
    """Everything takes so much longer, give or take up to `jitter`; both are rounded up to whole milliseconds."""
    more, jitters = _millis(by), 0 if jitter is None else _millis(jitter)
    least = Duration(max(0, more - jitters) * 1000)
    return Toxic("latency", (("latency", more), ("jitter", jitters)), least)


def bandwidth_toxic(rate: int) -> Toxic:
    """At most so many bytes/s pass, rounded down to whole thousands. Raises Unsupported for less than one of them."""
    if rate < 1000:
        raise Unsupported(f"toxiproxy counts in thousands of bytes/s: it cannot let only {rate} bytes/s pass")
    return Toxic("bandwidth", (("rate", rate // 1000),), rate=rate // 1000 * 1000)


def slow_close_toxic(by: Duration) -> Toxic:
    """That one end has closed its connection is heard so much later, rounded up to whole milliseconds."""
    return Toxic("slow_close", (("delay", _millis(by)),), Duration(_millis(by) * 1000))


def _millis(duration: Duration) -> int:
    return -(-duration.micros // 1000)


class Toxiproxy:
    """A toxiproxy server. Every method raises OwnFailure when it does not answer in time, or not as it should."""

    def __init__(self, place: Endpoint, seconds: float = 5.0) -> None:
        host, port = place
        self.host = host
        self._api: Any = type("_Api", (APIConsumer,), {"host": host, "port": port})
        self._seconds = seconds

    def version(self) -> str:
        return str(self._ask("get", "/version").text).strip()

    def make(self, name: str, upstream: Endpoint) -> Endpoint:
        """A proxy that leads there, and where it listens."""
        host, port = upstream
        asked = {"name": name, "listen": f"{self.host}:0", "upstream": f"{host}:{port}", "enabled": True}
        listens, _, at = str(self._ask("post", "/proxies", json=asked).json()["listen"]).rpartition(":")
        return listens, int(at)

    def add(self, proxy: str, name: str, toxic: Toxic, stream: Stream) -> None:
        asked = {"name": name, "type": toxic.type, "stream": stream, "attributes": dict(toxic.attributes)}
        self._ask("post", f"/proxies/{proxy}/toxics", json={**asked, "toxicity": 1.0})

    def toxics(self, proxy: str) -> tuple[str, ...]:
        """The names of those that are in force."""
        return tuple(str(toxic["name"]) for toxic in self._ask("get", f"/proxies/{proxy}/toxics").json())

    def remove(self, proxy: str, name: str) -> None:
        """What it holds back is passed on at once. Whoever reads from the proxy must go on: what cannot be passed on
        within 5 s is thrown away."""
        self._ask("delete", f"/proxies/{proxy}/toxics/{name}")

    def _ask(self, method: str, path: str, **given: Any) -> Any:
        try:
            answer = getattr(self._api, method)(path, timeout=self._seconds, **given)
        except (ProxyExists, NotFound, InvalidToxic) as error:
            raise OwnFailure(f"toxiproxy refused {method} {path} {given or ''}: {error}") from error
        except RequestException as error:
            raise OwnFailure(f"toxiproxy at {self._api.host}:{self._api.port} does not answer: {error}") from error
        if not answer.ok:
            raise OwnFailure(f"toxiproxy failed at {method} {path}: {answer.status_code} {answer.text.strip()}")
        return answer
