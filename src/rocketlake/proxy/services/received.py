"""What is asked of brokers about received messages: acknowledge, change the invisible time, make a dead letter.

Owns        these requests.
Must not know   gRPC; who received the message: its receipt says all.
"""

from __future__ import annotations

from typing import Final

from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.pop import AckHeader, ChangeInvisibleHeader, ChangeInvisibleReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.proxy.cluster import ASK_MS, Cluster
from rocketlake.proxy.convert.end import dead_letter
from rocketlake.proxy.convert.receipts import Receipt

__all__ = ["RETURNED_MS", "Received", "ack_request"]

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
    )
    return Command.request(RequestCode.ACK_MESSAGE, header)


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
