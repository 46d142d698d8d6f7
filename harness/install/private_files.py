"""Files for this user alone: they hold the secret or the token of a run."""

from __future__ import annotations

from pathlib import Path

from ..core.errors import StorageFailed


def write_private(path: Path, body: bytes | str) -> Path:
    """Put something where only this user can read it. Raises StorageFailed."""
    try:
        path.touch(mode=0o600)
        path.write_bytes(body if isinstance(body, bytes) else body.encode())
    except OSError as error:
        raise StorageFailed(f"{path} cannot be written: {error.strerror or error}") from error
    return path
