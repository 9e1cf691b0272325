"""POP_MESSAGE: a consumer takes messages of a topic for a while.

Owns        the order of the steps of a pop.
Must not know   the checks (rights/pop.py), how queues are read (pop/pop_reads.py), how a pop waits
                (held/waiting_pops.py), what wakes it (pop/pop_hold.py).

A pop of a new group waits until the group is on disk. One that finds nothing waits until its time is up. One that is
woken is served from the first check on, and waits again if another consumer was faster. A pop that got messages while
others are left wakes the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.held.waiting_pops import LOADS_MAX, WaitingPops
from rocketlake.broker.pop.pop_hold import PopHold
from rocketlake.broker.pop.pop_reads import Pop, PopReads
from rocketlake.broker.pop.popped import Popped
from rocketlake.broker.quotas.quotas import Quotas
from rocketlake.broker.rights.pop import PopRights
from rocketlake.broker.rights.refusal import Refused
from rocketlake.broker.stats import BrokerStats
from rocketlake.broker.tables.table_saver import TableSaver
from rocketlake.model.pop import ANY_QUEUE, ORDER_REVIVE_QUEUE
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.pop import PopHeader, PopReplyHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetStatus

__all__ = ["PopMessage"]


class PopMessage:
    """Hands messages out."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        store: MessageStore,
        groups: GroupTable,
        saver: TableSaver,
        rights: PopRights,
        reads: PopReads,
        hold: PopHold,
        stats: BrokerStats,
        is_ready: Callable[[], bool],
        quotas: Quotas,
        clock: Clock,
    ) -> None:
        """`is_ready`: True once it is known what was handed out before the start."""
        self._waiting = WaitingPops(store, hold, clock, lambda: config.now.held_pops_of_queue_max)
        self._store = store
        self._groups = groups
        self._saver = saver
        self._rights = rights
        self._reads = reads
        self._hold = hold
        self._stats = stats
        self._is_ready = is_ready
        self._quotas = quotas
        self._clock = clock

    def pop(self, request: Request) -> Reply | Held:
        """Serve the request: at once, or when a message comes."""
        header = request.header(PopHeader)
        return self._waiting.begin(header) or self._serve(request, header)

    def _serve(self, request: Request, header: PopHeader, loads: int = 0) -> Reply | Held:
        try:
            right = self._rights.admit(header, header.max_msg_nums, header.exp, header.exp_type)
        except Refused as refused:
            return Reply(refused.code, remark=refused.what)
        if right.group.name in self._groups.unsaved:
            return self._once_saved(request, header)
        now_ms = self._clock.now_ms()
        pop = Pop(
            right,
            header.queue_id,
            max(1, header.max_msg_nums),
            header.invisible_time,
            header.init_mode,
            now_ms,
            ORDER_REVIVE_QUEUE if header.order else self._reads.next_revive_queue(),
            header.order,
            header.attempt_id,
        )
        found = self._read(request, header, pop)
        if found.count:
            # Of other queues: pops would pass these by, and look at them in vain, as long as others last.
            if found.cold:
                self._store.load(found.cold, _nobody_waits)
            self._spend(request, header, 0, found.bytes)
            self._stats.count_get(header.consumer_group, header.topic, found.count, found.bytes)
            if found.rest > 0:
                self._hold.wake_one(_key(header))
            return _answer(ResponseCode.SUCCESS, GetStatus.FOUND, pop, found)
        if found.cold and loads < LOADS_MAX:
            return self._waiting.load(request, found.cold, partial(self._serve, header=header, loads=loads + 1))
        again = partial(self._serve, header=header)
        code = self._waiting.wait(request, header, _key(header), found, again, right.match)
        return HELD if code is None else _answer(code, GetStatus.NO_MESSAGE_IN_QUEUE, pop, found)

    def _once_saved(self, request: Request, header: PopHeader) -> Held:
        """Serve the pop when its group survives a crash: without it, its acknowledgements would mean nothing."""

        def saved(is_saved: bool) -> None:
            if not is_saved:
                what = f"the new group {header.consumer_group} cannot be saved now"
                request.answer(Reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=what))
                return
            self._groups.unsaved.discard(header.consumer_group)
            self._waiting.soon(request, partial(self._serve, header=header))

        self._saver.when_saved(saved)
        return HELD

    def _read(self, request: Request, header: PopHeader, pop: Pop) -> Popped:
        """Nothing, until it is known what was handed out before the start, and while a quota is used up."""
        if not self._is_ready():
            return Popped()
        if self._quotas.is_any:
            pause = self._quotas.pause_out(request.user, header.topic)
            if pause is not None:
                return Popped(free_ms=pop.pop_ms + int(pause.seconds * 1000) + 1)
            self._spend(request, header, 1, 0)
        return self._reads.read(pop)

    def _spend(self, request: Request, header: PopHeader, requests: int, size: int) -> None:
        if self._quotas.is_any:
            self._quotas.spend_out(request.user, header.topic, requests, size)


def _nobody_waits(_error: Exception | None) -> None:
    """A pop that finds nothing else reads the same parts again, and tells of the error."""


def _key(header: PopHeader) -> tuple[str, str, int]:
    return header.topic, header.consumer_group, max(header.queue_id, ANY_QUEUE)


def _answer(code: int, status: GetStatus, pop: Pop, found: Popped) -> Reply:
    header = PopReplyHeader(
        pop_time=pop.pop_ms,
        invisible_time=pop.invisible_ms,
        revive_qid=pop.revive_queue,
        rest_num=found.rest,
        start_offset_info=";".join(found.starts),
        msg_offset_info=";".join(found.offsets),
        order_count_info=";".join(found.counts),
    )
    return Reply(code, header=header, body=found.body() or None, remark=status.name)
