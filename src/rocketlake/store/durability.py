"""When a message is safe enough to be acknowledged, and when it may be read.

Owns        how far the log is flushed, replicated and confirmed; what the role of this store asks for; the deadlines of
            the acks that wait.
Must not know   how a sync is made, links to replicas, records, answers to senders.

Invariant: an ack comes when the log has reached the end of its message in every stage that was asked of it.
Invariant: no byte behind the lowest stage that the role asks of reads is dispatched.
Invariant: a change of role counts from the next message on; an ack that waits keeps waiting for its stages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.base.threshold import Threshold
from rocketlake.model.positions import PhysicalOffset

__all__ = ["AT_ONCE", "Demands", "Durability", "Late", "Stage"]

_LOOK_SECONDS = 1.0
"""The deadlines are looked at so often while an ack waits: the stages have timeouts of different lengths."""


class Stage(Enum):
    """Where bytes of the log are safe. No stage follows from another: replicas may be faster than the own disk."""

    FLUSHED = "flushed"
    """On the disk of this store: a sync that began after they were written has succeeded."""
    REPLICATED = "replicated"
    """On as many replicas as an ack asks for."""
    CONFIRMED = "confirmed"
    """On every store that may become the master: no change of the master takes them back."""


@dataclass(frozen=True, slots=True)
class Demands:
    """The stages that the role of a store asks for."""

    acks: Mapping[Stage, int] = field(default_factory=dict)
    """The stages that an ack waits for, each with its longest wait in milliseconds."""
    reads: Sequence[Stage] = ()
    """The stages that a message must have reached before it is dispatched, and so before it can be read."""


AT_ONCE: Mapping[Stage, int] = {}
"""Asked of a message whose sender does not want to wait."""

Late = Callable[[Sequence[Stage]], object]
"""Hears the stages that were not reached in time, or cannot be reached any more; none if the message is safe."""


class Durability(Service):
    """The stages of one log."""

    def __init__(self, log_end: Callable[[], PhysicalOffset], clock: Clock, *, is_buffered: bool = False) -> None:
        """`log_end`: where the readable bytes of the log end. `is_buffered`: that is not where an append ends."""
        super().__init__("durability", clock)
        self.on_readable: Callable[[], object] = _nobody_reads
        """Called when `readable_end` has moved, before the acks of the same bytes."""
        self.flushed = Threshold()
        self.replicated = Threshold()
        self.confirmed = Threshold()
        self.demands = Demands()
        self.acks_at_once = True
        """No ack waits: the result of a put is final."""
        self.dispatches_at_once = not is_buffered
        """A record may be dispatched the moment it was appended."""
        self._log_end = log_end
        self._is_buffered = is_buffered
        self._thresholds = {
            Stage.FLUSHED: self.flushed,
            Stage.REPLICATED: self.replicated,
            Stage.CONFIRMED: self.confirmed,
        }
        self._failed: set[Stage] = set()
        """Stages that will not move any more."""
        self._an_ack_waits = asyncio.Event()

    async def start(self) -> None:
        """Begin to watch the deadlines."""
        await super().start()
        self.keep("deadlines", self._watch_deadlines)

    # -- the role ------------------------------------------------------------------------------------------------------

    def demand(self, demands: Demands) -> None:
        """From now on the role of this store asks for that."""
        self.demands = demands
        self.acks_at_once = not demands.acks
        self.dispatches_at_once = not demands.reads and not self._is_buffered
        call(self.on_readable)

    @property
    def readable_end(self) -> PhysicalOffset:
        """Physical offset up to which the log may be dispatched."""
        end = self._log_end()
        for stage in self.demands.reads:
            end = PhysicalOffset(min(end, self._thresholds[stage].value))
        return end

    # -- acks ----------------------------------------------------------------------------------------------------------

    def when_durable(self, target: PhysicalOffset, asked: Mapping[Stage, int], done: Late) -> None:
        """Call `done` when each stage that is `asked` has reached `target`, or has failed to; `asked` is as in Demands.

        Perhaps at once.
        """
        left = len(asked)
        late: list[Stage] = []
        if not left:
            done(late)
            return

        def ended(stage: Stage, reached: bool) -> None:
            nonlocal left
            left -= 1
            if not reached:
                late.append(stage)
            if not left:
                done(late)

        now = self._clock.monotonic()
        for stage, timeout_ms in asked.items():
            if stage in self._failed:
                ended(stage, False)
            else:
                self._wait(stage, target, now + timeout_ms / 1000, ended)

    def _wait(
        self, stage: Stage, target: PhysicalOffset, deadline: float, ended: Callable[[Stage, bool], None]
    ) -> None:
        self._thresholds[stage].wait(target, lambda reached: ended(stage, reached), deadline)
        self._an_ack_waits.set()

    async def _watch_deadlines(self) -> None:
        await self._an_ack_waits.wait()
        thresholds = self._thresholds.values()
        pause = min(threshold.next_deadline for threshold in thresholds) - self._clock.monotonic()
        if pause == float("inf"):
            self._an_ack_waits.clear()
        elif pause > 0:
            await self._clock.sleep(min(pause, _LOOK_SECONDS))
        else:
            for threshold in thresholds:
                threshold.expire(self._clock.monotonic())

    # -- the stages ----------------------------------------------------------------------------------------------------

    def advance(self, stage: Stage, end: PhysicalOffset) -> None:
        """A stage has reached `end` (a lower one than before is ignored): readers first, then the acks.

        So a sender that is told OK finds its message.
        """
        threshold = self._thresholds[stage]
        if end <= threshold.value:
            return
        threshold.value = end
        if stage in self.demands.reads:
            call(self.on_readable)
        threshold.release()

    def fail(self, stage: Stage) -> None:
        """A stage does not move any more: acks that ask for it hear it now, later ones at once, until `mend`."""
        self._failed.add(stage)
        self._thresholds[stage].fail_all()

    def mend(self, stage: Stage) -> None:
        """A stage that had failed moves again: acks wait for it from now on."""
        self._failed.discard(stage)

    def has_failed(self, stage: Stage) -> bool:
        """True while no ack waits for this stage, though one may ask for it."""
        return stage in self._failed

    def set_back(self, end: PhysicalOffset) -> None:
        """The log was cut at `end`: no stage is beyond it, and the acks of messages that were cut come no more."""
        for threshold in self._thresholds.values():
            threshold.set_back(end)

    def fail_all(self) -> None:
        """The store has stopped: no stage moves any more."""
        for stage in self._thresholds:
            self.fail(stage)


def _nobody_reads() -> None:
    """Until the store dispatches."""
