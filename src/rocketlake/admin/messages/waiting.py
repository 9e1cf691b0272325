"""Messages that wait for their time, of all brokers.

Owns        the requests for them, their order.
Must not know   the wheel of a broker, how a message is taken back (client).
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketlake.admin.cluster import Cluster
from rocketlake.client.calls.answer import ask
from rocketlake.protocol.bodies.waiting import WaitingCount, WaitingMessage, WaitingMessages
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.query import WaitingMessagesHeader
from rocketlake.protocol.request_code import RequestCode

__all__ = ["Waiting", "waiting_messages"]

_PAGE = 1000
_TIMEOUT_MS = 30_000
_EVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Waiting:
    """The first messages due, counts by topic of all that wait, and whether `messages` lacks some of them."""

    messages: list[WaitingMessage]
    counts: dict[str, WaitingCount]
    is_cut: bool


async def waiting_messages(
    cluster: Cluster, topic: str | None, *, from_ms: int = 0, to_ms: int = _EVER, limit: int
) -> Waiting:
    """Messages due between two times (epoch ms), at most `limit` of them; 0: only the counts.

    Messages of delay levels are not among them. Raises LinkError, RemoteError.
    """
    header = WaitingMessagesHeader(topic=topic, limit=min(limit, _PAGE))
    header.from_ms, header.to_ms = from_ms, min(to_ms, header.to_ms)
    messages: list[WaitingMessage] = []
    counts: dict[str, WaitingCount] = {}
    is_cut = False
    for address in (await cluster.masters()).values():
        of_broker = 0
        header.tick, header.place = 0, -1
        while True:
            command = Command.request(RequestCode.GET_WAITING_MESSAGES, header)
            answer = WaitingMessages.decode((await ask(cluster.net, address, command, _TIMEOUT_MS)).body_bytes)
            messages += answer.messages
            of_broker += len(answer.messages)
            for name, count in answer.counts.items():
                counts[name] = counts[name].plus(count) if name in counts else count
            if not answer.tick or (header.limit and of_broker >= limit):
                is_cut = is_cut or bool(answer.tick)
                break
            header.tick, header.place = answer.tick, answer.place
    messages.sort(key=lambda each: each.due)
    return Waiting(messages[:limit], counts, is_cut or len(messages) > limit)
