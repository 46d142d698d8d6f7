"""Serves the live view: on loopback, to whoever shows the token, and to nobody else."""

from __future__ import annotations

import hmac
import json
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from ...reporting.html.document import render
from .board import Board

LOOPBACK: Final = "127.0.0.1"
_SHELL_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
    "frame-src 'self'; frame-ancestors 'none'"
)
_PAGE_POLICY: Final = "frame-ancestors 'self'"
_REFUSED: Final = "streamproof: open the whole address that the command has printed; it ends in a token.\n"
_TIMEOUT: Final = 10.0
"""Seconds that whoever has connected may say nothing."""


class WatchServer(ThreadingHTTPServer):
    """One command's. Its address is `http://127.0.0.1:PORT/TOKEN/`."""

    daemon_threads = True

    def __init__(self, board: Board, token: str) -> None:
        """Raises OSError where nothing can listen."""
        super().__init__((LOOPBACK, 0), _Handler)
        self.board = board
        self.token = token

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is nothing to speak of."""


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    timeout = _TIMEOUT

    def do_GET(self) -> None:
        _, token, *what = self.path.partition("?")[0].split("/")
        if not self._may(token):
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", _REFUSED)
            return
        board = self.server.board
        match what:
            case [""]:
                self._answer(HTTPStatus.OK, "text/html", render("watch.html.jinja"), _SHELL_POLICY)
            case ["state"]:
                self._answer(HTTPStatus.OK, "application/json", json.dumps(asdict(board.state())))
            case ["page"]:
                number, page = board.page()
                page = page or render("watch_nothing.html.jinja", title="Nothing has happened yet")
                self._answer(HTTPStatus.OK, "text/html", page, _PAGE_POLICY)
                # Not before: once the last page is out, nobody is there to send the rest of it.
                board.gave(number)
            case _:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain", "streamproof: there is nothing here.\n")

    def _may(self, token: str) -> bool:
        # A name that somebody else has led to this machine is not ours, whatever else it shows.
        port = self.server.port
        ours = self.headers.get("Host", "") in (f"{LOOPBACK}:{port}", f"localhost:{port}")
        return hmac.compare_digest(token.encode(), self.server.token.encode()) and ours

    def _answer(self, status: HTTPStatus, kind: str, text: str, policy: str = "default-src 'none'") -> None:
        content = text.encode(errors="replace")
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", policy),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return "streamproof"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the address has the token in it."""
