"""When a request is answered "busy" instead of served.

Owns        the lanes, how old a request may be and how many may wait in each, the texts.
Must not know   the handlers of the requests.

A handler runs at once or holds its request, so no queue forms here as in RocketMQ's thread pools. Two of RocketMQ's
rules remain. A request that was read long ago, because the loop was late, is refused: its client has given up. And the
number of sends that wait for the disk is limited. Of RocketMQ's reasons these remain: [TIMEOUT_CLEAN_QUEUE] (too old),
[PCBUSY_CLEAN_QUEUE] (too old because an append took over a second), [OVERLOAD] (too many sends wait). One is ours:
[QUOTA] (quotas/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.intake.intake import SlowAppend
from rocketlake.broker.quotas.quotas import Quotas
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["FlowControl", "Lane"]

_log = get_logger(__name__)


class Lane(Enum):
    """Requests that share limits."""

    SEND = "send"
    PULL = "pull"
    HEARTBEAT = "heartbeat"
    QUICK = "quick"
    """Answered from memory, or the end of a transaction that was admitted before; never refused."""
    ADMIN = "admin"


class FlowControl:
    """A gate before all handlers: a before-hook of the dispatcher."""

    def __init__(
        self,
        config: LiveConfig,
        lanes: Mapping[int, str],
        waiting_sends: Callable[[], int],
        slow_append: Callable[[], SlowAppend],
        clock: Clock,
        *,
        quotas: Quotas,
    ) -> None:
        """`lanes`: request code -> value of its lane; `waiting_sends`: sends that wait for the disk now.

        `slow_append`: the last append that took over a second.
        """
        self._quotas = quotas
        self._config = config
        self._lanes = {code: Lane(lane) for code, lane in lanes.items()}
        self._waiting_sends = waiting_sends
        self._slow_append = slow_append
        self._clock = clock
        self._warnings = RareWarnings(_log, clock=clock)

    def check(self, request: Request) -> Reply | None:
        """The answer to a request that is refused, None if it may pass."""
        lane = self._lanes[request.command.code]
        if lane is Lane.QUICK:
            return None
        config = self._config.now
        if config.fast_failure:
            age_ms = (self._clock.monotonic() - request.received) * 1000
            if age_ms > self._age_max_ms(lane):
                return self._too_old(request, lane, age_ms)
        if lane is Lane.SEND and self._waiting_sends() >= config.waiting_sends_max:
            why = f"{self._waiting_sends()} sends wait for the disk (sendThreadPoolQueueCapacity)"
            return self._busy(request, lane, "[OVERLOAD]system busy", why)
        if lane is Lane.SEND and self._quotas.is_any:
            return self._quotas.refuse_send(request)
        return None

    def _too_old(self, request: Request, lane: Lane, age_ms: float) -> Reply:
        limit = f"{age_ms:.0f} ms in the queue, {self._age_max_ms(lane)} ms are allowed"
        append = self._slow_append()
        if lane is Lane.SEND and append.ended >= request.received:
            why = f"{limit}; an append took {append.seconds * 1000:.0f} ms"
            return self._busy(request, lane, "[PCBUSY_CLEAN_QUEUE]broker busy", why)
        return self._busy(request, lane, "[TIMEOUT_CLEAN_QUEUE]broker busy", limit)

    def _busy(self, request: Request, lane: Lane, reason: str, why: str) -> Reply:
        remark = f"{reason}, start flow control for a while: {why}"
        self._warnings.warn(
            f"{reason} {lane}", "a %s request of %s is refused: %s", lane.value, request.address, remark
        )
        return Reply(ResponseCode.SYSTEM_BUSY, remark=remark)

    def _age_max_ms(self, lane: Lane) -> int:
        config = self._config.now
        if lane is Lane.SEND:
            return config.send_age_max_ms
        if lane is Lane.PULL:
            return config.pull_age_max_ms
        return config.heartbeat_age_max_ms if lane is Lane.HEARTBEAT else config.admin_age_max_ms
