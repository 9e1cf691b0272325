"""Runs of plain acknowledgements of popped messages, of one or of many each: served by the chunk.

Owns        when a run may be taken, the settings of the kernel, the time at which each consumer is answered.
Must not know   bytes of frames and records (plain_ack.pyx), how a run is stored.

A run is plain acknowledgements in a row, in one received chunk. processors/ack.py serves every other one, and gives the
checks. Walk through it: docs/internals/hot_path.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.delay.parking import TimerRules
from rocketlake.broker.hot.pops import plain_ack
from rocketlake.broker.pop.point_runs import records_for
from rocketlake.broker.pop.revive_log import REVIVE_QUEUES
from rocketlake.broker.processors.ack import Ack, not_safe
from rocketlake.broker.rights.refusal import Refused
from rocketlake.codec.host import encode_host
from rocketlake.net.request import FrameAsker, Reply, Request
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import PREFIX_BYTES, encode_command
from rocketlake.protocol.limits import WireLimits
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.disk_wait import DiskWait
from rocketlake.store.results import PutStatus

__all__ = ["AckRuns"]

_OPAQUE = 1999999991
"""Occurs nowhere else in an answer: it shows where the opaque stands."""


class AckRuns:
    """Serves runs of plain acknowledgements for the dispatcher (Dispatcher.serve_runs)."""

    def __init__(
        self,
        config: LiveConfig,
        ack: Ack,
        timer_rules: TimerRules,
        wire: WireLimits,
        disk_wait: DiskWait,
        *,
        clock: Clock,
        store_address: Callable[[], tuple[str, int]],
    ) -> None:
        self._config = config
        self._ack = ack
        self._intake = ack.intake
        self._take = ack.in_flight.take
        self._timer_rules = timer_rules
        self._wire = wire
        self._disk_wait = disk_wait
        self._clock = clock
        self._store_address = store_address
        self._made_for: BrokerConfig | None = None
        self._cutter: plain_ack.PlainAckCutter | None = None
        self._refused = b""
        """The chunk whose last run was not stored: its other requests would be read anew for each of them."""

    def serve(self, link: FrameAsker, ready: bytes, position: int, _turn_end: float) -> int:
        """Serve the plain acknowledgements of `ready` from `position` on; returns where they end."""
        config, intake = self._config.now, self._intake
        if config is not self._made_for:
            self._make_cutter(config)
        if self._cutter is None or intake.line or ready is self._refused:
            return position
        try:
            acks = self._cutter.cut(ready, position, link.room_to_hold)
        except (RocketLakeError, OSError):  # the ordinary path waits for the disk, or tells the consumer
            self._refused = ready
            return position
        if acks is None:
            return position
        if not intake.put_run(acks.run, [acks.timer_count]):
            self._refused = ready
            return position
        for key, due_ms, count in acks.taken:
            self._take(key, due_ms, count)
        if intake.acks_at_once:
            link.write_answers([acks.answers()])
        else:
            link.held += len(acks)
            intake.when_run_durable(acks.run, len(acks), partial(self._answer, link, acks))
        return acks.end

    def _answer(self, link: FrameAsker, acks: plain_ack.PlainAcks, status: PutStatus, _reason: str) -> None:
        link.held -= len(acks)
        if status is PutStatus.OK:
            link.write_answers([acks.answers()])
            return
        for opaque in acks.opaques:
            Request(Command(RequestCode.ACK_MESSAGE, opaque=opaque), link, 0).answer(not_safe(status))

    def _make_cutter(self, config: BrokerConfig) -> None:
        records = records_for(config, self._timer_rules, self._clock)
        self._made_for = config
        self._cutter = None
        if records is None:
            return
        self._cutter = plain_ack.PlainAckCutter(
            self._bounds,
            records,
            REVIVE_QUEUES,
            config.broker_name.encode(),
            encode_host(*self._store_address()),
            _answer_parts(),
            (self._wire.frame_bytes, self._wire.header_bytes),
        )

    def _bounds(self, topic: str, queue_id: int) -> tuple[int, int] | None:
        """The queue offsets that may be acknowledged; None if the ordinary path refuses all. NotInMemory."""
        try:
            with self._disk_wait.none():
                return self._ack.bounds(topic, queue_id)
        except Refused:
            return None


def _answer_parts() -> tuple[bytes, ...]:
    """The header of an answer of the ordinary path, before and behind its opaque."""
    answer = Reply().to_command(Command(RequestCode.ACK_MESSAGE, opaque=_OPAQUE))
    before, _, behind = bytes(encode_command(answer)[0][PREFIX_BYTES:]).partition(str(_OPAQUE).encode())
    return before, behind
