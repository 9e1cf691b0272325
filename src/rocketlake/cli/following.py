"""A broker that follows a master, with words about how far it is.

Owns        the looks at the master while this broker follows, when something is said.
Must not know   options, settings, how the log is copied.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.admin.migration.peer import Peer
from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.service import Service
from rocketlake.broker.broker import Broker
from rocketlake.cli.table import amount
from rocketlake.client.calls.reach import net_client

__all__ = ["Following", "lag_text"]

_LOOK_SECONDS = 1.0
_SAY_SECONDS_BEHIND, _SAY_SECONDS_IN_STEP = 5.0, 60.0
_IN_STEP_SECONDS = 1.0
"""A slave that lacks less than the master writes in so long is in step."""


class Following(Service):
    """The broker and what is said of it, started and stopped together."""

    def __init__(self, broker: Broker, master: str, say: Callable[[str], object], clock: Clock | None = None) -> None:
        """`master`: the address of the one to follow; "" if this broker is the master now."""
        super().__init__("following", clock or SystemClock())
        self.broker = broker
        self.address = ""
        self._net = net_client()
        self._master = Peer(self._net, master)
        self._say = say
        self._said = "", 0.0
        self._end, self._end_at = -1, 0.0

    async def start(self) -> None:
        """Start the broker; say how far it is from then on. Raises as Broker.start does."""
        await super().start()
        await self.broker.start()
        self.every("look", _LOOK_SECONDS, self._look)

    async def stop(self) -> None:
        """Stop both."""
        await super().stop()
        await self._net.close()
        await self.broker.stop()

    async def _look(self) -> None:
        if self.broker.ground.role.is_master:
            self._tell("master", f"this broker is the master of {self.broker.config.now.broker_name}", once=True)
            return
        try:
            end = await self._master.log_end()
        except RocketLakeError as error:
            self._tell("silent", f"the master {self._master.address} does not answer: {error.what}")
            return
        now = self._clock.monotonic()
        growth = (end - self._end) / (now - self._end_at) if self._end >= 0 else 0.0
        self._end, self._end_at = end, now
        lag = max(0, end - self.broker.store.max_physical_offset)
        troubles = "; ".join(trouble.reason for trouble in self.broker.health.troubles.values())
        state = "in step" if lag <= growth * _IN_STEP_SECONDS and not troubles else "behind"
        rate = self.broker.replicas.follower.status().bytes_per_second
        copying = f", {rate / 1e6:.1f} MB/s come" if state == "behind" else ""
        self._tell(state, f"{state}: {lag_text(lag, growth)}{copying}" + (f"; {troubles}" if troubles else ""))

    def _tell(self, state: str, text: str, *, once: bool = False) -> None:
        """Say it when the state is another one, or some time later."""
        before, at = self._said
        wait = _SAY_SECONDS_IN_STEP if state == "in step" else _SAY_SECONDS_BEHIND
        if state != before or (not once and self._clock.monotonic() - at >= wait):
            self._said = state, self._clock.monotonic()
            self._say(text)


def lag_text(lag: int, growth: float) -> str:
    """Bytes that a slave lacks, and the seconds in which its master wrote so many. `growth`: bytes a second."""
    if not lag:
        return "lacks nothing of the master's log"
    seconds = f", {lag / growth:.1f} s of what the master writes" if growth > 0 else ""
    return f"lacks {amount(lag, 'byte')} of the master's log{seconds}"
