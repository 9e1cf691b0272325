"""Pulls that wait: at the end of their queue for a message, or for a worker that reads old records from disk.

Owns        how many may wait, for how long, what wakes them, and the answer when there is no room.
Must not know   rights, offsets; what a pull finds when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.held.wait_list import Waiter
from rocketlake.broker.long_polling.pull_hold import PullHold
from rocketlake.broker.property_filter import Arrivals, record_test
from rocketlake.broker.reads.queue_reads import PullAsked
from rocketlake.broker.rights.read import Admission
from rocketlake.filter.tag import TagTest
from rocketlake.model.positions import QueueOffset
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.request import HELD, Asker, Handler, Held, Reply, Request
from rocketlake.net.shares import owner_of
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import ColdPart

__all__ = ["WaitingPulls"]

_log = get_logger(__name__)

_HOLD_MS_MAX = 24 * 3_600_000
_PAUSE_MS = 500
_NEVER = 2**62
"""No queue offset."""


class WaitingPulls:
    """Has pulls wait, and has them go on."""

    def __init__(self, config: LiveConfig, store: MessageStore, hold: PullHold, clock: Clock) -> None:
        self._config = config
        self._store = store
        self._hold = hold
        self._clock = clock
        self._warnings = RareWarnings(_log, clock=clock)

    @property
    def is_closed(self) -> bool:
        """True once the broker stops: no pull waits any more."""
        return self._hold.is_closed

    def hold(self, request: Request, pull: PullAsked, admission: Admission, again: Handler) -> Reply | Held:
        """Hold the request until a message comes or its time is up, then answer it by `again`."""
        if not self._hold.has_room(request.asker):
            return self._busy(request)
        match = self._wake_test(pull, admission)
        self._keep(pull, request.asker, match, lambda: self.resume(request, again))
        return HELD

    def hold_plain(self, pull: PullAsked, asker: Asker, admission: Admission, resume: Callable[[], None]) -> bool:
        """The same for a pull of a run, which `resume` answers. False, nothing done, if there is no room."""
        if not self._hold.has_room(asker):
            return False
        self._keep(pull, asker, admission.match, resume)
        return True

    def pause(self, request: Request, pull: PullAsked, reply: Reply) -> Reply | Held:
        """Give this answer a little later, whatever happens to the queue."""
        if not self._hold.has_room(request.asker):
            return self._busy(request)
        key = pull.topic, pull.queue_id
        self._hold.hold(Waiter(key, _NEVER, None, request.asker, lambda: request.answer(reply)), _PAUSE_MS)
        return HELD

    def wait(self, request: Request, pull: PullAsked, wait_ms: int, again: Handler) -> Reply | Held:
        """Hold the request for so long, whatever happens to the queue, then answer it by `again`."""
        if not self._hold.has_room(request.asker):
            return self._busy(request)
        key = pull.topic, pull.queue_id
        waiter = Waiter(key, _NEVER, None, request.asker, lambda: self.resume(request, again))
        self._hold.hold(waiter, wait_ms)
        return HELD

    def load(self, request: Request, cold: Sequence[ColdPart], again: Handler) -> Reply | Held:
        """Hold the request while a worker reads `cold` from disk, then answer it by `again`."""
        if not self._hold.has_room(request.asker):
            return self._busy(request)
        owner = owner_of(request.asker)
        self._hold.shares.take(owner)

        def loaded(error: Exception | None) -> None:
            self._hold.shares.give(owner)
            if error is not None:
                request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=f"the store cannot be read: {error}"))
            elif not request.asker.closed:
                # In turns: a hundred pulls may have waited for the bytes that one read has brought.
                self._hold.resume_soon(lambda: self.resume(request, again))

        self._store.load(cold, loaded)
        return HELD

    def resume(self, request: Request, again: Handler) -> None:
        """Answer a pull that waited, unless a worker must read for it once more."""
        reply = run_handler(again, request)
        if isinstance(reply, Reply):
            request.answer(reply)

    def _keep(self, pull: PullAsked, asker: Asker, match: TagTest | None, resume: Callable[[], None]) -> None:
        hold_ms = self._config.now.short_polling_ms
        if self._config.now.long_polling_enabled:
            hold_ms = min(max(pull.suspend_timeout_millis, 0), _HOLD_MS_MAX)
        held = Waiter((pull.topic, pull.queue_id), pull.queue_offset, match, asker, resume)
        self._hold.hold(held, hold_ms)

    def _wake_test(self, pull: PullAsked, admission: Admission) -> TagTest | None:
        subscription = admission.subscription
        if subscription.is_tag_type:
            return admission.match
        test = record_test(subscription.expression)
        return Arrivals(
            self._store, self._clock, pull.topic, pull.queue_id, QueueOffset(pull.queue_offset), test
        ).is_wanted

    def _busy(self, request: Request) -> Reply:
        shares, owner = self._hold.shares, owner_of(request.asker)
        why = (
            f"{shares.total} pulls wait (pullThreadPoolQueueCapacity)"
            if shares.is_full
            else f"{shares.of(owner)} pulls of {owner} wait (heldPullsOfOneMax)"
        )
        remark = f"[OVERLOAD]system busy, start flow control for a while: {why}"
        self._warnings.warn(f"held {owner}", "a pull of %s is refused: %s", request.address, remark)
        return Reply(ResponseCode.SYSTEM_BUSY, remark=remark)
