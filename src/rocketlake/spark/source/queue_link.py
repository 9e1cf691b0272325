"""Pulls of one queue over a connection of one thread: the PullLink of brokers.py over the network.

Owns        which commands are pulls, what their answers mean.
Must not know   ranges, chunks, when such a link is worth opening (range_read.py).
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.client.wire import OwnLink, PreparedPulls, PullAnswer
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.brokers import Pulled

__all__ = ["QueueLink"]


class QueueLink:
    """See PullLink."""

    def __init__(
        self,
        link: OwnLink,
        pulls: PreparedPulls,
        queue: MessageQueue,
        meaning: Callable[[PullAnswer], Pulled],
        master: Callable[[], str | None],
    ) -> None:
        """`master()`: the address of the broker's master, as far as this process knows."""
        self._link = link
        self._pulls = pulls
        self._queue = queue
        self._meaning = meaning
        self._master = master
        self.read = link.read
        self.close = link.close

    def ask(self, offset: int, count: int) -> int:
        """See PullLink."""
        return self._link.ask(self._pulls.request(self._queue, offset, count))

    def head(self) -> tuple[int, Pulled, int]:
        """See PullLink."""
        command, size = self._link.head()
        return command.opaque, self._meaning(self._pulls.outcome(command, self._link.address)), size

    def leads_to_master(self) -> bool:
        """See PullLink."""
        return self._master() == self._link.address
