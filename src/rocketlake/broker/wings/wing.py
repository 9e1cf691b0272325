"""A wing: one feature of the broker, started and stopped as a whole.

Owns        the order in which the services of a wing start and stop; what a stopped wing of a master answers.
Must not know   the list of wings (broker.py), the features.

A broker has one role at a time. `MasterWing`s run on a master only, `SlaveWing`s on a slave only. A change of role
stops or starts them while the rest of the broker goes on: the store, the listeners, the links of clients, pulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service, stop_each
from rocketlake.broker.cluster.role import Role
from rocketlake.broker.dispatch_table import Row
from rocketlake.broker.tables.saved_table import SavedTable
from rocketlake.net.dispatcher import Run
from rocketlake.net.request import Asker, Reply, Request
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["ArrivalListener", "MasterWing", "SlaveWing", "Wing"]


class ArrivalListener(Protocol):
    """Waits for messages."""

    def is_awaited(self, topic: str, queue_id: int) -> bool:
        """True if a message of this queue may be waited for: a run of sends asks once, to skip `arrived`."""
        ...

    def arrived(self, topic: str, queue_id: int, max_offset: int, tag_code: int) -> None:
        """A message with this tag code came into a queue, which ends at `max_offset` now."""


class Wing(Service):
    """One feature. Its services are its parts (`Service.adopt`): they start in that order and stop in reverse."""

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name, clock)
        self.tables: Sequence[SavedTable] = ()
        """Loaded before the wing starts, saved by the table saver."""
        self.rows: Sequence[Row] = ()
        """The requests that the wing serves."""
        self.run: Run | None = None
        """Serves runs of plain requests; None if the wing has none, or the kernels are not compiled."""
        self.on_link_lost: Sequence[Callable[[Asker], None]] = ()
        self.listeners: Sequence[ArrivalListener] = ()
        """Those that wait for messages of any topic."""
        self.arrivals: Mapping[str, Callable[[int], None]] = {}
        """By topic: called with the queue id when a message came into a queue of the topic."""

    async def start(self) -> None:
        """Start the services, in order."""
        await super().start()
        for part in self.parts:
            await part.start()

    async def stop(self) -> None:
        """Stop the services, the last one first; one that raises is logged and the others are stopped."""
        await stop_each(*[part.stop for part in reversed(self.parts)])
        await super().stop()

    def store_stopped(self) -> None:
        """The store has stopped, all of it is on disk. The tables of the wing are saved after this call."""


class SlaveWing(Wing):
    """A wing that only a slave runs. It may be started again after a stop."""


class MasterWing(Wing):
    """A wing that only a master runs. It may be started again after a stop."""

    def __init__(self, name: str, clock: Clock, role: Role) -> None:
        super().__init__(name, clock)
        self.role = role

    @property
    def codes(self) -> list[int]:
        """The codes of the requests that this wing serves."""
        return [row.code for row in self.rows]

    def refuse(self, _request: Request) -> Reply:
        """The answer to a request of this wing while the wing is stopped."""
        return Reply(ResponseCode.SLAVE_NOT_AVAILABLE, remark=self.role.refusal)

    def follow(self) -> None:
        """The broker is a slave from now on: called behind the stop of the wing, and in place of a start."""
