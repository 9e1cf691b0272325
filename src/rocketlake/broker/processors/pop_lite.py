"""POP_LITE_MESSAGE: a client takes messages of the lite topics that it subscribes to.

Owns        which of its lite topics a pop looks at, what is handed out.
Must not know   the checks (rights/lite.py), how a light queue is read (lite/light_reads.py), how a pop waits
                (held/waiting_pops.py).

A lite topic stays among those worth a look until nothing of it is left and nothing is in flight. So a message that is
not acknowledged in time comes again by itself.

In a wildcard group a pop is a subscription, and the pops of all its clients wait at one place for what is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.broker.clients.client_ids import ClientIds
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.held.wait_list import WaitList
from rocketlake.broker.held.waiting_pops import LOADS_MAX, WaitingPops
from rocketlake.broker.lite.light_reads import LightReads
from rocketlake.broker.lite.progress import LiteProgress
from rocketlake.broker.lite.subscriptions import Subscriber, Subscriptions
from rocketlake.broker.lite.wildcards import ALL_CLIENTS, WildcardGroup, WildcardGroups
from rocketlake.broker.rights.lite import LiteRights
from rocketlake.broker.rights.refusal import Refused
from rocketlake.broker.stats import BrokerStats
from rocketlake.model.pop import ORDER_REVIVE_QUEUE
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.lite import PopLiteHeader, PopLiteReplyHeader
from rocketlake.protocol.limits import FRAME_BYTES_MAX
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import ColdPart, GetStatus

__all__ = ["LiteHold", "PopLite"]

_BYTES_MAX = FRAME_BYTES_MAX - (1 << 20)

LiteHold = WaitList[tuple[str, str]]
"""Pops that wait, by client and group; those of a wildcard group without the client."""
_Source = Subscriber | WildcardGroup


@dataclass(slots=True)
class _Found:
    records: list[memoryview] = field(default_factory=list)
    tries: list[int] = field(default_factory=list)
    size: int = 0
    cold: list[ColdPart] = field(default_factory=list)
    is_more: bool = False
    free_ms: int = 0
    """When the first lite topic is free whose messages are in flight; 0 if there is none."""


class PopLite:
    """Hands lite messages out."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        store: MessageStore,
        rights: LiteRights,
        subscriptions: Subscriptions,
        join: Callable[[PopLiteHeader, Request], object],
        wildcards: WildcardGroups,
        reads: LightReads,
        progress: LiteProgress,
        hold: LiteHold,
        stats: BrokerStats,
        client_ids: ClientIds,
        is_ready: Callable[[], bool],
        clock: Clock,
    ) -> None:
        """`join`: makes a client of a wildcard group a subscriber. `is_ready`: True once all light queues are known."""
        self._waiting = WaitingPops(store, hold, clock, lambda: config.now.held_pops_of_queue_max)
        self._store = store
        self._rights = rights
        self._hold = hold
        self._subscriptions = subscriptions
        self._join = join
        self._wildcards = wildcards
        self._reads = reads
        self._progress = progress
        self._stats = stats
        self._client_ids = client_ids
        self._is_ready = is_ready
        self._clock = clock

    def pop(self, request: Request) -> Reply | Held:
        """Serve the request: at once, or when a message comes."""
        header = request.header(PopLiteHeader)
        self._client_ids.check(request.user, header.client_id)
        return self._waiting.begin(header) or self._serve(request, header)

    def _serve(self, request: Request, header: PopLiteHeader, loads: int = 0) -> Reply | Held:
        try:
            self._rights.admit(header.topic, header.consumer_group, header.max_msg_num)
            takes_all = self._rights.takes_all(header.consumer_group, header.topic)
            if takes_all:
                self._join(header, request)
        except Refused as refused:
            return Reply(refused.code, remark=str(refused))
        pop_ms = self._clock.now_ms()
        found = _Found()
        source = self._source(header, takes_all)
        if source is not None:
            self._read(header, source, pop_ms, found)
        if found.records:
            if isinstance(source, WildcardGroup) and source.ready:
                self._hold.wake_one(source.key)
            self._stats.count_get(header.consumer_group, header.topic, len(found.records), found.size)
            return _answer(ResponseCode.SUCCESS, GetStatus.FOUND, header, pop_ms, found)
        if found.cold and loads < LOADS_MAX:
            return self._waiting.load(request, found.cold, partial(self._serve, header=header, loads=loads + 1))
        key = (ALL_CLIENTS if takes_all else header.client_id, header.consumer_group)
        code = self._waiting.wait(request, header, key, found, partial(self._serve, header=header))
        return HELD if code is None else _answer(code, GetStatus.NO_MESSAGE_IN_QUEUE, header, pop_ms, found)

    def _source(self, header: PopLiteHeader, takes_all: bool) -> _Source | None:
        """What says which lite topics are worth a look; None if none is."""
        if takes_all:
            return self._wildcards.of(header.consumer_group, header.topic) if self._is_ready() else None
        subscriber = self._subscriptions.find(header.client_id, header.consumer_group)
        is_there = subscriber is not None and subscriber.parent == header.topic and self._is_ready()
        return subscriber if is_there else None

    def _read(self, header: PopLiteHeader, source: _Source, pop_ms: int, found: _Found) -> None:
        count = max(1, header.max_msg_num)
        for lite in list(source.ready):
            if len(found.records) >= count or found.size + self._store.config.body_bytes_max > _BYTES_MAX:
                break
            self._read_one(header, source, lite, count - len(found.records), pop_ms, found)
        if isinstance(source, WildcardGroup):
            found.free_ms = source.next_ms

    def _read_one(
        self, header: PopLiteHeader, source: _Source, lite: str, count: int, pop_ms: int, found: _Found
    ) -> None:
        group, parent = source.group, source.parent
        key = self._progress.key(group, parent, lite)
        orders = self._progress.orders
        number = self._progress.next_number(key)
        free_ms = orders.blocked_until(key, header.attempt_id)
        if free_ms:
            found.free_ms = min(free_ms, found.free_ms or free_ms)
            source.blocked(lite, free_ms)
            return
        read = self._reads.read(group, parent, lite, number, count, _BYTES_MAX - found.size)
        if read.records:
            orders.hand_out(key, header.attempt_id, pop_ms, header.invisible_time, read.numbers)
            found.tries += orders.tries(key)
            found.records += read.records
            found.size += read.size
            if read.numbers[0] > number:  # the messages before it have expired
                self._progress.move(key, read.numbers[0])
            source.handed(lite, pop_ms + header.invisible_time)
        elif read.cold:
            found.cold = read.cold
        elif read.is_more:
            found.is_more = True
        else:
            source.done(lite)


def _answer(code: int, status: GetStatus, header: PopLiteHeader, pop_ms: int, found: _Found) -> Reply:
    reply = PopLiteReplyHeader(
        pop_time=pop_ms,
        invisible_time=header.invisible_time,
        revive_qid=ORDER_REVIVE_QUEUE,
        order_count_info=";".join(map(str, found.tries)),
    )
    return Reply(code, header=reply, body=b"".join(found.records) or None, remark=status.name)
