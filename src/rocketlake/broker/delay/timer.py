"""Delivers messages at the time that they ask for.

Owns        putting messages of the timer topic into the wheel, delivering what is due, the progress of both.
Must not know   requests, producers, the bytes of the wheel.

A message for a time lies in the timer topic, its target in REAL_TOPIC and REAL_QID, its time in TIMER_OUT_MS. Two
duties. **Enter**: each message of the timer topic goes into the wheel, at the tick of its time; one that comes late, at
the tick that is delivered next. **Deliver**: when a tick is over, so never early, its messages are delivered in the
order in which they came, but for those that a message of the same tick takes back (TIMER_DEL_UNIQKEY; of the same
topic, Apache asks for no topic). What came before the tick was over enters first, so that an acknowledged recall
counts. A message that waits longer than `timerRollWindowSlot` is stored anew in the timer topic when
half of its time is over, so that its record is younger than the retention.

A new master hears from the old one how far that is (GET_TIMER_CHECK_POINT), and has the log. What was stored anew lies
in the timer topic twice: the older record is passed by. An Apache broker that is made a slave while it runs goes on
with its wheel, and gives up what it cannot store: so nothing is believed to be delivered that was due after the newest
record of the log.

Progress never says "delivered" of a copy that may still be lost: a tick is cleared, and the checkpoint goes past it,
when its copies are on disk, and in a group confirmed. After a crash, and on a new master, the log is asked for copies
of before (delivered.py).

The wall clock decides. Set forward, messages come by its new time. Set back, the wheel goes back with it: ticks that
were delivered are empty.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.java.java_compat import string_hash
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.base.worker import Worker, run_on
from rocketlake.broker.delay.delivered import DeliveredBefore
from rocketlake.broker.delay.delivery import GONE, Delivery
from rocketlake.broker.delay.due_tick import DueTick
from rocketlake.broker.delay.parking import TimerRules, real_target
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import TIMER_TOPIC
from rocketlake.store.consume_queue.entry import unpack_entries
from rocketlake.store.consume_queue.queue import Entry
from rocketlake.store.mapped_file import Bytes
from rocketlake.store.message_store import MessageStore
from rocketlake.store.timer.checkpoint import TimerCheckpoint
from rocketlake.store.timer.layout import DELETE, DUE, ROLL, Unit
from rocketlake.store.timer.timer_store import TimerStore, Waiting
from rocketlake.store.timer.unit_stack import UnitStack

if TYPE_CHECKING:
    from rocketlake.store.timer import unit_run

__all__ = ["Timer"]

_log = get_logger(__name__)

_ENTER_RUN = 1024
_ENTER_BATCH = 256
_DELIVER_BATCH = 32
_RETRY_SECONDS = 0.1
_SOON_SECONDS = 0.005
_FLUSH_SECONDS = 1.0
_MARGIN_MS = 60_000
"""What the old master may have put into a tick later than that of its time."""
_LOST_UNITS_MAX = 20_000
"""As many of the newest units a start looks at for one whose message is there."""
_QUEUE = 0
_LEVEL = 0


class Runs(Protocol):
    """See due_runs.py."""

    def put(self, units: UnitStack, above: int, taken_back: frozenset[bytes]) -> int: ...


class Entries(Protocol):
    """See entry_run.pyx."""

    def cut(
        self,
        entries: Bytes,
        queue_offset: int,
        now_ms: int,
        first_ms: int,
        delivered: tuple[int, int],
        anew: tuple[int, int, int],
    ) -> tuple[unit_run.UnitRun, int]: ...


class Timer(Service):
    """The wheel of one broker; it runs on a master."""

    def __init__(
        self,
        store: MessageStore,
        timers: TimerStore,
        rules: TimerRules,
        *,
        workers: Callable[[str], Worker],
        clock: Clock,
        readable: Callable[[str, int], int] = lambda _topic, queue_id: queue_id,
        count_put: Callable[[str, int, int], None] = lambda _topic, _count, _size: None,
    ) -> None:
        """`workers`: by name, for what blocks. `readable`, `count_put`: see Delivery."""
        super().__init__("timer", clock)
        self.edition = 0
        """Grows with the progress, for slaves."""
        self._store = store
        self._timers = timers
        self._rules = rules
        self._workers = workers
        self._worker: Worker | None = None
        self.runs: Runs | None = None
        """Stores plain copies together; None without kernels."""
        self.entries: Entries | None = None
        """Reads plain messages together; None without kernels."""
        self._delivery = Delivery(store, TIMER_TOPIC, clock, readable, count_put)
        self._read_ms = 0
        self._due: DueTick | None = None
        """What is left of the tick `_read_ms`; None: not looked at yet."""
        self._enter_until: int | None = None
        """Messages of the timer topic before this offset enter before the tick is looked at; None: not known yet."""
        self._unsafe: deque[tuple[int, int, int | None]] = deque()
        """(log offset of the last copy, the next tick then, the tick that was delivered)."""
        self._copies_end = 0
        self._safe_read_ms = 0
        self._before = DeliveredBefore(store, (), PhysicalOffset(0))
        self._log_end = PhysicalOffset(0)
        self._delivered_until = (0, 0)
        self._anew = (0, 0, 0)
        """(log offset, store time, wait): what lies before both, and waits for so long, may have been stored anew."""
        self._look_until = 0
        """Of messages of the ticks up to this one the old master may have stored the copy last."""
        self._has_entered = False
        self._arrived = asyncio.Event()
        self._cut_at: PhysicalOffset | None = None
        self._cut_offset = QueueOffset(0)

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bring the files into agreement; then enter and deliver. What fell due meanwhile is delivered at once."""
        await super().start()
        self._worker = self._workers("timer")
        await run_on(self._worker, self._timers.load)
        await self._forget_lost()
        checkpoint = self._timers.checkpoint
        oldest = self._clock.now_ms() - self._timers.horizon_ms
        first = await run_on(self._worker, partial(self._timers.first_waiting, oldest))
        read_ms = checkpoint.read_ms if first is None else min(first, checkpoint.read_ms)
        self._read_ms = self._tick(max(read_ms, oldest))
        self._safe_read_ms = self._read_ms
        self._unsafe.clear()
        self._due = self._enter_until = None
        self._log_end = self._store.max_physical_offset
        newest_ms = self._store.log.last_store_ms
        self._delivered_until = (checkpoint.master_queue_offset, min(checkpoint.read_ms, newest_ms) - _MARGIN_MS)
        half_ms, roll_ms = self._rules.roll_ms // 2, self._rules.roll_ms
        self._anew = (self._log_end, newest_ms - half_ms + _MARGIN_MS, roll_ms - _MARGIN_MS)
        self._look_until = max(self._read_ms, self._tick(newest_ms))
        self._before = DeliveredBefore(self._store, (_LEVEL,), self._log_end, in_log_order=False)
        self._has_entered = False
        self.keep("enter", self._enter_next)
        self.keep("deliver", self._deliver_next)
        self.every("flush", _FLUSH_SECONDS, self._flush)

    async def stop(self) -> None:
        """End both, and write down how far they are."""
        await super().stop()
        if self._worker is not None:
            try:
                await self._flush()
            except (OSError, RocketLakeError) as error:
                _log.warning("the timer's files could not be written, the next start enters messages again: %s", error)
            await self._worker.close()
            self._worker = None

    def store_stopped(self) -> None:
        """All of the log is on disk: so are the copies, and no later start, ours or Apache's, delivers them again."""
        try:
            self._settle()
            if (job := self._timers.to_flush(self._safe_read_ms)) is not None:
                self._timers.flushed(job())
        except (OSError, RocketLakeError) as error:
            _log.warning("the timer's files could not be written, the next start looks for copies: %s", error)
        self._timers.close()

    def give_up(self) -> None:
        """Another broker delivers now: what was not safe of the deliveries of this one may be taken back."""
        self._unsafe.clear()
        self._timers.close()

    def _lost_from(self) -> tuple[int | None, int | None]:
        """(place of the first unit whose message the log has lost, the next message to enter); None: as they are.

        A crash, or another master, may have taken the newest messages from the log, and others will lie in their place.
        """
        lost: int | None = None
        for place, unit in itertools.islice(self._timers.newest(), _LOST_UNITS_MAX):
            is_cut = self._cut_at is not None and unit.physical_offset >= self._cut_at
            if not is_cut and (found := self.message_of(unit)) is not None:
                return lost, found[0].queue_offset + 1
            lost = place
        return lost, None

    async def _forget_lost(self) -> None:
        assert self._worker is not None
        known = self._timers.queue_offset
        lost, entered = await self._store.read(self._lost_from)
        offset = (entered or 0) if lost is not None else max(entered or 0, known)  # the checkpoint may be older
        if self._cut_at is not None:
            offset = min(offset, self._cut_offset)
        if self._store.is_complete:
            offset = min(offset, self._store.max_offset(TIMER_TOPIC, _QUEUE))
        self._timers.queue_offset = offset
        if lost is not None or offset < known:
            await run_on(self._worker, partial(self._timers.go_back, offset, lost))
        self._cut_at = None

    def log_was_cut(self, end: PhysicalOffset) -> None:
        """Behind this place other messages follow now, and other ones behind the end of the timer topic."""
        self._enter_until = None
        offset = self._store.next_offset(TIMER_TOPIC, _QUEUE)
        self._cut_at, self._cut_offset = (
            (end, offset) if self._cut_at is None else (min(self._cut_at, end), min(self._cut_offset, offset))
        )

    def _tick(self, ms: int) -> int:
        return ms - ms % self._timers.precision_ms

    # -- progress ------------------------------------------------------------------------------------------------------

    @property
    def progress(self) -> TimerCheckpoint:
        """How far this broker is, for its slaves."""
        if not self.is_running:
            return self._timers.checkpoint
        self._settle()
        entered = self._timers.queue_offset
        return replace(
            self._timers.checkpoint,
            read_ms=self._safe_read_ms,
            queue_offset=entered,
            master_queue_offset=entered,
            counter=self.edition,
        )

    @property
    def wheel(self) -> TimerStore:
        """What waits; to be looked at only."""
        return self._timers

    @property
    def next_tick(self) -> int:
        """The tick to deliver next; what it holds may be delivered already."""
        return self._read_ms

    def follow(self, told: TimerCheckpoint) -> None:
        """On a slave: how far the master is. Counts from the next start on."""
        self._timers.told = told

    def _move(self, read_ms: int, delivered: int | None) -> None:
        self._read_ms = read_ms
        self._due = self._enter_until = None
        if self._unsafe and delivered is None and self._unsafe[-1][2] is None:
            self._unsafe.pop()  # an empty stretch: only its end counts
        self._unsafe.append((self._copies_end, read_ms, delivered))
        self._settle()

    def _settle(self) -> None:
        kept_end = self._store.kept_end
        while self._unsafe and self._unsafe[0][0] <= kept_end:
            _copies_end, self._safe_read_ms, delivered = self._unsafe.popleft()
            if delivered is not None:
                self._timers.done(delivered)
                self.edition += 1

    async def _flush(self) -> None:
        self._settle()
        job = self._timers.to_flush(self._safe_read_ms)
        if job is None or self._worker is None:
            return
        try:
            checkpoint = await run_on(self._worker, job)
        except OSError:
            self._timers.not_flushed()
            raise
        self._timers.flushed(checkpoint)
        self._timers.drop_before(self._store.min_physical_offset)

    def figures(self) -> dict[str, str]:
        """Apache's: seconds by which deliveries are late, messages not in the wheel yet; rates are not counted."""
        late_ms = self._tick(self._clock.now_ms()) - self._read_ms if self.is_running else 0
        entering = self._store.max_offset(TIMER_TOPIC, _QUEUE) - self._timers.queue_offset if self.is_running else 0
        return {
            "timerReadBehind": str(max(0, late_ms) // 1000),
            "timerOffsetBehind": str(max(0, entering)),
            **dict.fromkeys(("timerCongestNum", "timerEnqueueTps", "timerDequeueTps"), "0"),
        }

    async def counts(self) -> list[tuple[int, int]]:
        """(tick, how many messages wait for it) of all. A worker reads the whole wheel. Raises OSError."""
        if self._worker is None:
            return []
        found: list[tuple[int, int]] = await run_on(self._worker, partial(self._timers.counts, self._read_ms))
        return found

    # -- entering ------------------------------------------------------------------------------------------------------

    def message_came(self, _queue_id: int) -> None:
        """A message came into the timer topic."""
        self._arrived.set()

    async def _enter_next(self) -> None:
        self._arrived.clear()
        pause = await self._store.read(self.enter)
        if pause is not None:
            await self._clock.sleep(pause)
            return
        self._has_entered |= self._store.dispatched_offset >= self._log_end
        if self._has_entered:
            await self._arrived.wait()
        else:
            await self._clock.sleep(_RETRY_SECONDS)

    def enter(self) -> float | None:
        """Put the next messages of the timer topic into the wheel; returns the seconds to rest afterwards.

        None: until a message comes. Raises OSError.
        """
        if not self._store.is_complete or self._store.dispatched_offset < self._log_end:
            return _RETRY_SECONDS
        offset = self._next_to_enter()
        entries = self._store.packed_entries(TIMER_TOPIC, _QUEUE, QueueOffset(offset), _ENTER_RUN)
        if not entries:
            return None
        now = self._clock.now_ms()
        self._follow_clock(self._tick(now))
        taken = self._enter_run(entries, offset, now) or self._enter_some(unpack_entries(entries), offset, now)
        if taken == 0:
            self._store.sync_soon()  # the clock was set back: those ticks are cleared when their copies are safe
            return _RETRY_SECONDS
        self._timers.queue_offset = offset + taken
        self.edition += 1
        return 0.0

    def _enter_run(self, entries: Bytes, offset: int, now: int) -> int:
        """Put in the plain messages at the start of these entries; how many. 0: see `_enter_some`."""
        if self.entries is None:
            return 0
        run, taken = self.entries.cut(entries, offset, now, self._first_open, self._delivered_until, self._anew)
        if not self._delivered_ticks.isdisjoint(run.ticks()):
            return 0
        if run.count:
            self._timers.put_run(run, now)
        return taken

    def _enter_some(self, entries: list[Entry], offset: int, now: int) -> int:
        """Put in the messages of some entries; of how many. 0: one is for a tick that is delivered, but not cleared."""
        some = entries[:_ENTER_BATCH]
        places = enumerate((PhysicalOffset(place) for place, _size, _tag in some), offset)
        waiting = list(self._waiting(places, now))
        if not self._delivered_ticks.isdisjoint(message.due_ms for message in waiting):
            return 0
        if waiting:
            self._timers.put(waiting, now)
        return len(some)

    def _next_to_enter(self) -> int:
        low = max(0, self._store.min_offset(TIMER_TOPIC, _QUEUE))
        return min(max(self._timers.queue_offset, low), max(low, self._store.max_offset(TIMER_TOPIC, _QUEUE)))

    @property
    def _delivered_ticks(self) -> set[int]:
        """Those whose copies may still be lost: the wheel has them still."""
        self._settle()
        return {tick for _end, _next, tick in self._unsafe if tick is not None}

    @property
    def _first_open(self) -> int:
        """The first tick that takes messages; one that is being delivered takes no more."""
        return self._read_ms if self._due is None else self._read_ms + self._timers.precision_ms

    def _waiting(self, places: Iterator[tuple[int, PhysicalOffset]], now: int) -> Iterator[Waiting]:
        first, (entered, delivered_ms) = self._first_open, self._delivered_until
        for queue_offset, place in places:
            found = self._delivery.read(place)
            if found is None or found[0].queue_offset != queue_offset:
                continue
            message = found[0]
            out_ms = _number(message.properties.get(names.TIMER_OUT_MS))
            if out_ms is None:
                _log.error("timer message at %d is skipped: it has no time (TIMER_OUT_MS)", place)
                continue
            if queue_offset < entered and out_ms < delivered_ms:
                continue  # the master before this one has delivered it
            if self._is_stored_anew(message, out_ms):
                continue
            yield self._for_wheel(message, self._tick(out_ms), first, now)

    def _is_stored_anew(self, message: StoredMessage, out_ms: int) -> bool:
        log_end, stored_ms, wait_ms = self._anew
        may_be = message.physical_offset < log_end and message.store_ms <= stored_ms
        if not may_be or out_ms - message.store_ms < wait_ms:
            return False
        return self._before.find(message, TIMER_TOPIC) is not None

    def _for_wheel(self, message: StoredMessage, due_ms: int, first: int, now: int) -> Waiting:
        is_delete = names.TIMER_DELETE_UNIQUE_KEY in message.properties
        bits = DELETE if is_delete else DUE
        if due_ms - now >= self._rules.roll_ms:
            bits |= ROLL
            window, rest = self._rules.roll_ms, due_ms - now - self._rules.roll_ms
            due_ms = self._tick(now + (window // 2 if rest < window // 3 else window))
        topic = message.properties.get(names.REAL_TOPIC, "")
        return Waiting(max(due_ms, first), bits, message.physical_offset, message.store_size, string_hash(topic))

    # -- delivering ----------------------------------------------------------------------------------------------------

    async def _deliver_next(self) -> None:
        await self._clock.sleep(await self._store.read(self.deliver_due))

    def deliver_due(self) -> float:
        """Deliver what is due, at most a batch; returns the seconds to rest afterwards."""
        if not self._has_entered:
            return _RETRY_SECONDS  # what was delivered before this start, or waits, is not known yet
        precision, now = self._timers.precision_ms, self._clock.now_ms()
        until = self._tick(now)
        self._follow_clock(until)
        if self._read_ms >= until:
            return (self._read_ms + precision - now) / 1000
        if self._due is None:
            filled = self._timers.next_filled(self._read_ms, until)
            if filled > self._read_ms:
                self._move(filled, None)
                return 0.0
            if self._read_ms in self._delivered_ticks:
                self._move(self._read_ms + precision, None)  # delivered before the clock was set back
                return 0.0
            if not self._has_all_before_now():
                pause = self.enter()
                return _SOON_SECONDS if pause is None else pause
            self._due = DueTick(self._timers, self._read_ms, self.message_of)
        if not self._due.is_read:
            self._due.read_on()
            return 0.0
        return self._deliver_some(self._due)

    def _deliver_some(self, due: DueTick) -> float:
        units = due.units
        if units and self._store.log.is_late:
            return _RETRY_SECONDS  # a put would have the loop wait for the next file of the log
        self._before.looks_for_each = self._read_ms <= self._look_until
        above = self._before.log_end(_LEVEL)
        end = self.runs.put(units, above, due.keys) if units and self.runs is not None else 0
        self._copies_end = max(self._copies_end, end)
        for _ in range(min(_DELIVER_BATCH, len(units)) if not end else 0):
            if self._store.log.is_late:
                return _RETRY_SECONDS
            copy_end = self._deliver(units.last(), due)
            if copy_end is None:
                return _RETRY_SECONDS
            self._copies_end = max(self._copies_end, copy_end)
            units.drop(1)
        if not units:
            self._move(self._read_ms + self._timers.precision_ms, self._read_ms)
        return 0.0

    def _has_all_before_now(self) -> bool:
        """True when all messages entered that came before the tick was over, also what takes back one of them."""
        if self._enter_until is None:
            self._enter_until = self._store.next_offset(TIMER_TOPIC, _QUEUE)
            if self._enter_until > self._store.max_offset(TIMER_TOPIC, _QUEUE):
                self._store.sync_soon()  # they cannot be read yet
        return self._next_to_enter() >= self._enter_until

    def _follow_clock(self, now_tick: int) -> None:
        """Go back with a clock that was set back: a tick that was delivered is empty, or known to be so."""
        if self._read_ms <= now_tick + self._timers.precision_ms or self._due is not None:
            return
        _log.warning("the clock was set back: the timer goes back by %d ms", self._read_ms - now_tick)
        self._unsafe = deque((end, min(next_ms, now_tick), tick) for end, next_ms, tick in self._unsafe)
        self._safe_read_ms = min(self._safe_read_ms, now_tick)
        self._move(now_tick, None)

    def _deliver(self, unit: Unit, due: DueTick) -> int | None:
        found = self.message_of(unit)
        if found is None:
            return GONE
        message, properties = found
        if unit.bits & ROLL:
            return self._delivery.deliver(message, properties, (TIMER_TOPIC, _QUEUE), self._before, _LEVEL)
        if due.is_taken_back(message):
            return GONE
        return self._delivery.deliver(message, properties, real_target(message.properties), self._before, _LEVEL)

    def message_of(self, unit: Unit) -> tuple[StoredMessage, bytes] | None:
        """The message of a unit. None if a crash has lost it, and another one lies in its place."""
        found = self._delivery.read(PhysicalOffset(unit.physical_offset))
        if found is None or found[0].store_size != unit.size:
            return None
        out_ms = _number(found[0].properties.get(names.TIMER_OUT_MS))
        is_early = out_ms is None or (self._tick(out_ms) > unit.due_ms and not unit.bits & ROLL)
        return None if is_early else found


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None
