"""What the user's code has Spark's JVM do by py4j that goes on beside Spark, or leads out of it: programs, threads and
connections. Of what the JVM does by itself, nobody tells; by which class or method it is asked for, the call says."""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Final

_PROCESS, _THREAD, _CONNECTION = "process", "thread", "connection"
_MADE: Final[Mapping[str, str]] = {
    "java.lang.ProcessBuilder": _PROCESS,
    "java.lang.Thread": _THREAD,
    "java.util.Timer": _THREAD,
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


def done_in_the_jvm(callee: FrameType) -> tuple[str, str] | None:
    """Of a function of py4j's that is being called, the kind of effect and its name; None of most."""
    called = callee.f_code.co_qualname
    asked = callee.f_locals.get("self")
    if called == "JavaClass.__call__":
        name = str(getattr(asked, "_fqn", ""))
        return (_MADE[name], name) if name in _MADE else None
    if called != "JavaMember.__call__":
        return None
    method, target = str(getattr(asked, "name", "")), str(getattr(asked, "target_id", ""))
    if method in _BY_NAME:
        given = [one for one in callee.f_locals.get("args", ()) if isinstance(one, str)]
        return next(((_NAMED[name], name) for name in given if name in _NAMED), None)
    if not target.startswith(_STATIC):
        return (_OF_OBJECTS[method], method) if method in _OF_OBJECTS else None
    name = f"{target.removeprefix(_STATIC)}.{method}"
    kind = _THREAD if name.startswith(_POOLS) else _OF_CLASSES.get(name)
    return None if kind is None else (kind, name)
