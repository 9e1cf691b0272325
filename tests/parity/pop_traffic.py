"""Requests of a consumer that pops, made of the answers to those before; for brokers that are compared.

Owns        the frames, what the answers have handed out.
Must not know   brokers.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rocketlake.model import property_names as names
from rocketlake.model.pop import PopHandle
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["GROUP", "INVISIBLE_MS", "LATE_MS", "Fields", "Popped", "Traffic", "entries_of"]

GROUP = "g"
INVISIBLE_MS = 20_000
LATE_MS = 60_000
"""Behind it all that was popped comes again."""

Fields = dict[str, str]


@dataclass
class Popped:
    """A message that was handed out."""

    handle: PopHandle

    def ack(self) -> Fields:
        return {
            "consumerGroup": GROUP, "topic": "T", "queueId": str(self.handle.queue_id),
            "extraInfo": str(self.handle), "offset": str(self.handle.offset),
        }  # fmt: skip


def entries_of(popped: Sequence[Popped]) -> list[dict[str, Any]]:
    """An entry for each check point."""
    found: dict[tuple[int, int, int], list[PopHandle]] = {}
    for each in popped:
        found.setdefault((each.handle.queue_id, each.handle.start_offset, each.handle.pop_ms), []).append(each.handle)
    return [_entry(handles) for handles in found.values()]


def _entry(handles: list[PopHandle]) -> dict[str, Any]:
    handle = handles[0]
    bits = 0
    for each in handles:
        bits |= 1 << each.offset - each.start_offset
    return {
        "b": b64encode(bits.to_bytes(-(-bits.bit_length() // 8), "little")).decode(), "c": GROUP,
        "it": handle.invisible_ms, "pt": handle.pop_ms, "q": handle.queue_id, "r": handle.mark,
        "rq": handle.revive_queue, "so": handle.start_offset, "t": "T",
    }  # fmt: skip


@dataclass
class Traffic:
    """Makes chunks for both brokers, and knows what they have answered to pops."""

    now_ms: Callable[[], int]
    popped: list[Popped] = field(default_factory=list)
    opaque: int = 0

    def frame(self, code: int, fields: Fields, *, flag: int = 0, body: bytes = b"") -> bytes:
        self.opaque += 1
        wanted = {name: value for name, value in fields.items() if value != "absent"}
        command = Command(code, opaque=self.opaque, flag=flag, language="JAVA", version=433, fields=wanted, body=body)
        return b"".join(bytes(part) for part in encode_command(command, Codec.JSON))

    def send(self, queue: int, tag: str = "") -> bytes:
        text = f"{names.UNIQUE_KEY}\x01AC{self.opaque:06X}\x02"
        if tag:
            text += f"{names.TAGS}\x01{tag}\x02"
        fields = {
            "a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": str(self.now_ms()),
            "h": "3", "i": text, "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        return self.frame(RequestCode.SEND_MESSAGE_V2, fields, body=b"body")

    def pop(
        self, count: int, *, invisible_ms: int = INVISIBLE_MS, flag: int = 0, body: bytes = b"", **fields: str
    ) -> bytes:
        """`fields`: others than usual, by their names in the header; "absent" leaves one away."""
        usual = {
            "consumerGroup": GROUP, "topic": "T", "queueId": "-1", "maxMsgNums": str(count),
            "invisibleTime": str(invisible_ms), "pollTime": "0", "bornTime": str(self.now_ms()), "initMode": "0",
            "order": "false",
        }  # fmt: skip
        return self.frame(RequestCode.POP_MESSAGE, usual | fields, flag=flag, body=body)

    def ack(self, fields: Fields, *, flag: int = 0, body: bytes = b"") -> bytes:
        return self.frame(RequestCode.ACK_MESSAGE, fields, flag=flag, body=body)

    def batch(
        self, entries: Sequence[Fields | dict[str, Any]], *, flag: int = 0, fields: Fields | None = None
    ) -> bytes:
        """BATCH_ACK_MESSAGE, as Java's clients write it."""
        return self.text({"acks": entries, "brokerName": "b"}, flag=flag, fields=fields)

    def text(self, body: object, *, flag: int = 0, fields: Fields | None = None) -> bytes:
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        return self.frame(RequestCode.BATCH_ACK_MESSAGE, fields or {}, flag=flag, body=text)

    def learn(self, answers: list[Command]) -> None:
        """Take the handles from the answers to pops."""
        for answer in answers:
            fields = answer.fields or {}
            if answer.code != ResponseCode.SUCCESS or "msgOffsetInfo" not in fields:
                continue
            starts = dict(part.rsplit(" ", 1) for part in fields["startOffsetInfo"].split(";"))
            for part in fields["msgOffsetInfo"].split(";"):
                queue, offsets = part.rsplit(" ", 1)
                mark, queue_id = queue.split(" ")
                times = int(fields["popTime"]), int(fields["invisibleTime"]), int(fields["reviveQid"])
                if mark == "0":
                    self.popped += [
                        Popped(PopHandle(int(starts[queue]), *times, mark, "b", int(queue_id), int(offset)))
                        for offset in offsets.split(",")
                    ]
