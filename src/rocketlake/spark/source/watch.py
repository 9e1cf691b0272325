"""The newest offsets in the queues of a stream, asked for seldom enough.

Owns        the newest offsets, how often brokers are asked for them, that a queue never gets shorter.
Must not know   micro-batches, checkpoints.

One request gives the ends of all queues of a topic at one broker. An idle stream sends less than two requests a second
in all: with many topics and brokers it asks less often.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.brokers import Bounds, Brokers, bounds_of, places_of
from rocketlake.spark.source.ending import StreamEnding
from rocketlake.spark.source.offsets import Offsets
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.queue_finder import QueueFinder

__all__ = ["Watch"]

_LOOK_SECONDS_MIN = 0.05
_IDLE_SECONDS_PER_CALL = 0.61
_WAIT_SECONDS_MAX = 0.1


class Watch:
    """The newest offsets of a stream."""

    def __init__(self, brokers: Brokers, options: SourceOptions, finder: QueueFinder) -> None:
        self._brokers = brokers
        self._options = options
        self._finder = finder
        self._ending = StreamEnding(brokers, options)
        self._next_look = float("-inf")
        self._pause = _LOOK_SECONDS_MIN
        self._ended_at: Offsets = {}
        self.bounds: dict[MessageQueue, Bounds] = {}
        self.caps: Offsets = {}
        self.shrunk: dict[MessageQueue, int] = {}
        """Queues that became shorter -> their former end; not reported yet."""

    @property
    def newest(self) -> Offsets:
        """The offset that each queue's next message will get, as far as known."""
        return {queue: bounds.high for queue, bounds in self.bounds.items()}

    def look(self, start: Mapping[MessageQueue, int]) -> dict[MessageQueue, Bounds]:
        """The queues' bounds; when it is too early to ask again, waits a little and sends no request."""
        now = self._brokers.monotonic()
        if now < self._next_look:
            if self._has_news(start):
                return self.bounds
            # Spark comes back every 10 ms when idle; waiting here spares it the turns.
            self._brokers.run(self._brokers.sleep(min(self._next_look - now, _WAIT_SECONDS_MAX)))
            if self._brokers.monotonic() < self._next_look:
                return self.bounds
        before = self.bounds
        self._finder.find(is_idle=self._pause > _LOOK_SECONDS_MIN)
        self.ask()
        calls = len(places_of(self._finder.queues))
        is_idle = self.bounds == before
        longest = max(1, calls) * _IDLE_SECONDS_PER_CALL
        self._pause = min(self._pause * 1.5, longest) if is_idle else _LOOK_SECONDS_MIN
        self._next_look = self._brokers.monotonic() + self._pause
        return self.bounds

    def ask(self) -> dict[MessageQueue, Bounds]:
        """Ask for the bounds of all queues now."""
        found = self._brokers.run(bounds_of(self._brokers, self._options, self._finder.queues))
        for queue, bounds in found.items():
            ended_at = self._ended_at.get(queue, bounds.high)
            if bounds.high < ended_at:
                self.shrunk[queue] = ended_at
            self._ended_at[queue] = bounds.high
        self.bounds = found
        self.caps = self._ending.caps(found)
        return found

    def wait(self) -> None:
        """Sleep, so that an idle caller leaves the time to others."""
        self._brokers.run(self._brokers.sleep(_WAIT_SECONDS_MAX))

    def _has_news(self, start: Mapping[MessageQueue, int]) -> bool:
        return any(
            min(bounds.high, self.caps.get(queue, bounds.high)) > start.get(queue, -1)
            for queue, bounds in self.bounds.items()
        )
