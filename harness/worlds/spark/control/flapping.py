"""A link that is cut, and carries, and is cut again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ....core.quantities import Duration
from ....recording.history import Proof

Mend = Callable[[], Proof]


class Do(Protocol):
    """Calls something, in the loop or in a thread."""

    def __call__(self, call: Callable[[], Any], /) -> Awaitable[Any]: ...


async def in_the_loop(call: Callable[[], Any]) -> Any:
    """For what takes no time."""
    return call()


class Flapping:
    """Cuts at once, in the loop that it is made in, and then goes on until it heals."""

    def __init__(self, cut: Callable[[], Mend], every: Duration, do: Do) -> None:
        """It is cut for so long, and carries for so long; `do` is how it is mended, and cut again."""
        self._cut = cut
        self._every = every
        self._do = do
        self._cuts = 1
        self._count = 0
        self._what = ""
        self._healed = asyncio.Event()
        self._mend: Mend | None = cut()
        self._going_on = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        while not await self._heals_within(self._every.seconds):
            if self._mend is None:
                self._mend = await self._do(self._cut)
                self._cuts += 1
            else:
                await self._mended(self._mend)

    async def _heals_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._healed.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _mended(self, mend: Mend) -> None:
        proof: Proof = await self._do(mend)
        self._mend = None
        self._count += proof.count
        self._what = proof.what

    async def heal(self) -> Proof:
        """Raises what a cut or its end has failed with."""
        self._healed.set()
        await self._going_on
        if self._mend is not None:
            await self._mended(self._mend)
        return Proof(self._count if self._cuts > 1 else 0, f"{self._what}, in {self._cuts} cuts")
