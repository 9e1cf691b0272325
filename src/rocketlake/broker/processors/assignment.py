"""The queues of a topic that a consumer shall read, chosen by the broker.

Owns        the share of one client, the answer while the route is not known.
Must not know   how a route is found, what a client does with its share.

A consumer of RocketMQ 5 may have the broker share out the queues (QUERY_ASSIGNMENT) instead of doing it itself. Queues
are handed out for pulling, or for pops if an administrator has said so for the topic and the group.
Source: docs/internals/clients.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence

from msgspec.structs import replace

from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.base.slices import in_slices
from rocketlake.broker.clients.consumers import BROADCASTING, ConsumerTable
from rocketlake.broker.clients.request_modes import RequestModes
from rocketlake.broker.cluster.role import Role
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.replicas.kept import Kept
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import is_retry_topic
from rocketlake.model.pop import ANY_QUEUE
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.bodies.assignment import AssignmentEntry, AssignmentReply, AssignmentRequest, RequestModeBody
from rocketlake.protocol.bodies.java_enum import MessageRequestMode
from rocketlake.protocol.bodies.long_text import encoding
from rocketlake.protocol.bodies.queue_map import QueueEntry
from rocketlake.protocol.command import Buffer
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Assignment", "share_for_pops", "share_in_circle", "share_in_runs"]

_log = get_logger(__name__)
_PULL: MessageRequestMode = "PULL"
_POP: MessageRequestMode = "POP"

Strategy = Callable[[Sequence[MessageQueue], int, int], Sequence[MessageQueue]]
"""(queues, index of the client, clients) -> the queues of the client."""


class Assignment(Service):
    """QUERY_ASSIGNMENT and SET_MESSAGE_REQUEST_MODE."""

    def __init__(
        self,
        consumers: ConsumerTable,
        find_queues: Callable[[str], Awaitable[Sequence[MessageQueue] | None]],
        *,
        modes: RequestModes,
        topics: TopicTable,
        groups: GroupTable,
        role: Role,
        kept: Kept,
    ) -> None:
        """`find_queues`: readable queues of a topic in the whole cluster, sorted; None if the topic is unknown."""
        super().__init__("assignment")
        self._consumers = consumers
        self._find_queues = find_queues
        self._modes = modes
        self._topics = topics
        self._groups = groups
        self._role = role
        self._kept = kept

    def query(self, request: Request) -> Held:
        """The queues of one client; an answer without queues means "keep what you have"."""
        wanted = AssignmentRequest.decode(request.body)
        self.spawn("query", self._answer(request, wanted))
        return HELD

    def set_mode(self, request: Request) -> Reply | Held:
        """SET_MESSAGE_REQUEST_MODE: have the members of a group pop a topic, or pull it again."""
        wanted = RequestModeBody.decode(request.body)
        if not self._role.is_master:
            return Reply(ResponseCode.SYSTEM_ERROR, remark=self._role.refusal)
        if is_retry_topic(wanted.topic):
            raise RemoteError("retry topic is not allowed to set mode", code=ResponseCode.NO_PERMISSION)
        if self._topics.get(wanted.topic) is None:
            raise RemoteError(f"topic[{wanted.topic}] not exist", code=ResponseCode.TOPIC_NOT_EXIST)
        if self._groups.find(wanted.consumer_group) is None:
            raise RemoteError(
                f"subscription group [{wanted.consumer_group}] does not exist",
                code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            )
        self._modes.set(wanted)
        self._kept.when_kept(
            lambda reason: request.answer(Reply(ResponseCode.SYSTEM_ERROR if reason else 0, remark=reason or None))
        )
        return HELD

    async def _answer(self, request: Request, wanted: AssignmentRequest) -> None:
        try:
            queues = await self._find_queues(wanted.topic)
        except RocketLakeError as error:
            _log.info("no route of %s for %s: %s", wanted.topic, request.address, error)
            queues = None
        mode = None if is_retry_topic(wanted.topic) else self._modes.find(wanted.topic, wanted.consumer_group)
        pop_share = mode.pop_share_queue_num if mode is not None and mode.mode == _POP else None
        share = None if queues is None else self._share(wanted, queues, pop_share)
        request.answer(Reply(body=await in_slices(_encoding(share, _PULL if pop_share is None else _POP))))

    def _share(
        self, wanted: AssignmentRequest, queues: Sequence[MessageQueue], pop_share: int | None
    ) -> Sequence[MessageQueue] | None:
        """`pop_share`: by how many more members a queue is popped; None if it is pulled."""
        if wanted.message_model == BROADCASTING:
            return queues
        client_ids = sorted(self._consumers.members(wanted.consumer_group))
        strategy = _STRATEGIES.get(wanted.strategy_name or "AVG")
        if strategy is None or wanted.client_id not in client_ids:
            return None
        index, clients = client_ids.index(wanted.client_id), len(client_ids)
        if pop_share is None:
            return strategy(queues, index, clients)
        return share_for_pops(strategy, queues, index, clients, pop_share)


def _encoding(share: Sequence[MessageQueue] | None, mode: MessageRequestMode) -> Generator[None, None, list[Buffer]]:
    if share is None:
        return (yield from encoding(AssignmentReply()))
    entries = []
    for queue in share:
        entries.append(AssignmentEntry(message_queue=QueueEntry.from_model(queue), mode=mode))
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


def share_for_pops(
    strategy: Strategy, queues: Sequence[MessageQueue], index: int, clients: int, shared_by: int
) -> Sequence[MessageQueue]:
    """Own queues and those of the next `shared_by` clients; with all of them, or for 0, any queue of each broker."""
    if shared_by <= 0 or shared_by >= clients - 1:
        return list(dict.fromkeys(replace(queue, queue_id=ANY_QUEUE) for queue in queues))
    if clients > len(queues):
        return queues[index % len(queues) :][:1] if queues else ()
    shares = [strategy(queues, (index + i) % clients, clients) for i in range(shared_by + 1)]
    return list(dict.fromkeys(queue for share in shares for queue in share))


_STRATEGIES: dict[str, Strategy] = {"AVG": share_in_runs, "AVG_BY_CIRCLE": share_in_circle}
