"""What the commands find by name."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..contracts.registry import Registry


def registered() -> Registry:
    from ..contracts.registry import Registry

    # What lies in the current directory can be named as module:attribute, and a run's processes inherit the path.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    return Registry()
