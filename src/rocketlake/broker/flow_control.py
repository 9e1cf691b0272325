"""When a request is answered "busy" instead of served.

Owns        the lanes, how old a request may be and how many may wait in each, the texts.
Must not know   what the requests do.

A handler runs at once or holds its request, so nothing queues here as in RocketMQ's thread pools. What is left of its
rules: a request that was read long ago (the loop was late) is not worth serving any more, its client has given up; and
only so many sends may wait for the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from rocketlake.base.clock import Clock
from rocketlake.broker.config import LiveConfig
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["FlowControl", "Lane"]


class Lane(Enum):
    """Requests that share limits."""

    SEND = "send"
    PULL = "pull"
    HEARTBEAT = "heartbeat"
    QUICK = "quick"
    """Answered from memory, or the end of what was admitted before (a transaction); never refused."""
    ADMIN = "admin"


class FlowControl:
    """A before-hook of the dispatcher."""

    def __init__(
        self, config: LiveConfig, lanes: Mapping[int, str], waiting_sends: Callable[[], int], clock: Clock
    ) -> None:
        """`lanes`: request code -> value of its lane; `waiting_sends`: sends that wait for the disk now."""
        self._config = config
        self._lanes = {code: Lane(lane) for code, lane in lanes.items()}
        self._waiting_sends = waiting_sends
        self._clock = clock

    def check(self, request: Request) -> Reply | None:
        """The answer to a request that is refused, None if it may pass."""
        lane = self._lanes[request.command.code]
        if lane is Lane.QUICK:
            return None
        config = self._config.now
        if config.fast_failure:
            age_ms = (self._clock.monotonic() - request.received) * 1000
            if age_ms > self._age_max_ms(lane):
                return _busy(f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while: {age_ms:.0f} ms")
        if lane is Lane.SEND and self._waiting_sends() >= config.waiting_sends_max:
            return _busy("[OVERLOAD]system busy, start flow control for a while: sends wait for the disk")
        return None

    def _age_max_ms(self, lane: Lane) -> int:
        config = self._config.now
        if lane is Lane.SEND:
            return config.send_age_max_ms
        if lane is Lane.PULL:
            return config.pull_age_max_ms
        return config.heartbeat_age_max_ms if lane is Lane.HEARTBEAT else config.admin_age_max_ms


def _busy(remark: str) -> Reply:
    return Reply(ResponseCode.SYSTEM_BUSY, remark=remark)
