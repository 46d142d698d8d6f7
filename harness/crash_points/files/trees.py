"""What folders hold, in memory: a tree that operations change as the file system would."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ...core.errors import OwnFailure, StorageFailed
from .operations import MOVES, OF_NAMES, Operation, OperationKind

USERS_OWN: Final = "user."
"""How the names of extended attributes begin that anybody may set."""


@dataclass(eq=False, slots=True)
class File:
    """A file, under however many names."""

    content: bytearray = field(default_factory=bytearray)
    changed: int = 0
    """When, ns since 1970."""
    token: bytes = b""
    """Equal for two files that the same writes have made."""
    mode: int | None = None
    """Its permission bits; None: those that a new file gets."""
    attributes: dict[str, bytes] = field(default_factory=dict)
    """Its extended attributes."""
    owner: tuple[int, int] | None = None
    """The numbers of its user and its group; None: those that a new file gets."""
    touched: int = 0
    """When it, or anything that is known of it, was changed last (`st_ctime`), ns since 1970."""
    accessed: int | None = None
    """When it was last looked at (`st_atime`), as somebody has said, ns since 1970; None: that was not said."""
    origin: int = 0
    """From where the token counts offsets, bytes."""

    def write(self, offset: int, data: bytes) -> None:
        if len(self.content) < offset:
            self.content.extend(bytes(offset - len(self.content)))
        self.content[offset : offset + len(data)] = data
        self._note(b"w%d:" % (offset - self.origin), data)

    def truncate(self, length: int) -> None:
        if length < len(self.content):
            del self.content[length:]
        else:
            self.content.extend(bytes(length - len(self.content)))
        self._note(b"t%d" % (length - self.origin))

    def permit(self, mode: int) -> None:
        self.mode = mode
        self._note(b"m%d" % mode)

    def own(self, owner: tuple[int, int]) -> None:
        self.owner = owner
        self._note(b"o%d:%d" % owner)

    def attribute(self, name: str, value: bytes | None) -> None:
        """Give one a value; None: take it away."""
        if value is None:
            self.attributes.pop(name, None)
            self._note(b"r", name.encode(errors="surrogateescape"))
        else:
            self.attributes[name] = value
            self._note(b"a%d:" % len(value), value, name.encode(errors="surrogateescape"))

    def begin_anew(self, token: bytes) -> None:
        """From now on, its token tells of what is done to it since, counted from its present end."""
        self.token, self.origin = token, len(self.content)

    def _note(self, *what: bytes) -> None:
        told = hashlib.sha256(self.token)
        for part in what:
            told.update(part)
        self.token = told.digest()

    def copied(self) -> File:
        return replace(self, content=bytearray(self.content), attributes=dict(self.attributes))


@dataclass(frozen=True)
class Symlink:
    """A symbolic one."""

    text: str


@dataclass(frozen=True)
class Meeting:
    """A named pipe or a socket, where processes meet: it holds nothing that outlives them."""

    mode: int
    """What it is, and its permission bits."""


@dataclass(eq=False, slots=True)
class Folder:
    """What a path is that holds names."""

    mode: int | None = None
    """Its permission bits; None: those that a new folder gets."""
    changed: int | None = None
    """When it was changed, as somebody has said since; None: that was not said, or its names have changed since."""
    attributes: dict[str, bytes] = field(default_factory=dict)
    """Its extended attributes."""
    owner: tuple[int, int] | None = None
    """The numbers of its user and its group; None: those that a new folder gets."""
    named: int | None = None
    """When its names were changed last, ns since 1970; None: nobody knows."""
    touched: int = 0
    """As of a file."""
    accessed: int | None = None
    """As of a file."""

    def permit(self, mode: int) -> None:
        self.mode = mode

    def own(self, owner: tuple[int, int]) -> None:
        self.owner = owner

    def attribute(self, name: str, value: bytes | None) -> None:
        """Give one a value; None: take it away."""
        if value is None:
            self.attributes.pop(name, None)
        else:
            self.attributes[name] = value

    def copied(self) -> Folder:
        return replace(self, attributes=dict(self.attributes))


TreeNode = File | Symlink | Meeting | Folder


class Tree:
    """Path -> what is there. The root is the empty path, and always there."""

    def __init__(self) -> None:
        self.nodes: dict[str, TreeNode] = {}
        self.files: dict[int, File] = {}
        """Inode -> the file that an operation through a handle means."""

    @classmethod
    def read(cls, folder: Path) -> Tree:
        """Raises StorageFailed."""
        tree = cls()
        try:
            for path in sorted(folder.rglob("*")):
                name = str(path.relative_to(folder))
                if path.is_symlink():
                    tree.nodes[name] = Symlink(os.readlink(path))
                    continue
                about = path.stat()
                mode = stat.S_IMODE(about.st_mode)
                owner = None if owner_of(about) == (os.geteuid(), os.getegid()) else owner_of(about)
                if path.is_dir():
                    attributes, times = attributes_of(path), (about.st_mtime_ns, about.st_ctime_ns)
                    tree.nodes[name] = Folder(mode, None, attributes, owner, *times)
                elif not path.is_file():
                    tree.nodes[name] = Meeting(about.st_mode)
                else:
                    content = path.read_bytes()
                    found = File(bytearray(content), about.st_mtime_ns, hashlib.sha256(content).digest(), mode)
                    found.touched = about.st_ctime_ns
                    for attribute, value in attributes_of(path).items():
                        found.attribute(attribute, value)
                    if owner is not None:
                        found.own(owner)
                    tree.nodes[name] = tree.files.setdefault(about.st_ino, found)
        except OSError as error:
            raise StorageFailed(f"cannot read {error.filename}: {error.strerror or error}") from error
        return tree

    def copied(self) -> Tree:
        tree = Tree()
        known: dict[int, File] = {}
        for path, node in self.nodes.items():
            match node:
                case File():
                    tree.nodes[path] = known.setdefault(id(node), node.copied())
                case Folder():
                    tree.nodes[path] = node.copied()
                case _:
                    tree.nodes[path] = node
        tree.files = {inode: known.setdefault(id(file), file.copied()) for inode, file in self.files.items()}
        return tree

    def begin_anew(self, called: Callable[[str], str]) -> None:
        """From now on, the tokens of its files tell of what they were called just now, and what is done since."""
        begun: set[int] = set()
        for path, node in sorted(self.nodes.items()):
            if isinstance(node, File) and id(node) not in begun:
                begun.add(id(node))
                node.begin_anew(called(path).encode(errors="surrogateescape"))

    def write_to(self, folder: Path) -> None:
        """Make a folder hold exactly this, which must be empty. Its files are known by their new inodes from then on.
        Raises StorageFailed."""
        made: dict[int, Path] = {}
        self.files = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in sorted(self.nodes):
                node, path = self.nodes[name], folder / name
                match node:
                    case File():
                        if id(node) in made:
                            os.link(made[id(node)], path)
                            continue
                        path.write_bytes(node.content)
                        _set_inode(path, node)
                        made[id(node)] = path
                        self.files[path.stat().st_ino] = node
                    case Symlink():
                        path.symlink_to(node.text)
                    case Meeting():
                        os.mknod(path, node.mode)
                    case Folder():
                        path.mkdir(exist_ok=True)
            # Once each holds what it holds: that may be forbidden from then on, and changes the time.
            for name in sorted(self.nodes, reverse=True):
                if isinstance(held := self.nodes[name], Folder):
                    _set_inode(folder / name, held)
        except OSError as error:
            raise StorageFailed(f"cannot put {error.filename} back: {error.strerror or error}") from error

    def times_in(self, folder: Path) -> tuple[tuple[int, int, int], ...]:
        """Of each file and folder, as `write_to` has just made them there: its inode, when it was made, as the disk
        below says it (`st_ctime`), which nobody can set, and when it was really touched last, ns since 1970. Raises
        StorageFailed."""
        found = {}
        try:
            for name, node in self.nodes.items():
                if isinstance(node, File | Folder) and node.touched:
                    about = os.lstat(folder / name)
                    found[about.st_ino] = about.st_ctime_ns, node.touched
        except OSError as error:
            raise StorageFailed(f"cannot look at {error.filename}: {error.strerror or error}") from error
        return tuple((inode, *times) for inode, times in found.items())

    def under(self, path: str) -> Iterator[str]:
        """What lies in a folder, at any depth."""
        beginning = f"{path}/" if path else ""
        return (name for name in self.nodes if name.startswith(beginning))

    def apply(self, one: Operation) -> None:
        """Do an operation that was done. What was only looked at changes nothing.

        Raises OwnFailure for one that cannot have been done to this tree.
        """
        if one.kind in OF_NAMES:
            for path in (one.path, one.other) if one.kind in MOVES else (one.path,):
                if isinstance(above := self.nodes.get(path.rpartition("/")[0]), Folder):
                    above.changed = None
                    above.named = above.touched = one.at
        match one.kind:
            case OperationKind.CREATE:
                made = File(changed=one.at, touched=one.at)
                made.write(0, b"")
                self.nodes[one.path] = self.files[one.file] = made
            case OperationKind.WRITE:
                file = self.file_of(one)
                file.write(one.offset, one.data)
                file.changed = file.touched = one.at
            case OperationKind.TRUNCATE:
                file = self.file_of(one)
                file.truncate(one.offset)
                file.changed = file.touched = one.at
            case OperationKind.RENAME:
                self._rename(one.path, one.other)
                self._touch(one.other, one.at)
            case OperationKind.EXCHANGE:
                self._exchange(one.path, one.other)
                self._touch(one.path, one.at)
                self._touch(one.other, one.at)
            case OperationKind.LINK:
                self.nodes[one.path] = self._node(one.other)
                self._touch(one.path, one.at)
            case OperationKind.SYMLINK:
                self.nodes[one.path] = Symlink(one.other)
            case OperationKind.MKNOD:
                self.nodes[one.path] = Meeting(one.offset)
            case OperationKind.UNLINK | OperationKind.RMDIR:
                self._node(one.path)
                # It may have other names.
                self._touch(one.path, one.at)
                del self.nodes[one.path]
            case OperationKind.MKDIR:
                self.nodes[one.path] = Folder(named=one.at, touched=one.at)
            case OperationKind.TIMES:
                node = self._inode_of(one)
                if isinstance(node, File | Folder):
                    node.changed, node.touched = one.offset, one.at
                    node.accessed = int(one.other) if one.other else node.accessed
            case (
                OperationKind.MODE | OperationKind.OWNER | OperationKind.SET_ATTRIBUTE | OperationKind.REMOVE_ATTRIBUTE
            ):
                self._give(one, self.holder_of(one))
            case _:
                return

    def _give(self, one: Operation, holder: File | Folder) -> None:
        """Permissions, an owner or an attribute."""
        holder.touched = one.at
        match one.kind:
            case OperationKind.MODE:
                holder.permit(one.offset)
            case OperationKind.OWNER:
                user, group = map(int, one.other.split(":"))
                holder.own((user, group))
            case _:
                is_set = one.kind is OperationKind.SET_ATTRIBUTE
                holder.attribute(one.other, one.data if is_set else None)

    def _touch(self, path: str, at: int) -> None:
        node = self.nodes.get(path)
        if isinstance(node, File | Folder):
            node.touched = at

    def _rename(self, old: str, new: str) -> None:
        moved = self._node(old)
        if old == new or (isinstance(moved, File) and self.nodes.get(new) is moved):
            # Two names of one file: then a rename does nothing.
            return
        if not isinstance(moved, Folder):
            self.nodes[new] = self.nodes.pop(old)
            return
        self._put(new, self._taken(old))

    def _exchange(self, one: str, other: str) -> None:
        self._node(one)
        self._node(other)
        first, second = self._taken(one), self._taken(other)
        self._put(other, first)
        self._put(one, second)

    def _taken(self, path: str) -> dict[str, TreeNode]:
        """What a path is, and all that is under it, by the rest of its path; it is there no more."""
        return {name[len(path) :]: self.nodes.pop(name) for name in [path, *self.under(path)] if name in self.nodes}

    def _put(self, path: str, taken: Mapping[str, TreeNode]) -> None:
        self.nodes.update((path + rest, node) for rest, node in taken.items())

    def _node(self, path: str) -> TreeNode:
        node = self.nodes.get(path)
        if node is None:
            raise OwnFailure(f"the journal of file operations has {path!r}, which is not there at that moment")
        return node

    def _inode_of(self, one: Operation) -> TreeNode | None:
        """A folder has one name; a file may have another one by now than that by which it was opened, or none."""
        named = self.nodes.get(one.path)
        return named if isinstance(named, Folder) else self.files.get(one.file) or named

    def holder_of(self, one: Operation) -> File | Folder:
        """The file or folder that an operation on its owner, permissions or attributes means. Raises OwnFailure where
        there is none."""
        named = self._inode_of(one)
        return named if isinstance(named, Folder) else self.file_of(one)

    def file_of(self, one: Operation) -> File:
        """The file that an operation on contents means. Raises OwnFailure where there is none."""
        file = self.files.get(one.file)
        if file is None:
            found = self._node(one.path)
            if not isinstance(found, File):
                raise OwnFailure(f"the journal of file operations writes to {one.path!r}, which is no file")
            file = self.files[one.file] = found
        return file


def remove_folder(folder: Path) -> None:
    """With all that it holds, whatever its owner has forbidden to do with it. Raises OSError."""
    folder.chmod(stat.S_IRWXU)
    for where, names, _ in os.walk(folder):
        for path in (Path(where, name) for name in names):
            if not path.is_symlink():
                path.chmod(stat.S_IRWXU)
    shutil.rmtree(folder)


def mark(path: Path, attributes: Mapping[str, bytes], owner: tuple[int, int] | None, mode: int | None) -> None:
    """Give a file or folder its extended attributes, its owner and group, and its permissions; None: as they are.
    Raises OSError."""
    for attribute, value in attributes.items():
        os.setxattr(path, attribute, value)
    if owner is not None:
        # Before the permissions, of which a new owner takes some away.
        os.chown(path, *owner)
    if mode is not None:
        path.chmod(mode)


def _set_inode(path: Path, node: File | Folder) -> None:
    mark(path, node.attributes, node.owner, node.mode)
    changed = node.named if isinstance(node, Folder) and node.changed is None else node.changed
    if changed is not None:
        os.utime(path, ns=(changed if node.accessed is None else node.accessed, changed))


def owner_of(about: os.stat_result) -> tuple[int, int]:
    """The numbers of its user and its group."""
    return about.st_uid, about.st_gid


def attributes_of(path: Path) -> dict[str, bytes]:
    """The extended attributes of a file or folder that are its users' own."""
    if not hasattr(os, "listxattr"):
        # Python has them on Linux alone.
        return {}
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in names if name.startswith(USERS_OWN)}
