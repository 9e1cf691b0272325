"""The last step of every message before the store, with the rules that hold for messages of all senders.

Owns        host bits, the check of batch marks, the parking of delayed messages, the counting of puts.
Must not know   requests, topics and groups, how the store works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import TYPE_CHECKING, NamedTuple

from rocketlake.base.errors import RemoteError
from rocketlake.broker.delay.parking import Parking, delay_level, timer_property
from rocketlake.broker.stats import BrokerStats
from rocketlake.codec import property_text
from rocketlake.codec.host import HOST_BYTES_V4
from rocketlake.codec.record_layout import PROPERTIES_BYTES_MAX
from rocketlake.model import property_names as names
from rocketlake.model import sys_flag
from rocketlake.model.positions import PhysicalOffset
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.large_batch import LargeBatch
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutResult, PutStatus

if TYPE_CHECKING:
    from rocketlake.codec import record_run

__all__ = ["Intake", "SlowAppend"]

_HOST_BITS = sys_flag.BORN_HOST_V6 | sys_flag.STORE_HOST_V6
_INNER_BATCH_BITS = sys_flag.NEED_UNWRAP | sys_flag.INNER_BATCH

_SLOW_APPEND_SECONDS = 1.0
"""RocketMQ's osPageCacheBusyTimeOutMills: after an append that took longer the page cache counts as busy."""


class SlowAppend(NamedTuple):
    """An append that held up the loop."""

    ended: float
    """Seconds of the monotonic clock."""
    seconds: float


class Intake:
    """Puts messages into the store."""

    def __init__(self, store: MessageStore, parking: Parking, stats: BrokerStats) -> None:
        self._store = store
        self._parking = parking
        self._stats = stats
        self._seconds = stats.seconds
        self._durability = store.durability
        self.line: Sized = ()
        """Requests that wait for the next file of the log (late_log.py): no run may pass them."""
        self.waiting = 0
        """Messages that are stored, but whose sender still waits for the disk or for replicas."""
        self.slow_append = SlowAppend(float("-inf"), 0.0)
        """The last append that held up the loop for more than a second."""

    @property
    def acks_at_once(self) -> bool:
        """True while no ack waits: the result of `put` is final, `when_durable` is not needed. It follows the role."""
        return self._durability.acks_at_once

    def put(self, message: PutMessage, properties: dict[str, str], *, room_bytes: int = 0) -> PutResult:
        """Append one message; `properties` (changed here) become its property text. RemoteError if refused.

        `room_bytes`: what must be left of the limit of properties for what the broker's copies of the message add.
        """
        self._check_marks(message, properties)
        self._parking.park(message, properties)
        message.properties = property_text.encode_again(properties)
        if room_bytes and len(message.properties) + room_bytes > PROPERTIES_BYTES_MAX:
            return _no_room(message, room_bytes)
        began = self._seconds()
        result = self._store.put(message)
        self._count(message.topic, result, began)
        return result

    def put_batch(self, message: PutMessage, properties: dict[str, str]) -> PutResult:
        """Append each message of a batch body; `properties` are added to those of each."""
        self.prepare_batch(message, properties)
        began = self._seconds()
        result = self._store.put_batch(message)
        self._count(message.topic, result, began)
        return result

    def prepare_batch(self, message: PutMessage, properties: dict[str, str]) -> None:
        """Check a batch and make its property text, before it is put. RemoteError if it is refused."""
        self._check_marks(message, properties)
        if delay_level(properties) > 0 or timer_property(properties) is not None:
            raise RemoteError(
                "a batch cannot be delayed",
                code=ResponseCode.MESSAGE_ILLEGAL,
                hint="send its messages one by one, or leave their delay away",
            )
        message.properties = property_text.encode_again(properties)

    def put_large(self, batch: LargeBatch) -> PutResult:
        """Append a batch whose entries were checked in steps, after `prepare_batch`."""
        began = self._seconds()
        result = self._store.put_large(batch)
        self._count(batch.message.topic, result, began)
        return result

    def when_durable(self, result: PutResult, properties: dict[str, str], done: Callable[[PutStatus], None]) -> None:
        """Call `done` when the message is as safe as broker and sender (property WAIT) ask, or cannot become so."""
        self.waiting += 1
        began = self._seconds()
        is_timed = self.acks_at_once  # by `_appended`

        def count_out(status: PutStatus) -> None:
            self.waiting -= 1
            if not is_timed:
                self._stats.put_latency.note(self._seconds() - began, result.count)
            done(status)

        self._store.when_durable(result, wait=properties.get(names.WAIT, "true").lower() == "true", done=count_out)

    def put_run(self, run: record_run.RecordRun, counts: Iterable[tuple[str, int, int, int]]) -> bool:
        """Append the plain messages of a run together; False: nothing was stored, put them one by one.

        `counts`: (topic, messages, bytes, requests) of the run.
        """
        began = self._seconds()
        if not self._store.put_run(run):
            return False
        self._appended(began, len(run))
        for topic, messages, size, requests in counts:
            self._stats.count_put(topic, messages, size, requests)
        return True

    def when_run_durable(
        self, run: record_run.RecordRun, requests: int, done: Callable[[PutStatus, str], None]
    ) -> None:
        """`when_durable` for a run whose senders all wait; `done` also gets the reason of a failure."""
        end = run.physical_offset + run.size
        result = PutResult(PutStatus.OK, PhysicalOffset(run.physical_offset), run.size, next_offset=end, count=len(run))
        self.waiting += requests
        began = self._seconds()

        def count_out(status: PutStatus) -> None:
            self.waiting -= requests
            self._stats.put_latency.note(self._seconds() - began, len(run))
            done(status, result.reason)

        self._store.when_durable(result, wait=True, done=count_out)

    def _check_marks(self, message: PutMessage, properties: dict[str, str]) -> None:
        flags = message.sys_flag & ~_HOST_BITS
        if flags & _INNER_BATCH_BITS or names.INNER_NUM in properties:
            raise RemoteError(
                "inner batch marks on a message of a topic that is not BatchCQ",
                code=ResponseCode.MESSAGE_ILLEGAL,
                hint=f"leave {names.INNER_NUM} and the inner batch flags away",
            )
        # The sender may set any host bits. The record has the bits of the hosts that it holds.
        if len(message.born_host) > HOST_BYTES_V4:
            flags |= sys_flag.BORN_HOST_V6
        if len(message.store_host) > HOST_BYTES_V4:
            flags |= sys_flag.STORE_HOST_V6
        message.sys_flag = flags

    def _appended(self, began: float, count: int) -> None:
        """An append of `count` messages, which began at `began`, has ended."""
        now = self._seconds()
        seconds = now - began
        if seconds > _SLOW_APPEND_SECONDS:
            self.slow_append = SlowAppend(now, seconds)
        if count and self.acks_at_once:
            self._stats.put_latency.note(seconds, count)

    def _count(self, topic: str, result: PutResult, began: float) -> None:
        is_stored = result.status is PutStatus.OK
        self._appended(began, result.count if is_stored else 0)
        if is_stored:
            self._stats.count_put(topic, result.count, result.size)
        else:
            self._stats.count_put_failure()


def _no_room(message: PutMessage, room_bytes: int) -> PutResult:
    limit = PROPERTIES_BYTES_MAX - room_bytes
    return PutResult(
        PutStatus.PROPERTIES_TOO_LONG,
        reason=f"with the broker's marks the properties have {len(message.properties)} bytes, at most {limit} leave"
        " room for its checks: put large values into the body",
    )
