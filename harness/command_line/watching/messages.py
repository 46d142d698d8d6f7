"""What a command tells the process that shows it: a line of JSON each, by its standard input."""

from __future__ import annotations

from typing import Any

import msgspec


class WatchOpening(msgspec.Struct, frozen=True, tag="opening"):
    """The first: who asks for the page has to show this token."""

    token: str


class WatchRun(msgspec.Struct, frozen=True, tag="run"):
    """From here on, the run that is recorded in this folder."""

    folder: bytes
    """Its name need not be text."""


class WatchCampaign(msgspec.Struct, frozen=True, tag="campaign"):
    """The campaign in this folder."""

    folder: bytes


class WatchSearch(msgspec.Struct, frozen=True, tag="search"):
    """A search, as `explore --json` would print it now."""

    document: dict[str, Any]


class Said(msgspec.Struct, frozen=True, tag="said"):
    """The command's live line."""

    line: str


class WatchEnded(msgspec.Struct, frozen=True, tag="ended"):
    """The command is done, and goes once the last page is out."""


WatchedSubject = WatchRun | WatchCampaign | WatchSearch
ToldToWatch = WatchOpening | WatchRun | WatchCampaign | WatchSearch | Said | WatchEnded


class WatchOpened(msgspec.Struct, frozen=True):
    """What that process answers, once: where it listens, or why it does not."""

    port: int = 0
    trouble: str = ""


encode_told = msgspec.json.Encoder(enc_hook=str).encode
decode = msgspec.json.Decoder(ToldToWatch).decode
decode_opened = msgspec.json.Decoder(WatchOpened).decode
