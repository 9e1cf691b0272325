"""How far one table is behind its topic, as looks at the topic and the ends of turns tell.

Owns        the offsets that the table has reached, by queue.
Must not know   Spark, when a turn may begin (table_turns.py).

A turn tells the ends of what it has read. Of queues of which it says nothing there was nothing to read up to the look
before it, unless their broker was away: so what a look does not see is forgotten, and read when it is back.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketlake.model.message_queue import MessageQueue

__all__ = ["Offsets", "Reached"]

Offsets = Mapping[MessageQueue, int]
"""By queue, the offset behind the last message."""


class Reached:
    """Of one table."""

    def __init__(self) -> None:
        self.newest: Offsets | None = None
        """What the last look has seen; None if the brokers did not say."""
        self.ends: dict[MessageQueue, int] | None = None
        """What is in the table; None if nobody knows."""
        self._aim: dict[MessageQueue, int] | None = None
        """What was there when the turn began."""

    def look(self, newest: Offsets | None) -> None:
        """A look has seen that the topic has come so far."""
        self.newest = newest
        if newest is not None:
            self.ends, self._aim = _those_in(newest, self.ends), _those_in(newest, self._aim)

    def is_behind(self) -> bool:
        """True if there is something to read, or if nobody knows. A topic that shrank counts: its turn says why."""
        if self.ends is None or self.newest is None:
            return True
        return any(self.ends.get(queue, 0) != end for queue, end in self.newest.items())

    def begin(self) -> None:
        """A turn begins, and reads what is there."""
        self._aim = None if self.newest is None else dict(self.newest)

    def finish(self, read: Offsets) -> None:
        """The turn has ended; it has read up to `read`."""
        if self._aim is None:
            self.ends = None
            return
        self.ends = self._aim | {queue: max(self._aim.get(queue, 0), end) for queue, end in read.items()}


def _those_in(newest: Offsets, offsets: Offsets | None) -> dict[MessageQueue, int] | None:
    return None if offsets is None else {queue: end for queue, end in offsets.items() if queue in newest}
