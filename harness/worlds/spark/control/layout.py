"""How the JVMs of a cluster are started, wherever they run: the same command lines, settings and files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ....install.machine import Spark
from ....install.settings import as_properties

MASTER_CLASS: Final = "org.apache.spark.deploy.master.Master"
WORKER_CLASS: Final = "org.apache.spark.deploy.worker.Worker"

# What starts fastest: no optimizing compiler, no collector threads, no files in /tmp/hsperfdata.
QUICK_JVM: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    # Hadoop asks a process for every link that a file could be: four for each file that gets its name.
    "-Djdk.lang.Process.launchMechanism=VFORK",
)


@dataclass(frozen=True)
class Layout:
    """Where things are for the processes of a run, as they see it themselves."""

    java_home: Path
    spark: Spark
    classpath: str
    python: str
    jvm_options: tuple[str, ...]
    scratch: Path
    """The run's: settings, and what Spark keeps that must outlive a process."""
    tmp: Path

    @property
    def log4j2(self) -> Path:
        return self.scratch / "conf" / "log4j2.properties"

    @property
    def daemon_properties(self) -> Path:
        return self.scratch / "conf" / "daemons.properties"

    def daemon(self, main: str, host: str, *arguments: str) -> list[str]:
        """The command line of a master or a worker that listens on `host`."""
        return [
            str(self.java_home / "bin" / "java"),
            "-Xmx256m",
            *self.jvm_options,
            f"-Dlog4j2.configurationFile={self.log4j2.as_uri()}",
            f"-Djava.io.tmpdir={self.tmp}",
            "-cp",
            self.classpath,
            main,
            "--host",
            host,
            "--webui-port",
            "0",
            "--properties-file",
            str(self.daemon_properties),
            *arguments,
        ]

    def driver(self, module: str, arguments: Sequence[str]) -> list[str]:
        return [self.python, "-m", module, *arguments]

    def private_settings(self, secret: str) -> dict[str, str]:
        """What depends on this run's folder and secret; not worth recording."""
        options = " ".join(
            [
                *(shlex.quote(option) for option in self.jvm_options),
                f"-Dlog4j2.configurationFile={self.log4j2.as_uri()}",
                shlex.quote(f"-Djava.io.tmpdir={self.tmp}"),
            ]
        )
        return {
            # Not extraJavaOptions: those are the user's, and a fault injector's.
            "spark.driver.defaultJavaOptions": options,
            "spark.executor.defaultJavaOptions": options,
            "spark.sql.warehouse.dir": str(self.scratch / "warehouse"),
            # Without it anyone who reaches the master could run code through it.
            "spark.authenticate": "true",
            "spark.authenticate.secret": secret,
        }

    def daemon_settings(self, settings: Mapping[str, str]) -> str:
        """The properties of master and workers."""
        daemons_only = {
            "spark.master.rest.enabled": "false",
            "spark.ui.killEnabled": "false",
            # A master that comes back must know its workers and applications, or their executors end themselves.
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(self.scratch / "recovery"),
            # The others know it by its port: where that is taken for the moment, it must end, and be started once more.
            "spark.port.maxRetries": "0",
        }
        return as_properties({**settings, **daemons_only})

    def environment(self, address: str, local: Path, import_path: str) -> dict[str, str]:
        """What Spark and Python are told; `local` is for Spark's shuffle files and the like."""
        return {
            "JAVA_HOME": str(self.java_home),
            "SPARK_HOME": str(self.spark.home),
            "SPARK_SCALA_VERSION": self.spark.scala,
            "SPARK_LOCAL_IP": address,
            "SPARK_LOCAL_DIRS": str(local),
            "PYSPARK_PYTHON": self.python,
            "PYSPARK_DRIVER_PYTHON": self.python,
            "PYTHONPATH": import_path,
            "TMPDIR": str(self.tmp),
        }

    def submit(self, master: str, properties: Path) -> dict[str, str]:
        """Makes the first session or context of a driver a client of that master."""
        arguments = f"--master {master} --properties-file {shlex.quote(str(properties))} pyspark-shell"
        # What a driver prints must be in its log when it is killed.
        return {"PYSPARK_SUBMIT_ARGS": arguments, "PYTHONUNBUFFERED": "1"}
