"""Receipt handles: what a consumer of gRPC gives back to acknowledge a message.

Owns        their text, those of the messages of a pop.
Must not know   what an acknowledgement does.

Source: Java ReceiptHandle and MQClientAPIImpl (processPopResponse). The text is the one of a popped message
(model/pop.py) and, behind it, the message's place in the commit log, by which it becomes a dead
letter, and its lite topic if it has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from rocketlake.client.calls.pop import handles, lite_handles, queue_numbers
from rocketlake.model.lite import is_lite_name
from rocketlake.model.message import StoredMessage
from rocketlake.model.pop import NO_RETRY, ORDER_REVIVE_QUEUE, RETRY_MARKS, PopHandle, mark_of, real_topic
from rocketlake.protocol.headers.lite import PopLiteReplyHeader
from rocketlake.protocol.headers.pop import ChangeInvisibleReplyHeader, PopReplyHeader
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.v2.messages import Code

__all__ = ["Receipt", "lite_receipts", "receipts", "tries"]

_LONG = r"(-?\d{1,19})"
_INT = r"(-?\d{1,10})"
_TEXT = re.compile(rf"{_LONG} {_LONG} {_LONG} {_INT} (\S+) (\S+) {_INT} {_LONG}(?: {_LONG}(?: (\S+))?)?", re.ASCII)
_MARKS = (NO_RETRY, *RETRY_MARKS)
_TEXT_MAX = 1000
_INT_END, _LONG_END = 1 << 31, 1 << 63


@dataclass(frozen=True, slots=True)
class Receipt:
    """Names one popped message. `physical_offset`: -1 if the text did not say it; `lite`: its lite topic, or ""."""

    handle: PopHandle
    physical_offset: int = -1
    lite: str = ""

    def __str__(self) -> str:
        text = f"{self.handle} {self.physical_offset}"
        return f"{text} {self.lite}" if self.lite else text

    @property
    def expires_ms(self) -> int:
        """Epoch ms: from then on the message may be handed out again."""
        return self.handle.pop_ms + self.handle.invisible_ms

    def topic(self, popped_topic: str, group: str) -> str:
        """The topic that the message lies in."""
        return real_topic(popped_topic, group, self.handle.mark)

    def renewed(self, reply: ChangeInvisibleReplyHeader) -> Receipt:
        """The one that counts after the invisible time was changed; the old one counts no longer."""
        handle = replace(
            self.handle,
            start_offset=self.handle.offset,
            pop_ms=reply.pop_time,
            invisible_ms=reply.invisible_time,
            revive_queue=reply.revive_qid,
        )
        return Receipt(handle, self.physical_offset, self.lite)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Refused: INVALID_RECEIPT_HANDLE."""
        found = _TEXT.fullmatch(text) if len(text) <= _TEXT_MAX else None
        if found is None or found[5] not in _MARKS:
            raise _no_receipt(text)
        first, second, third, fourth, mark, broker_name, fifth, sixth, seventh, lite = found.groups()
        longs = start, pop_ms, invisible_ms, offset, physical_offset = (
            int(first), int(second), int(third), int(sixth), int(seventh or -1),
        )  # fmt: skip
        revive, queue_id = int(fourth), int(fifth)
        if max(longs) >= _LONG_END or min(longs) <= -_LONG_END or max(abs(revive), abs(queue_id)) >= _INT_END:
            raise _no_receipt(text)
        if lite and (revive != ORDER_REVIVE_QUEUE or not is_lite_name(lite)):
            raise _no_receipt(text)
        handle = PopHandle(start, pop_ms, invisible_ms, revive, mark, broker_name, queue_id, offset)
        return cls(handle, physical_offset, lite or "")


def _no_receipt(text: str) -> Refused:
    return Refused(
        Code.INVALID_RECEIPT_HANDLE,
        f"{text[:80]!r} is no receipt handle",
        hint="give the receipt handle of the message, or of the last change of its invisible duration",
    )


def receipts(reply: PopReplyHeader, messages: Sequence[StoredMessage], broker_name: str) -> list[Receipt]:
    """The receipts of the messages of a pop, one by one. ProtocolError for a header that no broker writes."""
    found = handles(reply, messages, broker_name)
    return [Receipt(handle, each.physical_offset) for handle, each in zip(found, messages, strict=True)]


def lite_receipts(
    reply: PopLiteReplyHeader, records: Sequence[StoredMessage | None], broker_name: str
) -> Iterator[tuple[StoredMessage, Receipt]]:
    """The messages of a pop of lite messages, their tries counted, and the receipt of each; unreadable ones left out.

    ProtocolError for an answer that no broker gives.
    """
    for message, known in zip(records, lite_handles(reply, records, broker_name), strict=True):
        if message is not None and known is not None:
            message.reconsume_times = known.tries
            yield message, Receipt(known.handle, message.physical_offset, known.lite)


def tries(reply: PopReplyHeader, messages: Sequence[StoredMessage]) -> list[int]:
    """How often each message of a pop was handed out before: those popped in order are counted by the broker."""
    counted = queue_numbers(reply.order_count_info)
    if not counted:
        return [each.reconsume_times for each in messages]
    found = []
    for each in messages:
        mark = mark_of(each.topic)
        of_queue = counted.get(f"{mark} {each.queue_id}", 0)
        found.append(counted.get(f"{mark} qo{each.queue_id}%{each.queue_offset}", of_queue) or each.reconsume_times)
    return found
