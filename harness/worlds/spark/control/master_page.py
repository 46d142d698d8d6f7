"""What a Spark master says of its workers and applications, on the page that it has for machines."""

from __future__ import annotations

import http.client
import re
from typing import Final

import msgspec

from ....core.errors import OwnFailure

_SECONDS: Final = 5.0
_PAGE: Final = re.compile(r"Successfully started service 'MasterUI' on port (\d+)")


class Application(msgspec.Struct, frozen=True):
    id: str
    name: str


class Worker(msgspec.Struct, frozen=True):
    host: str
    port: int
    state: str
    """ALIVE, or why it is not."""
    coresused: int
    memoryused: int


class MasterPage(msgspec.Struct, frozen=True):
    status: str
    """ALIVE, STANDBY, RECOVERING, COMPLETING_RECOVERY."""
    workers: tuple[Worker, ...]
    """Those that are gone stay listed for a while."""
    activeapps: tuple[Application, ...]
    """Those that run, and those that wait for workers."""


def read_master_page(host: str, log: str) -> MasterPage:
    """Of the master on `host` that has written `log`. Raises OwnFailure when it does not answer."""
    ports = _PAGE.findall(log)
    if not ports:
        raise OwnFailure("the master's log names no port for its page")
    connection = http.client.HTTPConnection(host, int(ports[-1]), timeout=_SECONDS)
    try:
        connection.request("GET", "/json/")
        return msgspec.json.decode(connection.getresponse().read(), type=MasterPage)
    except (OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
        raise OwnFailure(f"the master's page at {host}:{ports[-1]} cannot be read: {error}") from error
    finally:
        connection.close()


def not_idle(page: MasterPage, workers: int) -> list[str]:
    """Why the next run would not find this master as the first one did: every worker there, and nothing that runs."""
    alive = [worker for worker in page.workers if worker.state == "ALIVE"]
    left = [f"application {one.id} ({one.name}) has not ended" for one in page.activeapps]
    left += [f"worker {w.host}:{w.port} has an executor" for w in alive if w.coresused or w.memoryused]
    if page.status != "ALIVE":
        left.append(f"the master is {page.status}")
    if len(alive) != workers:
        left.append(f"{len(alive)} of {workers} workers are registered")
    return left
