"""What file systems promise of the time before a loss of power."""

from __future__ import annotations

from enum import StrEnum


class Promise(StrEnum):
    STRICT = "strict"
    """Everything reaches the disk in the order in which it was done."""
    EXT4_ORDERED = "ext4-ordered"
    """Names do, and contents once they are synced: ext4 as it is mounted where nobody says otherwise."""
    NONE = "none"
    """Nothing does but what is synced: a file's content by its fsync, a folder's names by that of the folder."""


class Extent(StrEnum):
    """Which part of what was not synced is lost."""

    NOTHING = "nothing"
    EVERYTHING = "everything"
    CONTENTS = "contents"
    """All that was written to some files, which stay."""
    SOME = "some"
    """Names, or a piece of a content."""
