"""What the user's code was seen to do in runs without failures where nothing can be held or copied."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Set
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from ..contracts.query import EFFECTS, Query
from ..core.addresses import Point, Side
from ..core.wire import ITSELF
from ..crash_points.files.naming import is_in_sink
from ..crash_points.files.operations import BESIDE_SQLITE, OperationKind, database_beside
from ..crash_points.inside_python.consuming import READ
from ..crash_points.inside_python.effects import LONGEST, OutsideEffect
from ..crash_points.inside_python.following import Noted
from ..crash_points.inside_python.names import shortened
from ..crash_points.inside_python.watching import outside
from ..crash_points.outside.bursts import NAME as BURST
from ..recording.records import Ended
from .attempts import Attempt
from .conclusion import A_LINK, AT_THE_END, BETWEEN_BATCHES, IN_SPARK, Uncut
from .file_points import deed_of
from .messages import numbered_message, only_opens

_SHARED: Final = frozenset({"file", "connection"})
_DRAWN: Final = "*"
"""In a path, in place of what was drawn at random."""
_REMOVES: Final = frozenset({OperationKind.UNLINK, OperationKind.RMDIR})


def uncut_of(query: Query, attempts: Sequence[Attempt]) -> tuple[Uncut, ...]:
    """Each effect once, as often as the attempt has it that has it most often. Where the query has stores, it is killed
    between their messages whoever sends them, so that threads do not count. Nor do files and connections where some may
    be a source or a store that the query names without saying where it is (`not_told_apart`).

    A file that is there for a while only counts where several attempts call it alike: then one finds what a crash of
    another has left.
    """
    left_out = {"thread"} if query.stores else set()
    return tuple(_effects_of_kinds(query, attempts, {*EFFECTS} - left_out - _may_be_its_own(query)))


def not_told_apart(query: Query, attempts: Sequence[Attempt]) -> tuple[Uncut, ...]:
    """The files and connections that may be those of its source or its stores, but for what the user accepts."""
    found = _effects_of_kinds(query, attempts, _may_be_its_own(query))
    return tuple(one for one in found if not one.accepted)


def _may_be_its_own(query: Query) -> Set[str]:
    """The kinds of effects of which nobody knows whether they are its source's, or those of a store without address."""
    unknown = query.source is not None or any(not store.address for store in query.stores)
    return _SHARED if unknown else frozenset()


def _effects_of_kinds(query: Query, attempts: Sequence[Attempt], kinds: Set[str]) -> Iterator[Uncut]:
    most: Counter[tuple[str, str, str]] = Counter()
    in_passing: Counter[str] = Counter()
    for attempt in attempts:
        in_passing.update({one.target for one in _effects_of(attempt) if one.passing})
    for attempt in attempts:
        found: Counter[tuple[str, str, str]] = Counter()
        for effect in _effects_of(attempt):
            counts = effect.kind in kinds and not _reads_a_store(query, effect)
            if counts and (not effect.passing or in_passing[effect.target] > 1):
                found[effect.kind, effect.target, effect.place] += effect.times
        most |= found
    for (kind, target, place), times in sorted(most.items()):
        accepted = any(_means(one, f"{kind} {target}") for one in query.accepts)
        yield Uncut(kind, target, place, times, accepted)


def _reads_a_store(query: Query, effect: OutsideEffect) -> bool:
    """Whether that is how its `read` reaches a store of its own, be it not by way of the harness: it changes nothing
    there that a crash could cut."""
    if (effect.kind, effect.place) != ("connection", READ):
        return False
    return _place_named(effect.target) in {_place_named(store.address) for store in query.stores if store.address}


def _place_named(address: str) -> tuple[str, str]:
    """Host and port; those by which a machine calls itself are one."""
    host, _, port = address.rpartition(":")
    return "localhost" if host.strip("[]") in ITSELF else host, port


def without_relayed(noted: Noted, places: Collection[str]) -> Noted:
    """Without connections to where stores are reached by way of the harness, `host:port`, which cuts what they send."""

    def is_relayed(effect: OutsideEffect) -> bool:
        return effect.kind == "connection" and any(
            re.search(rf"(?<![\w.]){re.escape(place)}(?!\d)", effect.target) for place in places
        )

    kept = tuple(effect for effect in noted.effects if not is_relayed(effect))
    return noted if len(kept) == len(noted.effects) else msgspec.structs.replace(noted, effects=kept)


def _means(accepted: str, effect: str) -> bool:
    """An effect can be accepted as it is named, be there what is else a pattern in its name."""
    return accepted == effect or fnmatchcase(effect, accepted)


def shared_of(attempt: Attempt) -> list[str]:
    """The files and connections by which another attempt that goes on beside this one may be in its way."""
    return sorted({f"{one.kind} {one.target} ({one.place})" for one in _effects_of(attempt) if one.kind in _SHARED})


def _effects_of(attempt: Attempt) -> Iterator[OutsideEffect]:
    yield from (effect for noted in attempt.noted for effect in noted.effects)
    yield from _done_at_the_end(attempt)
    yield from _sent_late(attempt)


