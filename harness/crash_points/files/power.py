"""What a loss of power can leave of the folders: of what was written and not synced, any part that the file system does
not promise to keep.

What may be lost follows the abstract persistence models of Pillai et al., "All File Systems Are Not Created Equal"
(OSDI 2014), and a few telling losses are chosen out of all, as Mohan et al. do in "Finding Crash-Consistency Bugs with
Bounded Black-Box Crash Testing" (OSDI 2018): all that may be lost at once, the contents of all files or of each, a
content torn between two pages, and the newest names, one after the other or each by itself.

The promises:

- *strict*: what is lost is a tail of the operations, back to the last fsync of anything.
- *ext4-ordered*: as ext4's documentation has `data=ordered` with `auto_da_alloc`. An fsync of anything commits the
  journal, and with it all names and truncations until then; they reach the disk in their order. Contents do when their
  file is synced; before, a file that has its name can be as long as when it was last synced, or be torn. A rename over
  a file that is there, and a truncation to nothing that is written again, bring the content along; an exchange of two
  names does not.
- *none*: as little as POSIX promises. Contents are kept by an fsync of their file, names by one of their folder, and
  whatever is not synced may be lost without what came after it.

Simplified, in the file system's favour: a rename is one step, and so is an exchange; one operation that writes is torn
at pages only, and inside of none; who rewrites a truncated file is taken to have closed it at once, since the journal
does not say when files are closed; who syncs a folder has synced the names that it needs to be reached, and the owners,
permissions and extended attributes of what it holds, as who syncs a file has synced its own. Against it: time makes
nothing durable, though Linux writes back what is half a minute old.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ...core.promises import Extent, Promise
from .operations import MOVES, OF_ATTRIBUTES, OF_NAMES, Operation, OperationKind
from .trees import File, Folder, Meeting, Symlink, Tree, TreeNode

PAGE: Final = 4096
NEWEST: Final = 8
"""How many names, the newest of those that are not synced, are lost one after the other or each by itself."""
_OF_INODES = frozenset({OperationKind.MODE, OperationKind.OWNER, *OF_ATTRIBUTES})
_NAMES = OF_NAMES | _OF_INODES
"""Owners, permissions and extended attributes are kept as names are."""
_CONTENTS = frozenset({OperationKind.WRITE, OperationKind.TRUNCATE})
_SYNCS = frozenset({OperationKind.SYNC, OperationKind.SYNC_FOLDER})
_LISTED = 2
"""How many paths a description of a loss names."""


@dataclass(frozen=True)
class Loss:
    """What a loss of power leaves."""

    tree: Tree
    what: str
    """What is lost, in words."""
    extent: Extent
    paths: tuple[str, ...]
    """What the words are about, by name."""


def _whole(operations: Iterable[Operation]) -> list[Operation]:
    """With each write in one: the power tears it by rules of its own, wherever a death would."""
    found: list[Operation] = []
    for one in operations:
        if found and found[-1].half and _is_rest(one, found[-1]):
            one = msgspec.structs.replace(one, offset=found[-1].offset, data=found.pop().data + one.data)
        found.append(one)
    return found


def _is_rest(one: Operation, half: Operation) -> bool:
    where = half.thread, half.file, half.offset + len(half.data)
    return one.kind is OperationKind.WRITE and (one.thread, one.file, one.offset) == where


def power_losses(
    base: Tree, operations: Sequence[Operation], promise: Promise, synced: Collection[str] = ()
) -> list[Loss]:
    """What a loss of power after these operations may leave, by what a file system promises; each different tree once,
    the one in which nothing is lost first. `base` is on the disk whole, as is whatever is done in a folder that is
    `synced`: that lies on storage of its own.

    Raises OwnFailure for operations that cannot have been done to this tree.
    """
    done = _Done(base, _whole(operations), synced)
    match promise:
        case Promise.STRICT:
            chosen = _strict(done)
        case Promise.EXT4_ORDERED:
            chosen = _ext4_ordered(done)
        case Promise.NONE:
            chosen = _none(done)
    found: dict[object, Loss] = {}
    for lost in (_Lost("nothing", Extent.NOTHING), *chosen):
        tree = done.without(frozenset(lost.operations), lost.pages)
        found.setdefault(_shape(tree), Loss(tree, lost.what, lost.extent, tuple(lost.paths)))
    return list(found.values())


@dataclass(frozen=True)
class _Lost:
    what: str
    """In words."""
    extent: Extent
    paths: Sequence[str] = ()
    operations: Collection[int] = ()
    """By their places."""
    pages: Mapping[File, Collection[int]] = field(default_factory=dict)
    """Of contents that are torn, which pages are kept."""


def _strict(done: _Done) -> Iterator[_Lost]:
    lost = [place for place in done.free if place > done.last_sync and done.operations[place].kind not in _SYNCS]
    if lost:
        paths = done.changed(lost)
        yield _Lost(f"everything since the last fsync: {_listed(paths)}", Extent.EVERYTHING, paths, lost)
        last = max((place for place in lost if done.operations[place].kind is not OperationKind.TIMES), default=lost[0])
        newest = done.operations[last]
        later = [place for place in lost if place >= last]
        yield _Lost(f"the last change: {_said(newest)}", Extent.SOME, _paths(newest), later)


def _ext4_ordered(done: _Done) -> Iterator[_Lost]:
    names = [place for place in done.names if place > done.last_sync]
    open_contents = {file: lost for file in done.files if (lost := done.lost_of(file, done.end, OperationKind.WRITE))}
    # Back to the last commit of the journal: truncations are in it, too.
    back = done.last_sync + 1
    everything = [*names, *(place for file in done.files for place in done.lost_of(file, back))]
    if everything:
        yield _everything(done, everything)
    yield from _contents(done, open_contents, later_pages=False)
    for place in names[-NEWEST:]:
        after = [*(other for other in names if other >= place), *done.contents_from(place)]
        one = done.operations[place]
        yield _Lost(f"{_said(one)}, and what was done after it", Extent.SOME, _paths(one), after)


def _none(done: _Done) -> Iterator[_Lost]:
    kept = done.kept_names()
    names = [place for place in done.names if place not in kept]
    open_contents = {
        file: lost for file in done.files if (lost := [p for p in done.contents_of(file) if p > done.synced_at(file)])
    }
    contents = [place for lost in open_contents.values() for place in lost]
    if names or contents:
        lost = [*names, *contents]
        yield _everything(done, lost)
    yield from _contents(done, open_contents, later_pages=True)
    for file, lost in open_contents.items():
        if len(lost) > 1:
            name = done.called(file)
            yield _Lost(f"the first of what {name} was written since its last fsync", Extent.SOME, [name], lost[:1])
    for place in names[-NEWEST:]:
        one = done.operations[place]
        yield _Lost(f"{_said(one)}, for itself", Extent.SOME, _paths(one), done.with_dependents(place, names))


def _everything(done: _Done, lost: Collection[int]) -> _Lost:
    paths = done.changed(lost)
    return _Lost(f"everything that no fsync covers: {_listed(paths)}", Extent.EVERYTHING, paths, lost)


def _contents(done: _Done, lost: Mapping[File, Sequence[int]], later_pages: bool) -> Iterator[_Lost]:
    """The contents of all files that are not synced and have a name, then of each, whole and torn."""
    lost = {file: places for file, places in lost.items() if file in done.named}
    if len(lost) > 1:
        every = [place for some in lost.values() for place in some]
        names = [done.called(file) for file in list(lost)[::-1]]
        said = f"what was written since their last fsync to all of {_listed(names)}"
        yield _Lost(said, Extent.CONTENTS, names, every)
    for file, lost_here in lost.items():
        places, name = list(lost_here), done.called(file)
        yield _Lost(f"what {name} was written since its last fsync", Extent.CONTENTS, [name], places)
        pages = sorted({page for place in places for page in _pages(done.operations[place])})
        if len(pages) > 1:
            half = pages[len(pages) // 2 :] if later_pages else pages[: len(pages) // 2]
            which = "first" if later_pages else "last"
            said = f"the {which} pages of what {name} was written since its last fsync"
            yield _Lost(said, Extent.SOME, [name], places, {file: half})


class _Done:
    """Operations, and what each of them means: of which file, and what is on the disk after which."""

    def __init__(self, base: Tree, operations: Sequence[Operation], synced: Collection[str]) -> None:
        self.base = base
        self.operations = operations
        self.end = len(operations)
        self.free: list[int] = []
        """The places of those that are not in a folder that is synced anyway."""
        self.files: dict[File, list[int]] = {}
        """Each file, and the places of those that change its content, where they are free."""
        self._of: dict[int, File | Folder] = {}
        """Of an operation on a content, a sync of one, and a creation: the file. Of one on owners, permissions or
        extended attributes: what has them."""
        self._called: dict[File | Folder, str] = {}
        self._synced_at: dict[File | Folder, int] = {}
        self._brought: list[tuple[int, File, bool]] = []
        """Where a name brings a content along: what was written until then, or later as well."""
        self.last_sync = -1
        seen = base.copied()
        beginnings = tuple(f"{folder}/" for folder in synced)
        for place, one in enumerate(operations):
            self._note(place, one, seen, beginnings)
            seen.apply(one)
            if one.kind is OperationKind.CREATE:
                self._of[place] = made = seen.file_of(one)
                self._called[made] = one.path
        self.named: dict[File | Folder, str] = {
            node: path for path, node in seen.nodes.items() if isinstance(node, File)
        }
        """Those that have a name when all is done."""
        self._called |= self.named
        self.names = [place for place in self.free if operations[place].kind in _NAMES]
        self._seen = seen
        """The files that are known by identity must live."""

    def _note(self, place: int, one: Operation, seen: Tree, synced: tuple[str, ...]) -> None:
        """Before it is done."""
        if synced and f"{one.path}/".startswith(synced):
            return
        if one.kind in _CONTENTS or one.kind is OperationKind.SYNC:
            file = self._of[place] = seen.file_of(one)
            called = self._called.setdefault(file, one.path)
            if synced and f"{called}/".startswith(synced):
                return
            if one.kind is OperationKind.SYNC:
                self._synced_at[file] = place
            else:
                self.files.setdefault(file, []).append(place)
            if one.kind is OperationKind.TRUNCATE and one.offset == 0 and file.content:
                self._brought.append((place, file, True))
        elif one.kind in _OF_INODES:
            holder = self._of[place] = seen.holder_of(one)
            self._called.setdefault(holder, one.path)
        elif one.kind is OperationKind.SYNC_FOLDER and isinstance(folder := seen.nodes.get(one.path), Folder):
            self._synced_at[folder] = place
        elif one.kind is OperationKind.RENAME:
            moved, there = seen.nodes.get(one.path), seen.nodes.get(one.other)
            if isinstance(moved, File) and isinstance(there, File) and moved is not there:
                self._brought.append((place, moved, False))
        self.free.append(place)
        if one.kind in _SYNCS:
            self.last_sync = place

    def called(self, file: File | Folder) -> str:
        return self._called[file] or "a file without a name"

    def contents_of(self, file: File) -> list[int]:
        return self.files[file]

    def contents_from(self, begin: int) -> list[int]:
        return [place for places in self.files.values() for place in places if place >= begin]

    def synced_at(self, file: File | Folder) -> int:
        return self._synced_at.get(file, -1)

    def lost_of(self, file: File, end: int, kind: OperationKind | None = None) -> list[int]:
        """Of a file, what can be missing where the names are those before `end`: of that kind alone, and all from there
        on."""
        kept = self.synced_at(file)
        for place, brought, later in self._brought:
            if brought is file and place < end:
                kept = max(kept, end - 1 if later else place)
        return [
            place
            for place in self.files[file]
            if place > kept and (place >= end or kind is None or self.operations[place].kind is kind)
        ]

    def changed(self, places: Collection[int]) -> list[str]:
        """What these operations are about, by name, the newest first."""
        found: dict[str, None] = {}
        for place in sorted(places, reverse=True):
            one = self.operations[place]
            file = self._of.get(place)
            named = one.other if one.kind is OperationKind.RENAME else one.path if file is None else self.called(file)
            found.setdefault(named or "a file without a name")
        return list(found)

    def kept_names(self) -> set[int]:
        """Those that an fsync of their folder covers, and what a folder's inode holds where one of it does, with what
        they rest on; and of what a file's inode holds, those that one of the file does."""
        kept: set[int] = set()
        for place, one in enumerate(self.operations):
            if one.kind is OperationKind.SYNC_FOLDER:
                kept.update(other for other in self.names if other < place and one.path in _folders(self._at(other)))
        inodes = {place for place in self.names if self._is_synced_inode(place)}
        kept.update(place for place in inodes if isinstance(self._of[place], Folder))
        for place in sorted(kept, reverse=True):
            _rest_on(place, self.names, self.operations, kept)
        # A file that is synced need have no name.
        return kept | inodes

    def _is_synced_inode(self, place: int) -> bool:
        """Whether an operation changes what a file's inode holds, and is covered by an fsync of the file."""
        return self._at(place).kind in _OF_INODES and self.synced_at(self._of[place]) > place

    def with_dependents(self, place: int, names: Sequence[int]) -> set[int]:
        """An operation on names, and those after it that could not be done without."""
        lost = {place}
        for other in names:
            if other > place and any(_meet(self._at(one), self._at(other)) for one in lost):
                lost.add(other)
        return lost

    def _at(self, place: int) -> Operation:
        return self.operations[place]

    def without(self, lost: Collection[int], pages: Mapping[File, Collection[int]]) -> Tree:
        """What is there without these operations; of files whose `pages` are named, those pages of them are kept."""
        tree = self.base.copied()
        never = {self._of[place] for place in lost if self.operations[place].kind is OperationKind.CREATE}
        for place, one in enumerate(self.operations):
            file = self._of.get(place)
            if place not in lost:
                if file is None or file not in never:
                    tree.apply(one)
            elif isinstance(file, File) and file in pages and one.kind is OperationKind.WRITE:
                for part in _parts(one):
                    if part.offset // PAGE in pages[file]:
                        tree.apply(part)
        return tree


