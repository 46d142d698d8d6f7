"""A store behind a real HTTP server: what is posted is added, once for each idempotency key where one is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Rows:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, list[Any]] = {}
        self._keys: set[tuple[str, str]] = set()

    def reset(self, path: str) -> None:
        with self._lock:
            self._rows[path] = []

    def add(self, path: str, rows: list[Any], key: str | None) -> None:
        with self._lock:
            if key is None or (path, key) not in self._keys:
                self._rows.setdefault(path, []).extend(rows)
            if key is not None:
                self._keys.add((path, key))

    def get(self, path: str) -> list[Any]:
        with self._lock:
            return list(self._rows.get(path, ()))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    rows: _Rows

    def do_GET(self) -> None:
        self._answer(self.rows.get(self.path))

    def do_DELETE(self) -> None:
        self.rows.reset(self.path)
        self._answer([])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.rows.add(self.path, json.loads(body), self.headers["Idempotency-Key"])
        self._answer([])

    def _answer(self, rows: list[Any]) -> None:
        body = json.dumps(rows).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test says what it has seen."""


@contextmanager
def web_store() -> Iterator[int]:
    """Gives the port."""
    handler = type("Handler", (_Handler,), {"rows": _Rows()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
