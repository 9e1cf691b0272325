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
from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.held.waiting_pops import LOADS_MAX, WaitingPops
from rocketlake.broker.pop.pop_hold import PopHold, key_of
from rocketlake.broker.pop.pop_reads import Pop, PopReads
from rocketlake.broker.pop.popped import Popped
from rocketlake.broker.quotas.quotas import Quotas
from rocketlake.broker.rights.pop import PopAsked, PopRight, PopRights
from rocketlake.broker.rights.refusal import Refused
from rocketlake.broker.stats import BrokerStats
from rocketlake.broker.tables.table_saver import TableSaver
from rocketlake.model.pop import ORDER_REVIVE_QUEUE
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.pop import PopHeader, PopReplyHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetStatus

__all__ = ["PopAsks", "PopMessage", "answer_of"]


class PopAsks(PopAsked, Protocol):
    """What a pop says of itself: its header does, and so does a pop that a kernel cut from a chunk. Times in ms."""

    @property
    def max_msg_nums(self) -> int: ...
    @property
    def invisible_time(self) -> int: ...
    @property
    def init_mode(self) -> int: ...
    @property
    def order(self) -> bool: ...
    @property
    def attempt_id(self) -> str | None: ...


class PopMessage:
    """Hands messages out. Its parts are public: runs of plain pops (hot/pops/pop_runs.py) are made of the same."""

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
        self.waiting = WaitingPops(store, hold, clock, lambda: config.now.held_pops_of_queue_max)
        self._store = store
        self.groups = groups
        self._saver = saver
        self.rights = rights
        self.reads = reads
        self._hold = hold
        self._stats = stats
        self.is_ready = is_ready
        self.quotas = quotas
        self._clock = clock

    def pop(self, request: Request) -> Reply | Held:
        """Serve the request: at once, or when a message comes."""
        header = request.header(PopHeader)
        return self.waiting.begin(header) or self._serve(request, header)

    def _serve(self, request: Request, header: PopHeader, loads: int = 0) -> Reply | Held:
        try:
            right = self.rights.admit(header, header.max_msg_nums, header.exp, header.exp_type)
        except Refused as refused:
            return Reply(refused.code, remark=refused.what)
        if right.group.name in self.groups.unsaved:
            return self._once_saved(request, header)
        pop = self.asked(header, right)
        return self._go_on(request, header, pop, self._read(request, header, pop), loads)

    def _go_on(self, request: Request, header: PopHeader, pop: Pop, found: Popped, loads: int) -> Reply | Held:
        marks = pop.pop_ms, pop.invisible_ms, pop.revive_queue
        if found.count:
            self._spend(request, header, 0, found.bytes)
            self.handed_out(header, found)
            return answer_of(ResponseCode.SUCCESS, GetStatus.FOUND, marks, found)
        if found.cold and loads < LOADS_MAX:
            return self.waiting.load(request, found.cold, partial(self._serve, header=header, loads=loads + 1))
        again = partial(self._serve, header=header)
        code = self.waiting.wait(request, header, key_of(header), found, again, pop.right.match)
        return HELD if code is None else answer_of(code, GetStatus.NO_MESSAGE_IN_QUEUE, marks, found)

    def found_nothing(self, request: Request, pop: Pop, found: Popped) -> Reply | Held:
        """Go on with a pop that was read already: it waits, or is answered that there is nothing."""
        header = request.header(PopHeader)
        return self.waiting.begin(header) or self._go_on(request, header, pop, found, 0)

    def asked(self, header: PopAsks, right: PopRight) -> Pop:
        """What a pop that was let in asks for, now."""
        return Pop(
            right,
            header.queue_id,
            max(1, header.max_msg_nums),
            header.invisible_time,
            header.init_mode,
            self._clock.now_ms(),
            ORDER_REVIVE_QUEUE if header.order else self.reads.next_revive_queue(),
            header.order,
            header.attempt_id,
        )

    def handed_out(self, header: PopAsks, found: Popped) -> None:
        """What follows from a pop that found messages: for the counts, and for those that wait."""
        # Of other queues: pops would pass these by, and look at them in vain, as long as others last.
        if found.cold:
            self._store.load(found.cold, _nobody_waits)
        self._stats.count_get(header.consumer_group, header.topic, found.count, found.bytes)
        if found.rest > 0:
            self._hold.wake_one(key_of(header))

    def _once_saved(self, request: Request, header: PopHeader) -> Held:
        """Serve the pop when its group survives a crash: without it, its acknowledgements would mean nothing."""

        def saved(is_saved: bool) -> None:
            if not is_saved:
                what = f"the new group {header.consumer_group} cannot be saved now"
                request.answer(Reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=what))
                return
            self.groups.unsaved.discard(header.consumer_group)
            self.waiting.soon(request, partial(self._serve, header=header))

        self._saver.when_saved(saved)
        return HELD

    def _read(self, request: Request, header: PopHeader, pop: Pop) -> Popped:
        """Nothing, until it is known what was handed out before the start, and while a quota is used up."""
        if not self.is_ready():
            return Popped()
        if self.quotas.is_any:
            pause = self.quotas.pause_out(request.user, header.topic)
            if pause is not None:
                return Popped(free_ms=pop.pop_ms + int(pause.seconds * 1000) + 1)
            self._spend(request, header, 1, 0)
        return self.reads.read(pop)

    def _spend(self, request: Request, header: PopHeader, requests: int, size: int) -> None:
        if self.quotas.is_any:
            self.quotas.spend_out(request.user, header.topic, requests, size)


def _nobody_waits(_error: Exception | None) -> None:
    """A pop that finds nothing else reads the same parts again, and tells of the error."""


def answer_of(code: int, status: GetStatus, marks: tuple[int, int, int], found: Popped) -> Reply:
    """The answer to a pop. `marks`: its time and the invisible time of its messages, in ms, and the revive queue."""
    pop_ms, invisible_ms, revive_queue = marks
    header = PopReplyHeader(
        pop_time=pop_ms,
        invisible_time=invisible_ms,
        revive_qid=revive_queue,
        rest_num=found.rest,
        start_offset_info=";".join(found.starts),
        msg_offset_info=";".join(found.offsets),
        order_count_info=";".join(found.counts),
    )
    return Reply(code, header=header, body=found.body() or None, remark=status.name)
