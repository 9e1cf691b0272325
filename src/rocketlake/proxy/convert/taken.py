"""The messages of a pop, each with its receipt and as the response that brings it to a client.

Owns        the choice between the kernel (received.pyx) and the ordinary conversions.
Must not know   how messages are popped, what becomes of those that nobody takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rocketlake.base.pure_import import has_kernel
from rocketlake.model.message import StoredMessage
from rocketlake.model.pop import NO_RETRY
from rocketlake.protocol.headers.pop import PopReplyHeader
from rocketlake.proxy.convert.incoming import message_of
from rocketlake.proxy.convert.receipts import Receipt
from rocketlake.proxy.v2 import messages as v2

__all__ = ["Taken", "plainly_taken", "taken"]

_HAS_KERNEL: Final = has_kernel("rocketlake.proxy.convert.received")


class Taken(NamedTuple):
    """One popped message on its way to a client."""

    handle: str
    response: bytes

    @property
    def receipt(self) -> Receipt:
        """What its handle says."""
        return Receipt.parse(self.handle)


def taken(message: StoredMessage, receipt: Receipt, invisible_ms: int) -> Taken:
    """By protobuf."""
    handle = str(receipt)
    response = v2.ReceiveMessageResponse(message=message_of(message, handle, invisible_ms))
    return Taken(handle, response.SerializeToString())


def plainly_taken(
    records: bytes, reply: PopReplyHeader, topic: str, broker_name: str, invisible_ms: int, retries_max: int
) -> Sequence[Taken] | None:
    """All of an answer, straight from its records; None if one of these is not plain: the ordinary way reads all then.

    One that was handed out more often than `retries_max` is not plain.
    """
    starts = _starts(reply.start_offset_info)
    if not _HAS_KERNEL or not starts or reply.order_count_info or reply.invisible_time != invisible_ms:
        return None
    from rocketlake.proxy.convert.received import ReceivedWriter

    try:
        writer = ReceivedWriter(topic, broker_name, starts, reply.pop_time, invisible_ms, reply.revive_qid, retries_max)
    except ValueError:
        return None
    found = writer.write(records)
    if not found or found[-1].end != len(records):
        return None
    plain = []
    for each in found:
        if each.response is None or each.handle is None:
            return None
        plain.append(Taken(each.handle.decode("ascii"), each.response))
    return plain


def _starts(text: str | None) -> dict[int, int]:
    """Where the check points of queues begin, by their ids; {} for a text that is not regular."""
    starts: dict[int, int] = {}
    for entry in (text or "").split(";"):
        words = entry.split(" ")
        if len(words) != 3 or not (words[1].isdecimal() and words[2].isdecimal()):
            return {}
        if words[0] == NO_RETRY:
            starts[int(words[1])] = int(words[2])
    return starts
