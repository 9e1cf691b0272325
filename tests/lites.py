"""A client of lite topics at the level of the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rocketlake.codec import property_text
from rocketlake.codec.record import decode_records
from rocketlake.model import property_names as names
from rocketlake.model.pop import PopHandle
from rocketlake.protocol.bodies.lite import LiteAction, LiteOffset, LiteSubscription, LiteSubscriptionBody
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.headers.lite import PopLiteHeader, PopLiteReplyHeader
from rocketlake.protocol.headers.pop import AckHeader, ChangeInvisibleHeader
from rocketlake.protocol.request_code import RequestCode as Code
from tests.pops import PopClient
from tests.requests import send_header

PARENT = "Parent"


@dataclass
class PoppedLite:
    """A popped lite message and its handle."""

    lite: str
    body: str
    tries: int
    number: int
    handle: PopHandle

    def __str__(self) -> str:
        return f"{self.lite}:{self.body}" + (f" again {self.tries}" if self.tries else "")


class LiteClient(PopClient):
    """Sends to lite topics, subscribes to them, pops and acknowledges at one broker."""

    def __init__(self, address: str, group: str = "g", client_id: str = "c", **parts: Any) -> None:
        super().__init__(address, group, PARENT, **parts)
        self.client_id = client_id

    async def make_parent(self) -> None:
        header = CreateTopicHeader(
            topic=PARENT,
            default_topic="TBW102",
            read_queue_nums=4,
            write_queue_nums=4,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            attributes="+message.type=LITE",
        )
        assert (await self.ask(Code.UPDATE_AND_CREATE_TOPIC, header)).code == 0

    async def put(self, lite: str, body: str, **properties: str) -> Command:
        text = property_text.encode({names.LITE_TOPIC: lite, **properties}).decode()
        return await self.ask(Code.SEND_MESSAGE_V2, send_header(PARENT, 0, text), body.encode())

    async def change_set(
        self, action: LiteAction, *lites: str, offset: LiteOffset | None = None, topic: str = PARENT
    ) -> Command:
        entry = LiteSubscription(
            action=action,
            client_id=self.client_id,
            group=self.group,
            topic=topic,
            lite_topic_set=list(lites),
            offset_option=offset,
        )
        body = LiteSubscriptionBody(subscription_set=[entry]).encode()
        return await self.ask(Code.LITE_SUBSCRIPTION_CTL, body=body)

    async def pop_lite(self, invisible_ms: int = 60_000, poll_ms: int = 0, count: int = 32) -> list[PoppedLite]:
        """The messages of one pop; none if the broker answers that there are none."""
        header = self.lite_pop_header(invisible_ms, poll_ms, count)
        answer = await self.ask(Code.POP_LITE_MESSAGE, header)
        assert answer.code in (0, 209, 210), (answer.code, answer.remark)
        return [] if answer.code else self.popped_lites(answer)

    def lite_pop_header(self, invisible_ms: int, poll_ms: int, count: int) -> PopLiteHeader:
        return PopLiteHeader(
            client_id=self.client_id,
            consumer_group=self.group,
            topic=PARENT,
            max_msg_num=count,
            invisible_time=invisible_ms,
            poll_time=poll_ms,
            born_time=self.clock.now_ms(),
        )

    def popped_lites(self, answer: Command) -> list[PoppedLite]:
        """The messages of an answer that has some."""
        reply = answer.header(PopLiteReplyHeader)
        messages = decode_records(answer.body_bytes)
        tries = [int(each) for each in (reply.order_count_info or "").split(";")]
        found = []
        for message, count in zip(messages, tries, strict=True):
            number = int(message.properties[names.INNER_MULTI_QUEUE_OFFSET])
            handle = PopHandle(
                number, reply.pop_time, reply.invisible_time, reply.revive_qid, "0", message.broker_name, 0, number
            )
            lite = message.properties[names.LITE_TOPIC]
            found.append(PoppedLite(lite, message.body.decode(), count, number, handle))
        return found

    def lite_ack_header(self, popped: PoppedLite) -> AckHeader:
        return AckHeader(
            consumer_group=self.group,
            topic=PARENT,
            queue_id=0,
            extra_info=str(popped.handle),
            offset=popped.number,
            lite_topic=popped.lite,
        )

    async def ack_lite(self, popped: PoppedLite) -> Command:
        return await self.ask(Code.ACK_MESSAGE, self.lite_ack_header(popped))

    async def change_lite(self, popped: PoppedLite, invisible_ms: int) -> Command:
        header = ChangeInvisibleHeader(
            consumer_group=self.group,
            topic=PARENT,
            queue_id=0,
            extra_info=str(popped.handle),
            offset=popped.number,
            lite_topic=popped.lite,
            invisible_time=invisible_ms,
        )
        return await self.ask(Code.CHANGE_MESSAGE_INVISIBLETIME, header)
