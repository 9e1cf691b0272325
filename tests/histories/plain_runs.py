"""Runs of plain sends as the broker's kernel makes them, without a broker.

Owns        send frames, the cutter of the kernel. Without compiled kernels there are no runs: `plain_run` gives None.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rocketlake.codec.host import encode_host

try:
    from rocketlake.broker.hot import plain_run as kernel
    from rocketlake.broker.hot.plain_send import PlainSendCutter
    from rocketlake.broker.hot.plain_topics import PlainTopic, PlainTopics
except ImportError:  # ROCKETLAKE_PURE=1
    kernel = None  # type: ignore[assignment]

HOST = encode_host("127.0.0.1", 1)


@dataclass(slots=True)
class PlainRun:
    """`run` is to be given to `MessageStore.put_run`; then the places of its messages are known."""

    run: Any
    sends: Any

    def places(self) -> list[tuple[int, int]]:
        """(queue offset, physical offset) of each message."""
        return [(queue_offset, offsets[0]) for *_others, queue_offset, offsets in self.sends.outcomes()]

    def end(self) -> int:
        """Where the run ends in the log."""
        return int(self.run.physical_offset + self.run.size)


def plain_run(wanted: Sequence[tuple[tuple[str, int], bytes]]) -> PlainRun | None:
    """A run of sends, each ((topic, queue id), body); None without kernels."""
    if kernel is None:
        return None
    parts = kernel.AnswerParts((b"",) * 6, b"", (b"\0" * 5, b"\0" * 8, b""), b"0" * 16)
    topics = PlainTopics(lambda name: PlainTopic(name, 4, 4, False))
    cutter = PlainSendCutter(topics, None, None, parts, HOST, b"", True, (1 << 20, 1 << 20, 1 << 16))
    chunk = b"".join(_frame(number, *each) for number, each in enumerate(wanted))
    sends = cutter.cut(chunk, 0, HOST, None)
    assert sends is not None and sends.count == len(wanted), "all of these sends are plain"
    return PlainRun(sends.run, sends)


def _frame(number: int, queue: tuple[str, int], body: bytes) -> bytes:
    fields = {"a": "histories", "b": queue[0], "c": "TBW102", "d": "4", "e": str(queue[1]), "f": "0", "g": "1"}
    fields |= {"h": "0", "i": f"UNIQ_KEY\x01{number:032X}", "j": "0", "k": "false", "m": "false"}
    header = {"code": 310, "flag": 0, "language": "JAVA", "opaque": number, "version": 479, "extFields": fields}
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body