def _sent_late(attempt: Attempt) -> Iterator[OutsideEffect]:
    """Each kind of request to a store outside that was sent, or answered, when the sink had done a batch, before the
    next was begun: nobody had waited for it, and Spark may note the batch whatever becomes of it. Not what was asked
    before the sink had any batch: by a source, which Spark waits for, and which asks again between two of them. Nor
    where a protocol is read as bursts, of which nobody knows what they change: many are no more than a sign of life."""
    begun = between = False
    by_a_source: set[str] = set()
    late: dict[str, set[str]] = {}
    for one in attempt.passed:
        at = one.address.point, one.address.side
        if at[0] is Point.MESSAGE:
            (_, kind), _ = numbered_message(one)
            if not begun:
                by_a_source.add(kind)
            elif between:
                late.setdefault(kind, set()).add(one.address.key)
        elif at in _SINK_IS_DONE or at == _NEXT_BEGINS:
            between = at in _SINK_IS_DONE
        begun = begun or at[0] is Point.ADD_BATCH
    for kind, keys in late.items():
        if kind not in by_a_source and not only_opens(kind) and kind.rpartition(" ")[2] != BURST:
            yield OutsideEffect("message", kind[:LONGEST], BETWEEN_BATCHES, len(keys))


_SINK_IS_DONE: Final = frozenset({(Point.ADD_BATCH, Side.AFTER), (Point.STREAM_COMMIT, Side.AFTER)})
_NEXT_BEGINS: Final = (Point.OFFSET_LOG, Side.BEFORE)


def _done_at_the_end(attempt: Attempt) -> Iterator[OutsideEffect]:
    """What a process has still done in the sink's folder when the attempt had come to its end, and the sink had been
    read: a file whose last rows were in memory alone, or whatever a library keeps for the exit. But for what SQLite
    does when it is closed, which it would do after a crash as well, and for drafts that are taken away."""
    ended = next((place for place, one in enumerate(attempt.records) if isinstance(one.record, Ended)), None)
    if ended is None:
        return
    done = [(one, deed_of(one.address.key).partition(" ")) for one in attempt.passed if one.address.point is Point.FILE]
    of_databases = {database_beside(path) for _, (_, _, paths) in done for path in paths.split(" > ")}
    for one, (kind, _, paths) in done:
        path = paths.rpartition(" > ")[2]
        of_sqlite = path in of_databases or path.endswith(BESIDE_SQLITE)
        a_draft_goes = kind in _REMOVES and _DRAWN in path
        if one.records > ended and is_in_sink(path) and not of_sqlite and not a_draft_goes:
            yield OutsideEffect("exit", path[:LONGEST], AT_THE_END)


def of_any_run(noted: Noted, label: str) -> Noted:
    """Without the label of the run: what has that in its name is called the same in every run, and can be accepted."""
    named = (msgspec.structs.replace(one, target=one.target.replace(label, "*")) for one in noted.effects)
    return msgspec.structs.replace(noted, effects=tuple(named)) if label else noted


def written_elsewhere(path: str) -> Noted:
    """Of a file that Spark writes on one of Hadoop's file systems; what is made there until it is all there goes by the
    folder that it is meant for. Of a folder that it makes or takes away there, whose path ends in a slash. Or of a
    database that it connects to, by its JDBC URL. Or of a program that it has rows go through."""
    kind, _, program = path.partition(" ")
    if kind == _PROCESS:
        return Noted((OutsideEffect(kind, program[:LONGEST], IN_SPARK),))
    if path.startswith(_JDBC):
        return Noted((OutsideEffect("connection", _without_login(path)[:LONGEST], IN_SPARK),))
    folder = path.removeprefix("file:").partition("/_temporary/")[0].partition("/.spark-staging-")[0]
    target = folder if folder != path.removeprefix("file:") else folder.rpartition("/")[0]
    return Noted((OutsideEffect("file", shortened(target)[:LONGEST], IN_SPARK),))


def is_of_spark_itself(path: str, scratch: Path) -> bool:
    """Whether Spark writes it in a folder that it has made for a session of its own, below those of the nodes, and
    takes away with that: there a state store on RocksDB puts what it loads from a checkpoint. Nobody finds it again."""
    inside = path.removeprefix("file:").removeprefix(f"{scratch.resolve()}{os.sep}")
    return _OF_SPARK.match(inside) is not None


_OF_SPARK: Final = re.compile(r"[^/]+/(?:spark|blockmgr)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/")


def connected_elsewhere(peer: str) -> Noted:
    """Of a connection that Spark's JVM has, to `host:port`."""
    return Noted((OutsideEffect("connection", peer, IN_SPARK),))


_JDBC: Final = "jdbc:"
_PROCESS: Final = "process"


def _without_login(url: str) -> str:
    """A JDBC URL without what may be secret in it: settings, and who logs in."""
    place = re.split(r"[?;]", url, maxsplit=1)[0]
    before, login, place_itself = place.rpartition("@")
    return f"{':'.join(before.split(':')[:2])}:…@{place_itself}" if login else place


def linked_elsewhere(said: str, below: Path, mount: Path) -> Noted | None:
    """Of an operation as the file layer says it, which serves the files of `below` at `mount`: a link that leads out of
    there. What is written by that name, nobody holds: the file layer is not asked, and for Spark's JVM it is inside."""
    kind, _, path = said.partition(" ")
    if kind != OperationKind.SYMLINK:
        return None
    try:
        text = os.readlink(below / path)
    except OSError:
        # It has gone since, or its name is none that can be said.
        return None
    target = os.path.normpath(mount / os.path.dirname(path) / text)
    if not outside((str(mount),), target):
        return None
    return Noted((OutsideEffect("file", shortened(target)[:LONGEST], A_LINK),))


def unannounced_of(attempts: Sequence[Attempt]) -> int:
    """How often lines were passed, in the attempt that did so most often, at which nobody was held any more."""
    return max((sum(noted.unannounced for noted in attempt.noted) for attempt in attempts), default=0)
