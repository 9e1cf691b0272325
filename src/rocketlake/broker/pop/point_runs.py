"""Plain check points: stored as runs, without the general put of a message.

Owns        when a check point may be stored so, the settings of the kernel.
Must not know   the bytes of records (revive_record.pyx), pops, how a run is stored.

pop/revive_log.py stores every other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from rocketlake.base.clock import Clock
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.delay import plain_time
from rocketlake.broker.delay.parking import TimerRules
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.pop import revive_record
from rocketlake.model.topic import REVIVE_LOG_PREFIX, TIMER_TOPIC
from rocketlake.protocol.bodies.pop import CheckPoint

__all__ = ["PointRuns", "records_for"]


class PointRuns:
    """Stores check points for ReviveLog."""

    def __init__(self, config: LiveConfig, intake: Intake, rules: TimerRules, clock: Clock) -> None:
        self._config = config
        self._intake = intake
        self._rules = rules
        self._clock = clock
        self._made_for: BrokerConfig | None = None
        self._records: revive_record.ReviveRecords | None = None

    def takes(self, delay_ms: int) -> bool:
        """True if a check point that is delivered so much later can be plain."""
        return self._rules.is_enabled and 0 < delay_ms <= self._rules.delay_ms_max

    def put(self, points: Sequence[tuple[CheckPoint, int, int]], host: bytes) -> bool:
        """Store check points of which nothing is acknowledged, each with its revive queue and the time at which it is
        delivered, in ms. False: nothing was done, not all are plain."""
        config = self._config.now
        if config is not self._made_for:
            self._made_for, self._records = config, records_for(config, self._rules, self._clock)
        if self._records is None or self._intake.line:
            return False
        try:
            run = self._records.check_points(points, host)
        except OverflowError:  # a number of the request that no record has: the ordinary path refuses it
            return False
        return run is not None and self._intake.put_run(run, [(TIMER_TOPIC, len(run), run.size, len(run))])


def records_for(config: BrokerConfig, rules: TimerRules, clock: Clock) -> revive_record.ReviveRecords | None:
    """The kernel for these settings; None if no record of the revive topic is plain."""
    if not rules.is_enabled:
        return None
    times = plain_time.PlainTimes(clock.now_ms, rules.precision_ms, rules.delay_ms_max, b"")
    with suppress(ValueError):  # of a cluster whose name is too long for the topic of a run
        return revive_record.ReviveRecords(times, REVIVE_LOG_PREFIX + config.cluster_name)
    return None
