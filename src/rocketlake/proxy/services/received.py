"""What is asked of brokers about received messages: acknowledge, change the invisible time, make a dead letter.

Owns        these requests.
Must not know   gRPC; who received the message: its receipt says all.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import PREFIX_BYTES, encode_command
from rocketlake.protocol.headers.pop import AckHeader, ChangeInvisibleHeader, ChangeInvisibleReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.proxy.cluster import ASK_MS, Cluster
from rocketlake.proxy.convert.end import dead_letter
from rocketlake.proxy.convert.receipts import Receipt

__all__ = ["RETURNED_MS", "Received", "ack_frame", "ack_request"]

RETURNED_MS: Final = 1000
"""A message that its client does not want comes again so soon."""


def ack_request(topic: str, group: str, receipt: Receipt) -> Command:
    """What says to a broker that the message is done with; `topic`: the one that was popped."""
    handle = receipt.handle
    header = AckHeader(
        consumer_group=group,
        topic=receipt.topic(topic, group),
        queue_id=handle.queue_id,
        extra_info=str(handle),
        offset=handle.offset,
        lite_topic=receipt.lite or None,
    )
    return Command.request(RequestCode.ACK_MESSAGE, header)


def _ack_frame_parts() -> tuple[bytes, ...]:
    """The frame of `ack_request` behind its prefix, cut at group, topic, queue id, handle, offset and opaque."""
    words = [f'"{word}"' for word in ("GROUP", "TOPIC", "19991", "HANDLE", "19992")]
    header = AckHeader(consumer_group="GROUP", topic="TOPIC", queue_id=19991, extra_info="HANDLE", offset=19992)
    command = Command.request(RequestCode.ACK_MESSAGE, header)
    command.opaque = 19993
    rest = bytes(encode_command(command)[0][PREFIX_BYTES:])
    parts = []
    for word in (*words, "19993"):
        part, _, rest = rest.partition(word.encode())
        parts.append(part)
    return (*parts, rest)


_PARTS: Final = _ack_frame_parts()
_PREFIX: Final = struct.Struct(">ii")


def ack_frame(topic: str, group: str, receipt: Receipt, opaque: int) -> bytes:
    """The frame of `ack_request`, unsigned, at a fifth of its cost."""
    handle, text = receipt.handle, msgspec.json.encode
    to_group, to_topic, to_queue, to_handle, to_offset, to_opaque, end = _PARTS
    header = b'%b%b%b%b%b"%d"%b%b%b"%d"%b%d%b' % (
        to_group, text(group), to_topic, text(receipt.topic(topic, group)), to_queue, handle.queue_id,
        to_handle, text(str(handle)), to_offset, handle.offset, to_opaque, opaque, end,
    )  # fmt: skip
    return _PREFIX.pack(len(header) + 4, len(header)) + header


class Received:
    """Asks brokers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def ack(self, topic: str, group: str, receipt: Receipt, timeout_ms: float = ASK_MS) -> None:
        """The message is done with. RemoteError, LinkError."""
        await self._cluster.ask_master(
            topic, receipt.handle.broker_name, lambda: ack_request(topic, group, receipt), timeout_ms
        )

    async def change(
        self, topic: str, group: str, receipt: Receipt, invisible_ms: int, *, suspend: bool = False
    ) -> Receipt:
        """Have the message come again after this time; `suspend`: without counting a try. Returns its new receipt."""
        handle = receipt.handle
        header = ChangeInvisibleHeader(
            consumer_group=group,
            topic=receipt.topic(topic, group),
            queue_id=handle.queue_id,
            extra_info=str(handle),
            offset=handle.offset,
            invisible_time=invisible_ms,
            suspend=suspend,
            lite_topic=receipt.lite or None,
        )
        answer = await self._cluster.ask_master(
            topic,
            handle.broker_name,
            lambda: Command.request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header),
            ASK_MS,
        )
        return receipt.renewed(answer.header(ChangeInvisibleReplyHeader))

    async def bury(self, topic: str, group: str, receipt: Receipt, message_id: str) -> None:
        """Make a copy of the message a dead letter of its group; then it is done with."""
        header = dead_letter(receipt, group, topic, message_id)
        await self._cluster.ask_master(
            topic,
            receipt.handle.broker_name,
            lambda: Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header),
            ASK_MS,
        )
        await self.ack(topic, group, receipt)
