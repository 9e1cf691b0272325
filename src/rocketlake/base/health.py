"""The troubles of a server at this moment: name, reason, since when.

Owns        the troubles of one server, the log line when one comes, changes or ends.
Must not know   the services that report a trouble, the commands that show it.

All services of a server share one Health (Service.adopt).
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.logs import RareWarnings, get_logger

__all__ = ["Health", "Trouble"]

_log = get_logger(__name__)

_NAME_BYTES_MAX = 200
_REASON_BYTES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Trouble:
    """One trouble: its reason, and since when (milliseconds since 1970)."""

    reason: str
    since_ms: int


class Health:
    """Green without troubles, else red."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._troubles: dict[str, Trouble] = {}
        self._changes = RareWarnings(_log, clock=self._clock)

    @property
    def is_green(self) -> bool:
        """True without troubles."""
        return not self._troubles

    @property
    def troubles(self) -> dict[str, Trouble]:
        """A copy of the troubles, the oldest first."""
        return dict(self._troubles)

    def set(self, name: str, reason: str) -> None:
        """The part `name` does not work, because of `reason`; with the reason "" it works (again)."""
        name, reason = name[:_NAME_BYTES_MAX], reason[:_REASON_BYTES_MAX]
        before = self._troubles.get(name)
        if before is None and reason:
            self._troubles[name] = Trouble(reason, self._clock.now_ms())
            _log.error("health is red: %s: %s", name, reason)
        elif before is not None and not reason:
            self._drop(name, "works again")
        elif before is not None and before.reason != reason:
            self._troubles[name] = Trouble(reason, before.since_ms)
            # A reason may hold numbers that change all the time.
            self._changes.warn(name, "health is red: %s: %s", name, reason)

    def ended(self, name: str) -> None:
        """The part `name` was stopped: whether it would work is no question any more."""
        if name[:_NAME_BYTES_MAX] in self._troubles:
            self._drop(name[:_NAME_BYTES_MAX], "was stopped in its trouble")

    def _drop(self, name: str, how: str) -> None:
        seconds = (self._clock.now_ms() - self._troubles.pop(name).since_ms) / 1000
        state = "all is green" if self.is_green else f"still red: {', '.join(self._troubles)}"
        _log.warning("health: %s %s after %.0f s; %s", name, how, seconds, state)
