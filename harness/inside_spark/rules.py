"""The script with which Byteman makes Spark's threads tell the harness where they are, and wait for its answer.

One script for driver and executors. A thread that comes to a point sends one line and reads one byte, over a connection
that no other thread uses meanwhile. End of file, and a harness that cannot be reached, let it go on as well, so that
Spark never fails of being watched. The line: token, node, incarnation, process id, side, point, key; spaces between
them, and the key is the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..addresses import Point, Side
from ..errors import InvalidScenario
from ..wire import Place
from .versions import Hook, SparkVersion

CONNECT_MS = 10_000
"""How long a thread tries to reach a harness that does not refuse and does not answer either."""


def script(
    version: SparkVersion,
    place: Place,
    token: str,
    node: str,
    incarnation: int,
    points: Collection[Point] | None = None,
    own: Sequence[Hook] = (),
) -> str:
    """The rules for `points`, or for all that are known, and for `own` hooks. It holds the token: keep it private.

    Raises InvalidScenario for a token, node or host that a line cannot carry, or a point that is not inside Spark.
    """
    for text in (token, node, place[0]):
        if not text or not all(character.isalnum() or character in "-_.:" for character in text):
            raise InvalidScenario(f"{text!r} cannot be announced: letters, digits, '-', '_', '.' and ':' can")
    known = {hook.point for hook in version.hooks}
    wanted = known if points is None else set(points)
    if unknown := sorted(wanted - known):
        raise InvalidScenario(f"{unknown[0].value!r} is no point inside Spark; there are: {', '.join(sorted(known))}")
    rules = [_start(version, place, f"{token} {node} {incarnation}")]
    for hook in version.hooks:
        if hook.point in wanted:
            rules.extend(_rules(hook, str(hook.point)))
    for number, hook in enumerate(own):
        rules.extend(_rules(hook, f"{hook.point} {number}"))
    return "\n".join(rules)


# What a rule raises would fail Spark, and rules have no `try`: so what can fail is put together once, when a JVM of
# Spark starts, from method handles, which can catch. Both give the socket on which the answer came, or null.
_START = """\
RULE start
CLASS {start[0]}
METHOD {start[1]}
AT ENTRY
BIND
  lookup:java.lang.invoke.MethodHandles$Lookup = java.lang.invoke.MethodHandles.publicLookup();
  none:Class = java.lang.Void.TYPE;
  bytes:Class = Class.forName("[B");
  socket:Class = Class.forName("java.net.Socket");
  address:Class = Class.forName("java.net.SocketAddress");
  output:Class = Class.forName("java.io.OutputStream");
  input:Class = Class.forName("java.io.InputStream");
  data:Class = Class.forName("java.io.DataInputStream");
  problem:Class = Class.forName("java.lang.Throwable");
  connect:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.insertArguments(
    lookup.findVirtual(socket, "connect",
      java.lang.invoke.MethodType.methodType(none, address, new Class[] {{ java.lang.Integer.TYPE }})),
    1, new Object[] {{ new java.net.InetSocketAddress("{host}", {port}), {connect_ms} }});
  quick:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.insertArguments(
    lookup.findVirtual(socket, "setTcpNoDelay", java.lang.invoke.MethodType.methodType(none, java.lang.Boolean.TYPE)),
    1, new Object[] {{ true }});
  say:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.filterArguments(
    lookup.findVirtual(output, "write", java.lang.invoke.MethodType.methodType(none, bytes)), 0,
    new java.lang.invoke.MethodHandle[] {{
      lookup.findVirtual(socket, "getOutputStream", java.lang.invoke.MethodType.methodType(output)) }});
  reader:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.filterReturnValue(
    lookup.findVirtual(socket, "getInputStream", java.lang.invoke.MethodType.methodType(input)),
    lookup.findConstructor(data, java.lang.invoke.MethodType.methodType(none, input)));
  hear:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.filterReturnValue(reader,
    lookup.findVirtual(data, "readByte", java.lang.invoke.MethodType.methodType(java.lang.Byte.TYPE)))
    .asType(java.lang.invoke.MethodType.methodType(none, socket));
  heard:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.foldArguments(
    java.lang.invoke.MethodHandles.identity(socket), hear);
  talk:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.foldArguments(
    java.lang.invoke.MethodHandles.dropArguments(heard, 1, new Class[] {{ bytes }}), say);
  reach:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.foldArguments(
    java.lang.invoke.MethodHandles.foldArguments(talk, quick), connect);
  failed:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.foldArguments(
    java.lang.invoke.MethodHandles.dropArguments(
      java.lang.invoke.MethodHandles.constant(socket, null), 0, new Class[] {{ problem, socket }}),
    1, lookup.findVirtual(socket, "close", java.lang.invoke.MethodType.methodType(none)))
IF true
DO
  link("streamproof", "kept", new java.util.concurrent.ConcurrentLinkedDeque());
  link("streamproof", "talk", java.lang.invoke.MethodHandles.catchException(talk, problem, failed));
  link("streamproof", "head", "{head} " + java.lang.ProcessHandle.current().pid() + " ");
  link("streamproof", "reach", java.lang.invoke.MethodHandles.catchException(reach, problem, failed))
ENDRULE
"""

# A connection that was used is kept for the next thread, whoever that is. The other side may have closed it meanwhile.
_POINT = """\
RULE {name}
{hook.place}
METHOD {hook.method}
{where}
BIND
  {bindings};
  reach:java.lang.invoke.MethodHandle = linked("streamproof", "reach");
  due:boolean = {condition} && key != null && reach != null;
  talk:java.lang.invoke.MethodHandle = linked("streamproof", "talk");
  head:String = linked("streamproof", "head");
  kept:java.util.Deque = linked("streamproof", "kept");
  socket:Object = null;
  line:Object = null
IF due
DO
  line = (head + "{said} " + key + "\\n").getBytes("UTF-8");
  socket = kept.poll();
  socket = (socket == null ? null : talk.invokeWithArguments(new Object[] {{ socket, line }}));
  socket = (socket != null ? socket : reach.invokeWithArguments(new Object[] {{ new java.net.Socket(), line }}));
  socket != null && kept.offerFirst(socket)
ENDRULE
"""

_LEAVE = """\
RULE {name}
{hook.place}
METHOD {hook.method}
AT EXCEPTION EXIT
IF decrementCounter({depth}) < 0
DO NOTHING
ENDRULE
"""


def _start(version: SparkVersion, place: Place, head: str) -> str:
    return _START.format(start=version.start, host=place[0], port=place[1], head=head, connect_ms=CONNECT_MS)


def _rules(hook: Hook, name: str) -> list[str]:
    depth = f'"{name} " + Thread.currentThread().getId()'
    rules = [_rule(hook, name, depth, Side.BEFORE, hook.before), _rule(hook, name, depth, Side.AFTER, hook.after)]
    return [*rules, _LEAVE.format(name=f"{name} left", hook=hook, depth=depth)] if hook.overridden else rules


def _rule(hook: Hook, name: str, depth: str, side: Side, where: str) -> str:
    condition = f"({hook.condition})"
    if hook.overridden:
        # Counted first, whatever else is asked: each way in has its way out.
        count, outermost = ("incrementCounter", 1) if side is Side.BEFORE else ("decrementCounter", 0)
        condition = f"{count}({depth}) == {outermost} && {condition}"
    return _POINT.format(
        name=f"{name} {side}",
        hook=hook,
        where=where,
        bindings=";\n  ".join([*hook.bindings, f"key:String = {hook.key}"]),
        condition=condition,
        said=f"{side} {hook.point}",
    )
