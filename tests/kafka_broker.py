"""A real Kafka of a test's own: one broker on loopback, from Maven's packages."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamproof.harness.core.waiting import wait_until
from streamproof.harness.install.machine import find_java, find_spark
from streamproof.harness.install.packages import packages_cache, resolve

BROKER = "org.apache.kafka:kafka_2.13:4.1.0"
START_SECONDS = 60.0


@contextmanager
def kafka_broker() -> Iterator[int]:
    """Gives the port. Raises MissingTool where it cannot be fetched."""
    folder = Path(tempfile.mkdtemp(prefix="streamproof-kafka-"))
    try:
        java, spark = find_java(), find_spark()
        jars = resolve({"spark.jars.packages": BROKER}, folder, java, spark, cache=packages_cache({}))
        # Which Spark does not fetch, since it has it.
        jars += sorted((spark.home / "jars").glob("scala-*.jar"))
        port, controller = _free_port(), _free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
        }
        properties = folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        # Gone with this process, however that ends.
        tied = ["setpriv", "--pdeathsig=KILL"] if shutil.which("setpriv") else []
        run = [*tied, str(java.home / "bin" / "java"), "-Xmx300m", "-cp", os.pathsep.join(map(str, jars))]
        name = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        formatted = subprocess.run(
            [*run, "kafka.tools.StorageTool", "format", "-t", name, "-c", str(properties)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert formatted.returncode == 0, formatted.stdout + formatted.stderr
        with (folder / "log").open("wb") as log:
            broker = subprocess.Popen([*run, "kafka.Kafka", str(properties)], cwd=folder, stdout=log, stderr=log)
        try:
            wait_until(lambda: _listens(port), START_SECONDS, "Kafka to listen", (folder / "log").read_text)
            yield port
        finally:
            broker.send_signal(signal.SIGKILL)
            broker.wait(30)
    finally:
        shutil.rmtree(folder)


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
