"""QUERY_ASSIGNMENT: the queues that a broker gives to one member of a group, and how it shall read them.

Owns        the body and the answer of the request.
Must not know   when it is sent, who shares the queues otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketlake.client.calls.answer import DEFAULT_TIMEOUT_MS, ask
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.assignment import AssignmentReply, AssignmentRequest
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode

__all__ = ["Share", "query_assignment"]


class Share(NamedTuple):
    """The queues of one topic for one member."""

    pulled: frozenset[MessageQueue]
    popped: frozenset[MessageQueue] = frozenset()


async def query_assignment(
    net: NetClient,
    address: str,
    client_id: str,
    *,
    group: str,
    topic: str,
    strategy: str,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> Share | None:
    """The share of this client; None: keep the queues that you have. `strategy`: AVG or AVG_BY_CIRCLE."""
    body = AssignmentRequest(topic=topic, consumer_group=group, client_id=client_id, strategy_name=strategy).encode()
    answer = await ask(net, address, Command.request(RequestCode.QUERY_ASSIGNMENT, body=body), timeout_ms)
    entries = AssignmentReply.decode(answer.body_bytes).assignments if answer.body else None
    if entries is None:
        return None
    return Share(
        frozenset(entry.message_queue.to_model() for entry in entries if entry.mode != "POP"),
        frozenset(entry.message_queue.to_model() for entry in entries if entry.mode == "POP"),
    )
