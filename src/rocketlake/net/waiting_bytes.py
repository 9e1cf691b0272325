"""The bodies of requests that wait in a line have a limit; a request for which there is no room is answered busy.

Owns        how many bytes wait in one line, the answer and the warning when one more would be too much.
Must not know   the line, what its requests ask for.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["WaitingBytes"]

_log = get_logger(__name__)

_BYTES_MAX = 64 * 1024 * 1024
"""Four of the largest frames."""


class WaitingBytes:
    """The bytes of one line."""

    def __init__(self, one: str, many: str, cure: str, clock: Clock) -> None:
        """`one`, `many`: the words for what waits; `cure`: what a refused peer may do."""
        self._one = one
        self._many = many
        self._cure = cure
        self._bytes = 0
        self._warnings = RareWarnings(_log, interval_seconds=10, clock=clock)

    def take(self, request: Request, waiting: int) -> Reply | None:
        """Count the body of this request, or return the refusal. `waiting`: the length of the line, for the warning."""
        size = len(request.body)
        if self._bytes + size <= _BYTES_MAX:
            self._bytes += size
            return None
        self._warnings.warn(
            "full",
            "[OVERLOAD] %s of %d bytes of %s is refused: %d %s with %d bytes wait",
            self._one,
            size,
            request.address,
            waiting,
            self._many,
            self._bytes,
        )
        remark = f"[OVERLOAD]system busy: {self._many} of {self._bytes} bytes wait, {self._cure}"
        return Reply(ResponseCode.SYSTEM_BUSY, remark=remark)

    def give_back(self, request: Request) -> None:
        """This request waits no longer."""
        self._bytes -= len(request.body)
