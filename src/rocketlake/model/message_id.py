"""The two ids of a message: the unique key its client made, the place where a broker stored it; its recall handle.

Owns        layout, making and taking apart of them.
Must not know   the machine's clock, addresses and process id: they are given.

Source: Java MessageClientIDSetter and MessageDecoder. Both are upper-case hex, 32 characters for IPv4, 56 for IPv6.
The handle, by which a message that waits for its time is taken back, is that of RecallMessageHandle.HandleV1: URL-safe
Base64 with padding of "v1 topic broker time id".
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import itertools
import sys
from array import array
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

from rocketlake.base.errors import UsageError

__all__ = ["RecallHandle", "UniqueKeyMaker", "offset_message_id", "offset_message_ids", "parse_offset_message_id"]

_VERSION = "v1"
_SEPARATOR = " "
_SWAPS = sys.byteorder == "little"


class UniqueKeyMaker:
    """Makes ids no other process makes: address, process, instance, milliseconds in this month, counter."""

    def __init__(
        self, ip: str, pid: int, clock_ms: Callable[[], int], *, instance: int = 0, zone: tzinfo | None = None
    ) -> None:
        """`ip` in text; `instance` tells makers of one process apart; `zone` (default: local) is the month's."""
        address = ipaddress.ip_address(ip).packed
        fixed = address + (pid & 0xFFFF).to_bytes(2, "big") + (instance & 0xFFFFFFFF).to_bytes(4, "big")
        self._prefix = fixed.hex().upper()
        self._clock_ms = clock_ms
        self._zone = zone
        self._counter = itertools.count()
        self._made_ms = -1
        self._start = ""
        self._month_starts = 0
        self._month_ends = 0

    def make(self) -> str:
        """A new id."""
        return f"{self._start_now()}{next(self._counter) & 0xFFFF:04X}"

    def make_run(self, count: int) -> list[str]:
        """So many new ids, one or more; one millisecond has 65,536."""
        start = self._start_now()
        numbers = array("H", [number & 0xFFFF for number in itertools.islice(self._counter, count)])
        if _SWAPS:
            numbers.byteswap()
        text = numbers.tobytes().hex(",", 2).upper()
        return f"{start}{text}".replace(",", f",{start}").split(",")

    def _start_now(self) -> str:
        now = self._clock_ms()
        if now != self._made_ms:
            self._start = self._prefix + self._since(now)
            self._made_ms = now
        return self._start

    def _since(self, now: int) -> str:
        if not self._month_starts <= now < self._month_ends:
            self._enter_month(now)
        # 2,678,400,000 ms of a long month do not fit a signed 32-bit number; Java wraps around in the same way.
        return f"{(now - self._month_starts) & 0xFFFFFFFF:08X}"

    def _enter_month(self, now_ms: int) -> None:
        now = datetime.fromtimestamp(now_ms / 1000, self._zone)
        first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
        self._month_starts = round(first.timestamp() * 1000)
        self._month_ends = round(after.timestamp() * 1000)


def offset_message_id(host: str, port: int, physical_offset: int) -> str:
    """The id that says where a message is stored: "0A00000100002A9F0000000000000010"."""
    return f"{_address_part(host, port)}{physical_offset & 0xFFFFFFFFFFFFFFFF:016X}"


def offset_message_ids(host: str, port: int, physical_offsets: Sequence[int]) -> str:
    """The ids of many messages of one broker, with commas between them: there may be a hundred thousand."""
    start = _address_part(host, port)
    places = array("Q", physical_offsets)
    places.byteswap()
    text = places.tobytes().hex(",", 8).upper()
    return start + text.replace(",", f",{start}") if text else ""


@lru_cache(maxsize=1024)
def _address_part(host: str, port: int) -> str:
    # A broker makes an id for each message it stores, always with its own address.
    return f"{ipaddress.ip_address(host).packed.hex().upper()}{port & 0xFFFFFFFF:08X}"


def parse_offset_message_id(text: str) -> tuple[str, int, int]:
    """(host, port, physical offset). UsageError if it is no such id."""
    data = _from_hex(text)
    address = ipaddress.ip_address(data[:-12])
    port = int.from_bytes(data[-12:-8], "big", signed=True)
    offset = int.from_bytes(data[-8:], "big", signed=True)
    if not 0 <= port <= 65535 or offset < 0:
        raise UsageError(
            f"{text[:60]!r} is no offset message id", hint="give the 32 or 56 hex digits that a broker returned"
        )
    return str(address), port, offset


def _from_hex(text: str) -> bytes:
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) not in (16, 28) or len(text) != 2 * len(data):
        raise UsageError(f"{text[:60]!r} is no message id", hint="give an id of 32 or 56 hex digits")
    return data


class RecallHandle(NamedTuple):
    """Names one waiting message."""

    topic: str
    broker_name: str
    due_text: str
    """Epoch ms: one more than TIMER_OUT_MS, so that it leads to the same tick."""
    message_id: str

    @property
    def due_ms(self) -> int:
        """The time in it; -1 if it is none."""
        text = self.due_text
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1

    def to_text(self) -> str:
        """As producers get it."""
        return base64.urlsafe_b64encode(_SEPARATOR.join((_VERSION, *self)).encode()).decode()

    @classmethod
    def of_text(cls, text: str) -> RecallHandle:
        """UsageError for a text that is no handle."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
        except (binascii.Error, UnicodeError, ValueError):
            raw = ""
        version, *parts = raw.split(_SEPARATOR)
        if version != _VERSION or len(parts) < 4:
            raise UsageError(
                "recall handle is invalid", where=text[:80], hint="give the recall_handle of the send's result"
            )
        return cls(*parts[:4])
