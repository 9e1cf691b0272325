"""A client of pops at the level of the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rocketlake.base.clock import SystemClock
from rocketlake.codec.record import decode_records
from rocketlake.model.message import StoredMessage
from rocketlake.model.pop import PopHandle, mark_of
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.pop import AckHeader, ChangeInvisibleHeader, PopHeader, PopReplyHeader
from rocketlake.protocol.request_code import RequestCode as Code


@dataclass
class Popped:
    """A popped message and its handle. `topic`: the one it lies in."""

    message: StoredMessage
    handle: PopHandle
    topic: str

    @property
    def body(self) -> str:
        return self.message.body.decode()


class PopClient:
    """Pops and acknowledges at one broker."""

    def __init__(self, address: str, group: str = "g", topic: str = "T", *, net: NetClient | None = None) -> None:
        self.address = address
        self.group = group
        self.topic = topic
        self.net = net or NetClient()
        self.clock = SystemClock()

    async def ask(self, code: int, header: Header | None = None, body: bytes | None = None) -> Command:
        return await self.net.invoke(self.address, Command.request(code, header, body), 30_000)

    def pop_header(self, invisible_ms: int = 60_000, poll_ms: int = 0, **fields: Any) -> PopHeader:
        usual: dict[str, Any] = {
            "consumer_group": self.group,
            "topic": self.topic,
            "queue_id": -1,
            "max_msg_nums": 32,
            "invisible_time": invisible_ms,
            "poll_time": poll_ms,
            "born_time": self.clock.now_ms(),
            "init_mode": 0,
            "exp": "*",
            "exp_type": "TAG",
        }
        return PopHeader(**{**usual, **fields})

    async def pop(self, invisible_ms: int = 60_000, poll_ms: int = 0, **fields: Any) -> list[Popped]:
        """The messages of one pop; none if the broker answers that there are none."""
        answer = await self.ask(Code.POP_MESSAGE, self.pop_header(invisible_ms, poll_ms, **fields))
        while answer.remark == "the pop message is too old":  # a busy machine had it lie for half a second
            answer = await self.ask(Code.POP_MESSAGE, self.pop_header(invisible_ms, poll_ms, **fields))
        assert answer.code in (0, 209, 210), (answer.code, answer.remark)
        return self.popped(answer)

    def popped(self, answer: Command) -> list[Popped]:
        """The messages of an answer, with the handles that Java's client would make."""
        header = answer.header(PopReplyHeader)
        starts = dict(_fields(header.start_offset_info))
        offsets = {key: list(map(int, text.split(","))) for key, text in _fields(header.msg_offset_info)}
        found = []
        for message in decode_records(answer.body_bytes):
            text = message.properties.get("POP_CK")
            if text is not None:
                handle = PopHandle.parse(text)
            else:
                key = f"{mark_of(message.topic)} {message.queue_id}"
                assert message.queue_offset in offsets[key]
                handle = PopHandle(
                    int(starts[key]),
                    header.pop_time,
                    header.invisible_time,
                    header.revive_qid,
                    mark_of(message.topic),
                    "b",
                    message.queue_id,
                    message.queue_offset,
                )
            found.append(Popped(message, handle, self._topic(handle.mark)))
        return found

    def _topic(self, mark: str) -> str:
        return {"0": self.topic, "1": f"%RETRY%{self.group}_{self.topic}", "2": f"%RETRY%{self.group}+{self.topic}"}[
            mark
        ]

    def ack_header(self, popped: Popped) -> AckHeader:
        return AckHeader(
            consumer_group=self.group,
            topic=popped.topic,
            queue_id=popped.handle.queue_id,
            extra_info=str(popped.handle),
            offset=popped.handle.offset,
        )

    async def ack(self, popped: Popped) -> Command:
        return await self.ask(Code.ACK_MESSAGE, self.ack_header(popped))

    async def change(self, popped: Popped, invisible_ms: int, *, suspend: bool = False) -> Command:
        return await self.ask(
            Code.CHANGE_MESSAGE_INVISIBLETIME, self.change_header(popped, invisible_ms, suspend=suspend)
        )

    def change_header(self, popped: Popped, invisible_ms: int, *, suspend: bool = False) -> ChangeInvisibleHeader:
        return ChangeInvisibleHeader(
            consumer_group=self.group,
            topic=popped.topic,
            queue_id=popped.handle.queue_id,
            extra_info=str(popped.handle),
            offset=popped.handle.offset,
            invisible_time=invisible_ms,
            suspend=suspend,
        )


def _fields(text: str | None) -> list[tuple[str, str]]:
    parts = [entry.rsplit(" ", 1) for entry in (text or "").split(";") if entry]
    return [(key, value) for key, value in parts]
