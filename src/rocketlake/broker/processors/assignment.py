"""The queues of a topic that a consumer shall read, chosen by the broker.

Owns        the share of one client, the answer while the route is not known.
Must not know   how a route is found, what a client does with its share.

A consumer of RocketMQ 5 may have the broker share out the queues (QUERY_ASSIGNMENT) instead of doing it itself. Queues
are handed out for pulling.
Source: docs/internals/clients.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence

from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.base.slices import in_slices
from rocketlake.broker.clients.consumers import BROADCASTING, ConsumerTable
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.bodies.assignment import AssignmentEntry, AssignmentReply, AssignmentRequest, RequestModeBody
from rocketlake.protocol.bodies.long_text import encoding
from rocketlake.protocol.bodies.queue_map import QueueEntry
from rocketlake.protocol.command import Buffer
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Assignment", "share_in_circle", "share_in_runs"]

_log = get_logger(__name__)
_PULL = "PULL"


class Assignment(Service):
    """QUERY_ASSIGNMENT and SET_MESSAGE_REQUEST_MODE."""

    def __init__(
        self, consumers: ConsumerTable, find_queues: Callable[[str], Awaitable[Sequence[MessageQueue] | None]]
    ) -> None:
        """`find_queues`: readable queues of a topic in the whole cluster, sorted; None if the topic is unknown."""
        super().__init__("assignment")
        self._consumers = consumers
        self._find_queues = find_queues

    def query(self, request: Request) -> Held:
        """The queues of one client; an answer without queues means "keep what you have"."""
        wanted = AssignmentRequest.decode(request.body)
        self.spawn("query", self._answer(request, wanted))
        return HELD

    def set_mode(self, request: Request) -> Reply:
        """SET_MESSAGE_REQUEST_MODE: pulling is the only mode of this broker."""
        wanted = RequestModeBody.decode(request.body)
        if wanted.mode != _PULL:
            raise RemoteError(
                f"message request mode {wanted.mode} is not supported by this broker",
                code=ResponseCode.SYSTEM_ERROR,
                hint="set the mode PULL",
            )
        return Reply()

    async def _answer(self, request: Request, wanted: AssignmentRequest) -> None:
        try:
            queues = await self._find_queues(wanted.topic)
        except RocketLakeError as error:
            _log.info("no route of %s for %s: %s", wanted.topic, request.address, error)
            queues = None
        share = None if queues is None else self._share(wanted, queues)
        request.answer(Reply(body=await in_slices(_encoding(share))))

    def _share(self, wanted: AssignmentRequest, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue] | None:
        if wanted.message_model == BROADCASTING:
            return queues
        client_ids = sorted(self._consumers.members(wanted.consumer_group))
        strategy = _STRATEGIES.get(wanted.strategy_name or "AVG")
        if strategy is None or wanted.client_id not in client_ids:
            return None
        return strategy(queues, client_ids.index(wanted.client_id), len(client_ids))


def _encoding(share: Sequence[MessageQueue] | None) -> Generator[None, None, list[Buffer]]:
    if share is None:
        return (yield from encoding(AssignmentReply()))
    entries = []
    for queue in share:
        entries.append(AssignmentEntry(message_queue=QueueEntry.from_model(queue), mode=_PULL))
        yield
    return (yield from encoding(AssignmentReply(assignments=entries)))


def share_in_runs(queues: Sequence[MessageQueue], index: int, clients: int) -> Sequence[MessageQueue]:
    """AVG: neighbouring queues, the first clients get one more when it does not come out even."""
    size, left = divmod(len(queues), clients)
    first = index * size + min(index, left)
    return queues[first : first + size + (1 if index < left else 0)]


def share_in_circle(queues: Sequence[MessageQueue], index: int, clients: int) -> Sequence[MessageQueue]:
    """AVG_BY_CIRCLE: every n-th queue."""
    return queues[index::clients]


_STRATEGIES = {"AVG": share_in_runs, "AVG_BY_CIRCLE": share_in_circle}
