"""The durable store of a recovery worker whose folders are mounted: crash states are made from the journal of file
operations.

So nothing is copied while the query runs, and there is a state after every operation of every process. A state is a
position in the journal of one attempt, and what the folders held when that attempt began.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.errors import OwnFailure, StorageFailed
from ..core.guarantees import PowerLoss
from ..core.wire import Endpoint
from ..crash_points.files.mounting import MountedFolder
from ..crash_points.files.naming import is_in_sink, without_randoms
from ..crash_points.files.operations import (
    BESIDE_SQLITE,
    LOG_INDEX,
    LOOKS,
    Operation,
    OperationKind,
    database_beside,
    read_operations,
)
from ..crash_points.files.power import Loss, power_losses
from ..crash_points.files.trees import File, Folder, Meeting, Symlink, Tree, TreeNode, remove_folder
from ..recording.history import Lost
from .crash_states import DRAFT, CrashState, Looks, StateEntry
from .sqlite_rollback import rolled_back
from .varying_names import VaryingNames


@dataclass(frozen=True)
class _Watched:
    """An attempt that is journalled."""

    base: Tree
    """What there was when it began."""
    begin: int
    """Where in the journal it did."""


class JournaledFolders:
    """Of one recovery worker, whose attempts follow each other. `announce` is where its operations are told as crash
    points.
    """

    def __init__(self, mounted: MountedFolder, token: str, node: str) -> None:
        self._mounted = mounted
        self._token = token
        self._node = node
        self._tree: Tree | None = Tree()
        """What the folders hold; None: somebody has lived on them since."""
        self._watched: list[_Watched] = []
        self._begin = 0
        self.names = VaryingNames()
        """What is known to vary of the names of files."""
        self._taken_back: dict[tuple[tuple[str, bytes], ...], str] = {}
        """Of databases and what lies beside them, by how their names end and their tokens."""

    def begin(self, watched: Endpoint | None, incarnation: int, asks_before: bool = False) -> None:
        """An attempt begins, on what is there. `watched` is who is told of its operations; None: nobody. `asks_before`:
        before they are done, too, so that they can be refused."""
        base, self._tree = self._tree, None
        # Nothing is done to the folders between two attempts.
        self._mounted.be_quiet()
        self._begin = self._mounted.position
        if watched is not None:
            base = Tree.read(self._mounted.below) if base is None else base
            self._watched.append(_Watched(base, self._begin))
            self._mounted.announce(watched, self._token, self._node, incarnation, asks_before)

    def refused(self) -> int:
        """How many operations were, in all."""
        return self._mounted.refused()

    def mark(self) -> int:
        """Now, while whoever acts is held: a position."""
        return self._mounted.position

    def count(self, mark: object) -> int:
        """How many operations of the newest watched attempt, up to a position, are crash points."""
        assert isinstance(mark, int)
        found = read_operations(self._mounted.journal, self._watched[-1].begin, mark)
        return sum(one.is_point for _, one in found)

    def states(self, marks: Sequence[object]) -> list[CrashState]:
        """What was durable at these positions of the newest watched attempt, which must be in order."""
        watched, number = self._watched[-1], len(self._watched) - 1
        return self._states(number, watched.base.copied(), watched.begin, marks, self._entries)

    def since(self, begin: CrashState, states: Sequence[CrashState]) -> list[CrashState]:
        number, mark = _place_of(begin)
        tree = self._tree_of(begin)
        tree.begin_anew(lambda path: self.names.plain(f"at {without_randoms(path)}"))
        # What SQLite would make of a content that is not there is not asked for.
        marks = [_place_of(state)[1] for state in states]
        return self._states(number, tree, mark, marks, lambda tree: self._told(tree, {}))

    def _states(
        self,
        number: int,
        tree: Tree,
        position: int,
        marks: Sequence[object],
        entries: Callable[[Tree], tuple[StateEntry, ...]],
    ) -> list[CrashState]:
        """Of a watched attempt, from a position on, at which the tree was such."""
        made: list[CrashState] = []
        operations = read_operations(self._mounted.journal, position, self._mounted.position)
        shown: CrashState | None = None
        for mark in marks:
            assert isinstance(mark, int)
            while position < mark:
                position, one = next(operations)
                tree.apply(one)
                shown = None
            if shown is None:
                shown = CrashState(entries(tree), (number, mark))
            made.append(shown)
        return made

    def looks(self) -> Looks:
        """What the current attempt has looked at."""
        found = self._mounted.looked_at(self._begin)
        by_kind = {kind: frozenset(path for seen, path in found if seen is kind) for kind in LOOKS}
        asked = by_kind[OperationKind.ASKED] | {
            path for path in by_kind[OperationKind.ASKED_IN_PASSING] if not _is_draft_of_spark(path)
        }
        return Looks(
            opened=self._all_absolute(by_kind[OperationKind.OPENED]),
            asked=self._all_absolute(asked),
            listed=self._all_absolute(by_kind[OperationKind.LISTED]),
            skimmed=self._all_absolute(by_kind[OperationKind.SKIMMED]),
            opened_by_sqlite=self._all_absolute(by_kind[OperationKind.OPENED_BY_SQLITE]),
        )

    def restore(self, state: CrashState) -> None:
        tree = self._tree_of(state)
        with self._mounted.changing_below(lambda: tree.times_in(self._mounted.below)):
            self._empty()
            tree.write_to(self._mounted.below)
        self._tree = tree

    def losses(self, state: CrashState, power: PowerLoss) -> list[CrashState]:
        found = []
        times: Counter[str] = Counter()
        for number, loss in enumerate(_losses(*self._operations_until(state), power)):
            # What two recovery workers call differently is the same loss.
            what = self.names.plain_text(without_randoms(loss.what))
            times[what] += 1
            said = what if times[what] == 1 else f"{what} (no. {times[what]})"
            lost = Lost(power.terms, said, loss.extent, any(map(is_in_sink, loss.paths)))
            found.append(CrashState(self._entries(loss.tree), state.journalled, lost, number, power))
        return found

    def _tree_of(self, state: CrashState) -> Tree:
        watched, operations = self._operations_until(state)
        if state.power is not None:
            return _losses(watched, operations, state.power)[state.which].tree
        tree = watched.base.copied()
        for one in operations:
            tree.apply(one)
        return tree

    def _operations_until(self, state: CrashState) -> tuple[_Watched, list[Operation]]:
        number, mark = _place_of(state)
        watched = self._watched[number]
        return watched, [one for _, one in read_operations(self._mounted.journal, watched.begin, mark)]

    def clear(self) -> None:
        """As before the first run."""
        with self._mounted.changing_below():
            self._empty()
        self._tree = Tree()

    def _empty(self) -> None:
        try:
            for path in self._mounted.below.iterdir():
                if path.is_dir() and not path.is_symlink():
                    remove_folder(path)
                else:
                    path.unlink()
        except OSError as error:
            raise StorageFailed(f"cannot clear {error.filename}: {error.strerror or error}") from error

    def _all_absolute(self, paths: Iterable[str]) -> frozenset[str]:
        return frozenset(map(self._absolute, paths))

    def _absolute(self, path: str) -> str:
        return str(self._mounted.mount / path)

    def _entries(self, tree: Tree) -> tuple[StateEntry, ...]:
        return self._told(tree, dict(self._rolled_back(tree)))

    def _told(self, tree: Tree, back: Mapping[str, str]) -> tuple[StateEntry, ...]:
        """`back`: what SQLite takes some of them back to, by their paths."""
        names = Counter(id(node) for node in tree.nodes.values() if isinstance(node, File))
        return tuple(
            self._entry(path, node, back.get(path, ""), names[id(node)]) for path, node in sorted(tree.nodes.items())
        )

    def _rolled_back(self, tree: Tree) -> Iterator[tuple[str, str]]:
        """Databases in the middle of a transaction, and what lies beside them, with what SQLite takes them back to."""
        for path in dict.fromkeys(map(database_beside, tree.nodes)):
            database = tree.nodes.get(path)
            beside = {name: node for name in BESIDE_SQLITE if isinstance(node := tree.nodes.get(path + name), File)}
            if not beside or not isinstance(database, File):
                continue
            counting = {name: file for name, file in beside.items() if name != LOG_INDEX}
            tokens = (("", database.token), *((name, file.token) for name, file in counting.items()))
            if tokens not in self._taken_back:
                contents = {name: bytes(file.content) for name, file in counting.items()}
                self._taken_back[tokens] = rolled_back(bytes(database.content), contents)
            if said := self._taken_back[tokens]:
                yield path, said
                yield from ((path + name, said) for name in beside)

    def _entry(self, path: str, node: TreeNode, back: str, names: int) -> StateEntry:
        match node:
            case File():
                return StateEntry(
                    self._absolute(path),
                    node.token.hex(),
                    node.changed,
                    size=len(node.content),
                    mode=node.mode,
                    rolled_back=back,
                    owner=node.owner,
                    names=names,
                    touched=node.touched,
                    accessed=node.accessed,
                )
            case Folder():
                marks = tuple(sorted(node.attributes.items()))
                return StateEntry(
                    self._absolute(path),
                    None,
                    node.changed or 0,
                    mode=node.mode,
                    attributes=marks,
                    owner=node.owner,
                    accessed=node.accessed,
                )
            case Symlink():
                return StateEntry(self._absolute(path), None, link=node.text)
            case Meeting():
                return StateEntry(self._absolute(path), None, mode=node.mode)


CHECKPOINT = "checkpoint"
"""Of the folders that are mounted, the checkpoint's."""


def _place_of(state: CrashState) -> tuple[int, int]:
    if state.journalled is None:
        raise OwnFailure("a crash state that was copied cannot be made from a journal")
    return state.journalled


def _is_draft_of_spark(path: str) -> bool:
    """Whether it is a file in a checkpoint that has not got its name yet. Who comes to a name with a UUID in it that
    an attempt before has drawn, has read it from the folder; and Spark passes over such names in its checkpoint."""
    return path.startswith(f"{CHECKPOINT}/") and DRAFT.fullmatch(os.path.basename(path)) is not None


def _losses(watched: _Watched, operations: Sequence[Operation], power: PowerLoss) -> list[Loss]:
    return power_losses(watched.base, operations, power.promise, (CHECKPOINT,) if power.checkpoint_syncs else ())
