"""Whether code is executed in a greenlet: by gevent, eventlet, or SQLAlchemy's asyncio, who put stacks of their own in
the place of a thread's."""

from __future__ import annotations

import sys
from typing import Final

_PACKAGE: Final = "greenlet"


def in_a_greenlet() -> bool:
    """In another one than that in which its thread has begun."""
    found = sys.modules.get(_PACKAGE)
    current = None if found is None else getattr(found, "getcurrent", None)
    return current is not None and current().parent is not None
