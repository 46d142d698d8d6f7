"""What the user's code has Spark's JVM do by py4j that goes on beside Spark, or leads out of it: programs, threads and
connections. Of what the JVM does by itself, nobody tells; by which class or method it is asked for, the call says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .standing_in import tell_of
from .whose import OURS

ASKED: Final = f"{OURS}.asked-the-jvm"

_PROCESS, _THREAD, _CONNECTION = "process", "thread", "connection"
_MADE: Final[Mapping[str, str]] = {
    "java.lang.ProcessBuilder": _PROCESS,
    "java.lang.Thread": _THREAD,
    "java.util.Timer": _THREAD,
    "org.apache.hadoop.util.Shell$ShellCommandExecutor": _PROCESS,
    "org.apache.spark.rdd.PipedRDD": _PROCESS,
    "java.util.concurrent.ForkJoinPool": _THREAD,
    "java.util.concurrent.ScheduledThreadPoolExecutor": _THREAD,
    "java.util.concurrent.ThreadPoolExecutor": _THREAD,
    "java.net.DatagramSocket": _CONNECTION,
    "java.net.Socket": _CONNECTION,
}
"""By the class of which an object is made."""
_OF_CLASSES: Final[Mapping[str, str]] = {
    "java.lang.ProcessBuilder.startPipeline": _PROCESS,
    "java.lang.Thread.startVirtualThread": _THREAD,
    "java.util.concurrent.CompletableFuture.runAsync": _THREAD,
    "java.util.concurrent.CompletableFuture.supplyAsync": _THREAD,
    "java.net.http.HttpClient.newBuilder": _CONNECTION,
    "java.net.http.HttpClient.newHttpClient": _CONNECTION,
    "java.nio.channels.AsynchronousSocketChannel.open": _CONNECTION,
    "java.nio.channels.DatagramChannel.open": _CONNECTION,
    "java.nio.channels.SocketChannel.open": _CONNECTION,
    "org.apache.hadoop.util.Shell.execCommand": _PROCESS,
    "org.apache.spark.util.Utils.executeAndGetOutput": _PROCESS,
    "org.apache.spark.util.Utils.executeCommand": _PROCESS,
    "scala.sys.process.Process.apply": _PROCESS,
    "scala.sys.process.package.stringSeqToProcess": _PROCESS,
    "scala.sys.process.package.stringToProcess": _PROCESS,
}
"""By the method of a class that is called."""
_POOLS: Final = "java.util.concurrent.Executors."
_OF_OBJECTS: Final[Mapping[str, str]] = {
    "exec": _PROCESS,
    "countAsync": _THREAD,
    "collectAsync": _THREAD,
    "foreachAsync": _THREAD,
    "foreachPartitionAsync": _THREAD,
    "takeAsync": _THREAD,
    "createSocket": _CONNECTION,
    "openConnection": _CONNECTION,
    "openStream": _CONNECTION,
    "pipe": _PROCESS,
}
"""By the method of an object that is called, of which the call does not say what it is: of a `Runtime`, an RDD, a
factory of sockets, a URL."""
_BY_NAME: Final = frozenset({"forName", "loadClass", "findClass", "getMethod", "getDeclaredMethod"})
"""Methods by which a class, or a method of one, is asked for by its name: what is made of it, no call says."""
_NAMED: Final[Mapping[str, str]] = {
    **_MADE,
    **_OF_OBJECTS,
    **{name.rpartition(".")[0]: kind for name, kind in _OF_CLASSES.items()},
    _POOLS.rstrip("."): _THREAD,
}
"""By that name."""
_STATIC: Final = "z:"
"""Begins what py4j calls a class whose method is called."""
_MODULE: Final = "MODULE$"
"""The one object of a class of Scala's whose name ends in `$`, by which its methods are asked for."""


def tell_of_asking_the_jvm() -> None:
    """py4j says nothing of what it is asked for."""
    from py4j.java_gateway import JavaClass, JavaMember

    for kind, name in ((JavaClass, "__call__"), (JavaClass, "__getattr__"), (JavaMember, "__call__")):
        tell_of(kind, name, ASKED)


def done_in_the_jvm(asked: object, given: Sequence[Any]) -> tuple[str, str] | None:
    """Of a class or member of py4j's that is called, or of which something is wanted by its name, the kind of effect
    and its name; None of most."""
    if "_fqn" in vars(asked):
        # A class; and what it gives by a name, it makes of that.
        name = str(vars(asked)["_fqn"])
        if given == (_MODULE,):
            name = name.removesuffix("$")
            return (_NAMED[name], name) if name in _NAMED else None
        return (_MADE[name], name) if name in _MADE else None
    method, target = str(getattr(asked, "name", "")), str(getattr(asked, "target_id", ""))
    if method in _BY_NAME:
        names = [one for one in given if isinstance(one, str)]
        return next(((_NAMED[name], name) for name in names if name in _NAMED), None)
    if not target.startswith(_STATIC):
        return (_OF_OBJECTS[method], method) if method in _OF_OBJECTS else None
    name = f"{target.removeprefix(_STATIC)}.{method}"
    kind = _THREAD if name.startswith(_POOLS) else _OF_CLASSES.get(name)
    return None if kind is None else (kind, name)