def _rest_on(place: int, names: Sequence[int], operations: Sequence[Operation], kept: set[int]) -> None:
    """Add what an operation on names that is kept rests on, and what that does."""
    waiting = [place]
    while waiting:
        last = waiting.pop()
        for other in names:
            if other < last and other not in kept and _meet(operations[other], operations[last]):
                kept.add(other)
                waiting.append(other)


def _paths(one: Operation) -> tuple[str, ...]:
    return (one.path, one.other) if one.kind in (*MOVES, OperationKind.LINK) else (one.path,)


def _folders(one: Operation) -> set[str]:
    """Whose names it changes."""
    paths = _paths(one) if one.kind in MOVES else (one.path,)
    return {path.rpartition("/")[0] for path in paths}


def _meet(one: Operation, other: Operation) -> bool:
    """Whether two are about one path, or one of them about a folder in which the other's is; but whatever is in a
    folder can be done whoever may do what with it."""

    def within(here: str, there: str, above: Operation) -> bool:
        return above.kind not in _OF_INODES and here.startswith(f"{there}/")

    return any(
        here == there or within(here, there, other) or within(there, here, one)
        for here in _paths(one)
        for there in _paths(other)
    )


def _pages(one: Operation) -> range:
    if one.kind is not OperationKind.WRITE or not one.data:
        return range(0)
    return range(one.offset // PAGE, (one.offset + len(one.data) - 1) // PAGE + 1)


def _parts(one: Operation) -> Iterator[Operation]:
    """What an operation writes, a page each."""
    for page in _pages(one):
        begin, end = max(one.offset, page * PAGE), min(one.offset + len(one.data), (page + 1) * PAGE)
        yield msgspec.structs.replace(one, offset=begin, data=one.data[begin - one.offset : end - one.offset])


def _said(one: Operation) -> str:
    joined = {OperationKind.RENAME: f" to {one.other}", OperationKind.EXCHANGE: f" for {one.other}"}
    return f"the {one.kind} of {one.path}{joined.get(one.kind, '')}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _shape(tree: Tree) -> object:
    """Equal for two trees that hold the same."""
    return frozenset((path, _held_by(node)) for path, node in tree.nodes.items())


def _held_by(node: TreeNode) -> object:
    match node:
        case File():
            return bytes(node.content), node.mode, node.owner, frozenset(node.attributes.items())
        case Folder():
            return node.mode, node.owner, frozenset(node.attributes.items())
        case Symlink():
            return node.text
        case Meeting():
            return node.mode
