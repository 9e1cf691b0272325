"""The final status of a put: OK, too late, or not stored after all.

Owns        when a put has its final status, and the line in the log when that comes too late.
Must not know   how bytes become safe (durability.py, flush.py), requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.codec.record import decode_record
from rocketlake.model import property_names as names
from rocketlake.store.durability import AT_ONCE, Stage
from rocketlake.store.parts import StoreParts
from rocketlake.store.results import PutResult, PutStatus

__all__ = ["Acks"]

_log = get_logger(__name__)


class Acks:
    """Acks of one store."""

    def __init__(self, parts: StoreParts, why_never: Callable[[], str]) -> None:
        """`why_never`: why no ack comes any more, a failed sync or the stop; "" while they come."""
        self.log = parts.log
        self.durability = parts.durability
        self._why_never = why_never
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=parts.clock)

    def when_durable(self, result: PutResult, *, wait: bool, done: Callable[[PutStatus], object]) -> None:
        """Call `done` with the final status: at once, or with `wait` when the message is as safe as the role asks."""
        if not result.status.is_stored:
            done(result.status)
            return

        def ended(late: Sequence[Stage]) -> None:
            done(self._late_status(result, late) if late else result.status)

        asked = self.durability.demands.acks if wait else AT_ONCE
        self.durability.when_durable(result.next_offset, asked, ended)

    def _late_status(self, result: PutResult, late: Sequence[Stage]) -> PutStatus:
        """The status of a put that is not as safe as it was asked to be; of disk and replicas, the replicas count."""
        if reason := self._why_never():
            result.reason = reason
            return PutStatus.SERVICE_NOT_AVAILABLE
        if result.next_offset > self.log.list.wrote_offset:
            result.reason = f"the log was cut at {self.log.list.wrote_offset}, before this message"
            return PutStatus.SERVICE_NOT_AVAILABLE
        if Stage.REPLICATED in late and self.durability.has_failed(Stage.REPLICATED):
            return PutStatus.SLAVE_NOT_AVAILABLE  # who failed it has said so in the log
        self._say_timeout(result, late)
        return PutStatus.FLUSH_DISK_TIMEOUT if late == [Stage.FLUSHED] else PutStatus.FLUSH_SLAVE_TIMEOUT

    def _say_timeout(self, result: PutResult, late: Sequence[Stage]) -> None:
        """Say whose message is in the log, and not as safe as asked in time."""
        record = self.log.record(result.physical_offset) if result.count else None
        if record is None:
            whose = "of an ended transaction"
        else:
            first = decode_record(record, check_crc=False, decompress=False)
            topic, tags = first.properties.get(names.REAL_TOPIC, first.topic), first.properties.get(names.TAGS, "")
            whose = "of topic {}, tags {!r}, from client {}:{}".format(topic, tags, *first.born_host)
        self._warnings.warn(
            "timeout",
            "not %s: %d messages at %d %s; on disk is the log up to %d of %d",
            ", not ".join(self._named(stage) for stage in late),
            result.count,
            result.physical_offset,
            whose,
            self.log.list.flushed_offset,
            self.log.list.wrote_offset,
        )

    def _named(self, stage: Stage) -> str:
        """A stage and its timeout, for the log."""
        timeout_ms = self.durability.demands.acks.get(stage, 0)
        if stage is Stage.FLUSHED:
            return f"on disk within syncFlushTimeout ({timeout_ms} ms)"
        return f"{stage.value} within {timeout_ms} ms"
