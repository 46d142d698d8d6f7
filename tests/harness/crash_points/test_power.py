"""What a loss of power may leave of folders, by what file systems promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.harness.core.promises import Promise
from streamproof.harness.crash_points.files.operations import Operation, OperationKind
from streamproof.harness.crash_points.files.power import PAGE, power_losses
from streamproof.harness.crash_points.files.trees import File, Folder, Tree

Shown = dict[str, bytes | None]
"""Path -> content; None: a folder."""


def shown(tree: Tree) -> Shown:
    return {path: bytes(node.content) if isinstance(node, File) else None for path, node in tree.nodes.items()}


def attributes(tree: Tree) -> dict[str, dict[str, bytes]]:
    return {path: node.attributes for path, node in tree.nodes.items() if isinstance(node, File | Folder)}


def applied(base: Tree, operations: Sequence[Operation]) -> Tree:
    tree = base.copied()
    for one in operations:
        tree.apply(one)
    return tree


def left(operations: Sequence[Operation], promise: Promise, base: Tree | None = None, *synced: str) -> list[Shown]:
    return [shown(loss.tree) for loss in power_losses(base or Tree(), operations, promise, synced)]


class Program:
    """Does to folders what a file system would let it do, and notes it."""

    def __init__(self) -> None:
        self.done: list[Operation] = []
        self.tree = Tree()
        self._files = 0

    def do(self, kind: OperationKind, path: str, other: str = "", offset: int = 0, data: bytes = b"") -> Program:
        file = 0
        if kind is OperationKind.CREATE:
            self._files += 1
            file = self._files
        elif isinstance(node := self.tree.nodes.get(path), File):
            file = next(inode for inode, known in self.tree.files.items() if known is node)
        one = Operation(kind, path, other=other, offset=offset, data=data, file=file)
        self.tree.apply(one)
        self.done.append(one)
        return self

    def write(self, path: str, data: bytes, offset: int = 0) -> Program:
        if path not in self.tree.nodes:
            self.do(OperationKind.CREATE, path)
        return self.do(OperationKind.WRITE, path, offset=offset, data=data)

    def sync_all(self) -> Program:
        for path, node in list(self.tree.nodes.items()):
            self.do(OperationKind.SYNC if isinstance(node, File) else OperationKind.SYNC_FOLDER, path)
        return self.do(OperationKind.SYNC_FOLDER, "")


PATHS = ("a", "b", "d/a", "d/b")
MOVES = ("rename", "exchange")


@st.composite
def programs(draw: st.DrawFn) -> Program:
    made = Program()
    made.do(OperationKind.MKDIR, "d")
    for _ in range(draw(st.integers(0, 12))):
        path = draw(st.sampled_from(PATHS))
        match draw(
            st.sampled_from(
                ["write", "write", "mark", "mark-folder", "truncate", *MOVES, "unlink", "sync", "sync-folder"]
            )
        ):
            case "write":
                data = bytes([draw(st.integers(1, 255))]) * draw(st.sampled_from([3, PAGE, 3 * PAGE]))
                made.write(path, data, draw(st.sampled_from([0, 0, 2, PAGE])))
            case "mark" if path in made.tree.nodes:
                made.do(OperationKind.SET_ATTRIBUTE, path, "user.done", data=bytes([draw(st.integers(1, 255))]))
            case "mark-folder":
                made.do(OperationKind.SET_ATTRIBUTE, "d", "user.done", data=bytes([draw(st.integers(1, 255))]))
            case "truncate" if path in made.tree.nodes:
                made.do(OperationKind.TRUNCATE, path, offset=draw(st.sampled_from([0, 1, PAGE])))
            case "rename" if path in made.tree.nodes:
                made.do(OperationKind.RENAME, path, draw(st.sampled_from(PATHS)))
            case "exchange" if path in made.tree.nodes and (there := [p for p in PATHS if p in made.tree.nodes]):
                made.do(OperationKind.EXCHANGE, path, draw(st.sampled_from(there)))
            case "unlink" if path in made.tree.nodes:
                made.do(OperationKind.UNLINK, path)
            case "sync" if path in made.tree.nodes:
                made.do(OperationKind.SYNC, path)
            case "sync-folder":
                made.do(OperationKind.SYNC_FOLDER, draw(st.sampled_from(["", "d"])))
    return made


@settings(deadline=None)
@given(made=programs(), promise=st.sampled_from(Promise))
def test_what_was_done_is_there_first_of_all_and_each_tree_is_another(made: Program, promise: Promise) -> None:
    found = power_losses(Tree(), made.done, promise)
    assert found[0].what == "nothing"
    assert shown(found[0].tree) == shown(made.tree)
    trees = [(shown(loss.tree), attributes(loss.tree)) for loss in found]
    assert all(tree not in trees[:place] for place, tree in enumerate(trees))


@settings(deadline=None)
@given(made=programs())
def test_a_strict_file_system_loses_a_tail_and_nothing_that_any_sync_covers(made: Program) -> None:
    syncs = [
        place for place, one in enumerate(made.done) if one.kind in (OperationKind.SYNC, OperationKind.SYNC_FOLDER)
    ]
    kept = syncs[-1] + 1 if syncs else 0
    prefixes = [shown(applied(Tree(), made.done[:end])) for end in range(kept, len(made.done) + 1)]
    assert all(tree in prefixes for tree in left(made.done, Promise.STRICT))


@settings(deadline=None)
@given(made=programs(), promise=st.sampled_from(Promise))
def test_what_is_synced_whole_has_one_tree(made: Program, promise: Promise) -> None:
    made.sync_all()
    assert left(made.done, promise) == [shown(made.tree)]


@settings(deadline=None, max_examples=300)
@given(made=programs(), promise=st.sampled_from(Promise))
def test_a_content_that_a_sync_covers_is_in_every_tree_that_has_its_file(made: Program, promise: Promise) -> None:
    seen = Tree()
    covered: dict[File, bytes] = {}
    for one in made.done:
        if one.kind in (OperationKind.WRITE, OperationKind.TRUNCATE):
            covered.pop(seen.file_of(one), None)
        elif one.kind is OperationKind.SYNC:
            covered[seen.file_of(one)] = bytes(seen.file_of(one).content)
        seen.apply(one)
    inodes = {inode: covered[file] for inode, file in seen.files.items() if file in covered}
    for loss in power_losses(Tree(), made.done, promise):
        for inode, content in inodes.items():
            if inode in loss.tree.files:
                assert bytes(loss.tree.files[inode].content) == content, loss.what


@settings(deadline=None, max_examples=300)
@given(made=programs())
def test_names_that_the_journal_has_committed_are_in_every_tree(made: Program) -> None:
    """Whatever was synced, with ext4; and none that is not moved later."""
    made.do(OperationKind.SYNC_FOLDER, "")
    names = set(made.tree.nodes)
    for loss in power_losses(Tree(), made.done, Promise.EXT4_ORDERED):
        assert set(loss.tree.nodes) == names, loss.what
    made.write("new", b"x")
    for loss in power_losses(Tree(), made.done, Promise.EXT4_ORDERED):
        assert set(loss.tree.nodes) >= names, loss.what


# What is known of each promise


def renamed_in_place(*, synced: bool = False, over: bool = False) -> Program:
    made = Program()
    if over:
        made.write("out", b"old").sync_all()
    made.write("draft", b"rows")
    if synced:
        made.do(OperationKind.SYNC, "draft")
    return made.do(OperationKind.RENAME, "draft", "out")


def test_a_file_that_was_renamed_to_a_new_name_can_be_empty_with_ext4() -> None:
    found = left(renamed_in_place().done, Promise.EXT4_ORDERED)
    assert {"out": b""} in found
    assert {} in found


def test_a_file_that_was_synced_before_it_was_renamed_is_whole_or_has_its_old_name() -> None:
    found = left(renamed_in_place(synced=True).done, Promise.EXT4_ORDERED)
    assert found == [{"out": b"rows"}, {"draft": b"rows"}]


def test_a_rename_over_a_file_brings_the_content_along_with_ext4_and_not_with_posix_alone() -> None:
    made = renamed_in_place(over=True)
    assert all(tree["out"] in (b"old", b"rows") for tree in left(made.done, Promise.EXT4_ORDERED))
    assert {"out": b""} in left(made.done, Promise.NONE)


def test_an_exchange_of_two_files_brings_no_content_along_with_ext4_and_is_one_step() -> None:
    made = Program().write("out", b"old").sync_all().write("draft", b"rows").do(OperationKind.EXCHANGE, "draft", "out")
    found = left(made.done, Promise.EXT4_ORDERED)
    assert {"out": b"", "draft": b"old"} in found
    assert {"out": b"old", "draft": b"rows"} in found
    assert all(set(tree) == {"out", "draft"} for tree in found if tree["out"] != b"old")


def test_a_truncation_that_is_written_again_brings_the_content_along_with_ext4_and_not_with_posix_alone() -> None:
    made = Program().write("out", b"old").sync_all().do(OperationKind.TRUNCATE, "out").write("out", b"new")
    assert left(made.done, Promise.EXT4_ORDERED) == [{"out": b"new"}, {"out": b"old"}]
    assert {"out": b"new"} in left(made.done, Promise.NONE)


def test_a_sync_of_one_file_commits_all_names_and_no_other_content_with_ext4() -> None:
    made = Program().write("a", b"a").write("b", b"b").do(OperationKind.SYNC, "b")
    assert left(made.done, Promise.EXT4_ORDERED) == [{"a": b"a", "b": b"b"}, {"a": b"", "b": b"b"}]


def test_with_posix_alone_a_synced_file_can_lose_its_name_until_its_folder_is_synced() -> None:
    made = Program().write("a", b"a").do(OperationKind.SYNC, "a")
    assert {} in left(made.done, Promise.NONE)
    assert left(made.do(OperationKind.SYNC_FOLDER, "").done, Promise.NONE) == [{"a": b"a"}]


def marked(*, synced: bool = False) -> Program:
    made = Program().write("a", b"rows").sync_all().do(OperationKind.SET_ATTRIBUTE, "a", "user.done", data=b"1")
    return made.do(OperationKind.SYNC, "a") if synced else made


def marks(made: Program, promise: Promise) -> list[dict[str, bytes]]:
    found = power_losses(Tree(), made.done, promise)
    return [one for loss in found for one in attributes(loss.tree).values()]


@pytest.mark.parametrize("promise", Promise)
def test_an_extended_attribute_can_be_lost_until_its_file_is_synced(promise: Promise) -> None:
    assert marks(marked(), promise) == [{"user.done": b"1"}, {}]
    assert marks(marked(synced=True), promise) == [{"user.done": b"1"}]


@pytest.mark.parametrize("promise", Promise)
def test_whose_a_file_is_can_be_lost_until_it_is_synced(promise: Promise) -> None:
    made = Program().write("a", b"rows").sync_all().do(OperationKind.OWNER, "a", "0:100")
    assert {owner_in(tree) for tree in trees(made.done, promise)} == {(0, 100), None}
    assert {owner_in(tree) for tree in trees(made.do(OperationKind.SYNC, "a").done, promise)} == {(0, 100)}


def owner_in(tree: Tree) -> tuple[int, int] | None:
    node = tree.nodes["a"]
    assert isinstance(node, File)
    return node.owner


def test_with_posix_alone_a_synced_file_has_an_attribute_or_no_name() -> None:
    made = Program().write("a", b"rows").do(OperationKind.SET_ATTRIBUTE, "a", "user.done").do(OperationKind.SYNC, "a")
    assert marks(made, Promise.NONE) == [{"user.done": b""}]
    assert {} in left(made.done, Promise.NONE)


def test_with_posix_alone_of_two_names_the_first_can_be_lost_without_the_second() -> None:
    made = Program().write("a", b"a").write("b", b"b")
    assert {"b": b"b"} in left(made.done, Promise.NONE)
    assert {"b": b"b"} not in left(made.done, Promise.EXT4_ORDERED)


@pytest.mark.parametrize("promise", Promise)
def test_a_mark_of_a_folder_can_be_lost_until_it_is_synced_and_nothing_in_it_with_it(promise: Promise) -> None:
    made = Program().do(OperationKind.MKDIR, "d").sync_all().do(OperationKind.SET_ATTRIBUTE, "d", "user.done")
    made.write("d/a", b"rows").do(OperationKind.SYNC, "d/a")
    if promise is Promise.NONE:
        found = [tree for tree in trees(made.done, promise) if "d/a" in tree.nodes]
        assert {bool(marks_of(tree)) for tree in found} == {True, False}
    synced = made.do(OperationKind.SYNC_FOLDER, "d").done
    assert {bool(marks_of(tree)) for tree in trees(synced, promise)} == {True}


def trees(operations: Sequence[Operation], promise: Promise) -> list[Tree]:
    return [loss.tree for loss in power_losses(Tree(), operations, promise)]


def marks_of(tree: Tree) -> object:
    folder = tree.nodes["d"]
    assert isinstance(folder, Folder)
    return folder.attributes


def test_a_content_is_torn_between_two_pages() -> None:
    made = Program().write("a", b"x" * 4 * PAGE)
    assert {"a": b"x" * 2 * PAGE} in left(made.done, Promise.EXT4_ORDERED)
    assert {"a": bytes(2 * PAGE) + b"x" * 2 * PAGE} in left(made.done, Promise.NONE)


def in_halves(operations: Sequence[Operation]) -> Iterator[Operation]:
    """As they are journalled where a death can fall into a write."""
    for one in operations:
        half = PAGE if one.kind is OperationKind.WRITE and len(one.data) > PAGE else 0
        if half:
            yield msgspec.structs.replace(one, data=one.data[:half], half=True)
        yield msgspec.structs.replace(one, offset=one.offset + half, data=one.data[half:])


@settings(deadline=None)
@given(made=programs(), promise=st.sampled_from(Promise))
def test_a_write_that_a_death_can_cut_is_one_to_the_power(made: Program, promise: Promise) -> None:
    assert left(list(in_halves(made.done)), promise) == left(made.done, promise)


def test_what_a_death_has_left_of_a_write_is_written_and_what_comes_then_is_another_one() -> None:
    made = Program().write("a", b"x" * 2 * PAGE)
    created, half, _ = in_halves(made.done)
    then = Operation(OperationKind.WRITE, "a", offset=0, data=b"yy", file=half.file)
    for promise in Promise:
        assert left([created, half, then], promise)[0] == {"a": b"yy" + b"x" * (PAGE - 2)}


def test_a_page_that_is_written_in_place_is_as_it_was_when_it_was_synced() -> None:
    made = Program().write("a", b"o" * 2 * PAGE).sync_all().write("a", b"n" * 2 * PAGE)
    found = left(made.done, Promise.EXT4_ORDERED)
    assert [tree["a"][::PAGE] for tree in found] == [b"nn", b"oo", b"no"]


def test_what_is_done_in_a_folder_that_is_synced_is_kept_and_covers_nothing_else() -> None:
    made = Program().do(OperationKind.MKDIR, "kept").do(OperationKind.MKDIR, "sink").do(OperationKind.SYNC_FOLDER, "")
    made.write("sink/a", b"a").write("kept/0", b"v1").do(OperationKind.SYNC, "kept/0")
    found = left(made.done, Promise.EXT4_ORDERED, None, "kept")
    assert all(tree["kept/0"] == b"v1" for tree in found)
    assert {"kept": None, "sink": None, "kept/0": b"v1"} in found
    assert {"kept": None, "sink": None, "kept/0": b"v1", "sink/a": b""} in found


def test_what_was_there_before_the_first_operation_is_on_the_disk() -> None:
    base = Tree()
    base.nodes["d"] = Folder()
    base.nodes["d/a"] = base.files[7] = File(bytearray(b"a"))
    made = [Operation(OperationKind.WRITE, "d/a", data=b"b", file=7)]
    for promise in Promise:
        assert left(made, promise, base) == [{"d": None, "d/a": b"b"}, {"d": None, "d/a": b"a"}]


def test_an_inode_that_is_used_again_is_another_file() -> None:
    made = [
        Operation(OperationKind.CREATE, "a", file=7),
        Operation(OperationKind.WRITE, "a", data=b"a", file=7),
        Operation(OperationKind.SYNC, "a", file=7),
        Operation(OperationKind.UNLINK, "a"),
        Operation(OperationKind.CREATE, "b", file=7),
        Operation(OperationKind.WRITE, "b", data=b"b", file=7),
    ]
    assert left(made, Promise.EXT4_ORDERED) == [{"b": b"b"}, {"a": b"a"}, {"b": b""}, {}]


def test_a_loss_says_what_was_lost() -> None:
    said = [loss.what for loss in power_losses(Tree(), renamed_in_place().done, Promise.EXT4_ORDERED)]
    assert "what out was written since its last fsync" in said
    assert "the rename of draft to out, and what was done after it" in said


def test_with_posix_alone_who_syncs_a_folder_has_synced_the_names_by_which_it_is_reached() -> None:
    made = (
        Program()
        .do(OperationKind.MKDIR, "d")
        .write("d/a", b"a")
        .do(OperationKind.SYNC, "d/a")
        .do(OperationKind.SYNC_FOLDER, "d")
    )
    assert left(made.done, Promise.NONE) == [{"d": None, "d/a": b"a"}]


@pytest.mark.parametrize("promise", Promise)
def test_a_folder_that_is_synced_keeps_its_mark_and_is_there_though_its_own_folder_is_not_synced(
    promise: Promise,
) -> None:
    made = Program().do(OperationKind.MKDIR, "d").do(OperationKind.SET_ATTRIBUTE, "d", "user.done", data=b"1")
    made.do(OperationKind.SYNC_FOLDER, "d").write("a", b"rows")
    found = [loss.tree for loss in power_losses(Tree(), made.done, promise)]
    assert found
    assert [attributes(tree).get("d") for tree in found] == [{"user.done": b"1"}] * len(found)
