"""Audit: who changed what, and who was refused, a line each in a file.

Owns        which requests are noted, the form of a line, when the file gives way to the next one.
Must not know   handlers, the rules (rocketlake.auth).

A line is one JSON object: time, user, from, request, fields, outcome, why. Bodies are not noted: they may hold secrets.
Sends, reads and what members of a cluster tell each other are noted only when they are refused, and the same refusal
once a second at most. A host from which nobody signs has one line a second, whatever it says of itself: with more, a
stranger could have it that all lines before his are rotated away. A line is in the page cache when its request is
answered: a power cut may take the last ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

from rocketlake.auth.action import Action
from rocketlake.auth.signature import ACCESS_KEY, SIGNATURE
from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import File, Files
from rocketlake.base.health import Health
from rocketlake.net.gate.needs import Needs
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.request_code import request_name
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Audit"]

_TROUBLE: Final = "audit"
_FILE_BYTES: Final = 16 << 20
_FILES: Final = 5
_FIELDS: Final = 32
_FIELD_CHARS: Final = 200
_SAME_SECONDS: Final = 1.0
_SEEN_MAX: Final = 4096
_CHANGES: Final = frozenset({Action.CREATE, Action.UPDATE, Action.DELETE})


class Audit:
    """Of one server; its files are `path`, `path.1` (older) and so on."""

    def __init__(
        self, path: Path, files: Files, clock: Clock, health: Health, also: Callable[[bytes], None] | None = None
    ) -> None:
        """`also`: gets each line behind the file, whether or not the file could be written."""
        self._path = path
        self._files = files
        self._clock = clock
        self._health = health
        self._also = also
        self._file: File | None = None
        self._end = 0
        self._refused: dict[tuple[str, str, int] | str, float] = {}
        """When a line told this refusal: by user, host and code; of somebody unknown by host alone."""

    def note(self, request: Request, needs: Needs, reply: Reply) -> None:
        """A request was answered. A file that cannot be written makes the health red, and stops no request."""
        is_refusal = reply.code == ResponseCode.NO_PERMISSION
        if not (is_refusal or needs.takes or (needs.actions & _CHANGES and not needs.inner)):
            return
        if is_refusal and self._is_told(request):
            return
        line = json.dumps(self._told(request, reply), ensure_ascii=False).encode() + b"\n"
        try:
            self._write(line)
        except OSError as error:
            self._file = None
            self._health.set(_TROUBLE, f"{self._path} cannot be written: {error.strerror}")
        else:
            self._health.set(_TROUBLE, "")
        if self._also is not None:
            self._also(line.rstrip(b"\n"))

    def _is_told(self, request: Request) -> bool:
        now, host, user = self._clock.monotonic(), request.asker.remote[0], request.user
        key = host if user is None else (user.name, host, request.code)
        if now - self._refused.get(key, -_SAME_SECONDS) < _SAME_SECONDS:
            return True
        if len(self._refused) >= _SEEN_MAX:
            self._refused.clear()
        self._refused[key] = now
        return False

    def _told(self, request: Request, reply: Reply) -> dict[str, object]:
        fields = {
            name[:_FIELD_CHARS]: text[:_FIELD_CHARS]
            for name, text in islice((request.command.fields or {}).items(), _FIELDS)
            if name not in (ACCESS_KEY, SIGNATURE)
        }
        claimed = (request.command.fields or {}).get(ACCESS_KEY, "")[:_FIELD_CHARS]
        user = request.user.name if request.user is not None else None
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(self._clock.now_ms() / 1000, tz=UTC).isoformat(timespec="milliseconds"),
            "user": user,
            "from": request.address,
            "request": request_name(request.code),
            "fields": fields,
            "outcome": ResponseCode(reply.code).name if reply.code in set(ResponseCode) else reply.code,
        }
        if user is None and claimed:
            line["claims"] = claimed
        if reply.remark:
            line["why"] = reply.remark[:1000]
        return line

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self._files.make_dirs(self._path.parent)
            self._file = self._files.open(self._path, create=True)
            self._files.make_private(self._path)
            self._end = self._file.size
        elif self._end + len(line) > _FILE_BYTES:
            self._file.close()
            self._file = None
            for number in range(_FILES - 1, 0, -1):
                older = self._numbered(number - 1)
                if self._files.exists(older):
                    self._files.rename(older, self._numbered(number))
            self._write(line)
            return
        self._file.pwrite(line, self._end)
        self._end += len(line)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path
