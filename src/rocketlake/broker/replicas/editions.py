"""How new the tables of this broker are, which slaves of ours wait for a newer one, and what each of them has saved.

Owns        the editions of all tables, the held requests of slaves, the calls that wait until slaves have a change.
Must not know   what a table holds, how a slave copies it.

An edition counts the changes of a table since this broker started. A slave tells with each request which editions it
has saved, so a request is also the receipt for the tables copied before it. Changes of topics and groups wake slaves at
once; offsets and progress change all the time, so slaves hear of them twice a second.

Invariant: `when_copied` calls exactly once, at once if no slave of ours is connected. A slave that keeps a change
waiting for three seconds is not waited for again until it has sent a receipt. A receipt for an id that may be elected
counts only from the process that the controller has recorded under it: the table is on the disk of that one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Clock
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.broker.held.wait_list import Waiter, WaitList
from rocketlake.net.request import HELD, Asker, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.headers.tables import NewerTablesHeader, NewerTablesReplyHeader

__all__ = ["Editions"]

_log = get_logger(__name__)

_PROGRESS_SECONDS = 0.5
_PATIENCE_SECONDS = 3.0
"""How long a change waits for a slave that is connected."""
_HOLD_MS_MAX = 60_000
_WAITING_MAX = 1000
_KEY = "tables"


class Counted(Protocol):
    """A table that counts its changes."""

    @property
    def edition(self) -> int:
        """Another number after each change."""
        ...


class _Slave:
    """A slave that asks on one link."""

    __slots__ = ("broker_id", "is_late", "mark", "saved")

    def __init__(self, broker_id: int, mark: str) -> None:
        self.broker_id = broker_id
        self.mark = mark
        self.saved: Mapping[str, int] = {}
        self.is_late = False


class _Wait:
    """A call that waits until slaves have saved these editions."""

    __slots__ = ("deadline", "done", "seconds", "wanted")

    def __init__(self, wanted: Mapping[str, int], seconds: float, now: float, done: Callable[[str], None]) -> None:
        self.wanted = wanted
        self.seconds = seconds
        self.deadline = now + seconds
        self.done = done


class Editions(Service):
    """The tables of one broker, as its slaves follow them."""

    def __init__(self, clock: Clock, turns: Turns) -> None:
        super().__init__("table-editions", clock)
        self._life = f"{clock.now_ms():x}"
        """Editions of another life of this broker say nothing."""
        self._expected: Callable[[], Collection[int]] = tuple
        self._knows: Callable[[int, str], bool] = lambda _broker_id, _mark: True
        self._ours: set[int] = set()
        """The broker ids that have asked. Apache's slaves do not, and send no receipts."""
        self._settings: dict[str, Counted] = {}
        self._progress: dict[str, Counted] = {}
        self._told: Mapping[str, int] = {}
        self._slaves: dict[Asker, _Slave] = {}
        self._waits: list[_Wait] = []
        self._held: WaitList[str] = WaitList("newer-tables", clock, turns, _WAITING_MAX)
        self.adopt(self._held)

    def expect(self, slaves: Callable[[], Collection[int]], knows: Callable[[int, str], bool]) -> None:
        """`slaves`: broker ids that may be elected: a change waits for them, if they are ours, even while away.

        `knows`: True if the process with this mark has this broker id, as far as the controller told.
        """
        self._expected, self._knows = slaves, knows

    def add_settings(self, **tables: Counted) -> None:
        """Tables whose changes slaves copy at once, and confirm. The owner calls `changed` behind each change."""
        self._settings.update(tables)

    def add_progress(self, **tables: Counted) -> None:
        """Tables that change with the work of the broker."""
        self._progress.update(tables)

    async def start(self) -> None:
        """Begin to hold requests."""
        await super().start()
        await self._held.start()
        self._watch()

    def _watch(self) -> None:
        """Look for progress and at deadlines, once a slave has asked: a broker without one is not woken for nothing."""
        if self._ours and self.is_running and "progress" not in self.duties:
            self.every("progress", _PROGRESS_SECONDS, self._look)

    async def stop(self) -> None:
        """Answer the held requests and the calls that wait."""
        await self._held.stop()
        await super().stop()
        waits, self._waits = self._waits, []
        for wait in waits:
            call(wait.done, "")

    @property
    def slaves(self) -> list[int]:
        """The broker ids of the slaves of ours that are connected."""
        return sorted({slave.broker_id for slave in self._slaves.values()})

    # -- requests of slaves --------------------------------------------------------------------------------------------

    def newer(self, request: Request) -> Reply | Held:
        """GET_NEWER_TABLES."""
        header = request.header(NewerTablesHeader)
        known = self._read(header.known)
        self._note_receipt(request.asker, header, known)
        changed = self._changed_since(known)
        if changed or self._held.is_closed or self._held.is_full or header.hold_millis <= 0:
            return self._answer(changed)
        waiter = Waiter(_KEY, 0, None, request.asker, lambda: request.answer(self._answer(self._changed_since(known))))
        self._held.hold(waiter, min(header.hold_millis, _HOLD_MS_MAX))
        return HELD

    def changed(self) -> None:
        """A table of settings has changed."""
        if len(self._held):
            self._held.wake(_KEY)

    def _look(self) -> None:
        """Wake slaves if there was progress; give up waits whose time is up."""
        now = {name: table.edition for name, table in self._progress.items()}
        if now != self._told:
            self._told = now
            self._held.wake(_KEY)
        self._settle(self._clock.monotonic())

    def _answer(self, changed: list[str]) -> Reply:
        editions = ",".join(f"{name}={edition}" for name, edition in self._now().items())
        return Reply(header=NewerTablesReplyHeader(known=f"{self._life}/{editions}", changed=",".join(changed)))

    def _now(self) -> dict[str, int]:
        return {name: table.edition for name, table in (self._settings | self._progress).items()}

    def _changed_since(self, known: Mapping[str, int]) -> list[str]:
        return [name for name, edition in self._now().items() if known.get(name, -1) != edition]

    def _read(self, known: str) -> Mapping[str, int]:
        """The editions in this text; none if it is of another life of this broker, or no such text."""
        life, _, text = known.partition("/")
        if life != self._life or len(text) > 1000:
            return {}
        pairs = (part.partition("=") for part in text.split(","))
        return {name: int(number) for name, _, number in pairs if number.isdecimal()}

    # -- receipts ------------------------------------------------------------------------------------------------------

    def when_copied(self, done: Callable[[str], None], seconds: float = _PATIENCE_SECONDS) -> None:
        """Call `done` when each connected slave of ours has saved the settings as they are now, in `seconds` at most.

        `done("")`: each of them has; else the text says which one has not. A slave whose link breaks has left.
        """
        if not self._absent({}) and not any(not slave.is_late for slave in self._slaves.values()):
            call(done, "")
            return
        wanted = {name: table.edition for name, table in self._settings.items()}
        self._waits.append(_Wait(wanted, seconds, self._clock.monotonic(), done))
        self._settle(-math.inf)

    def _absent(self, wanted: Mapping[str, int]) -> set[int]:
        """The expected slaves of ours that have no link, or not saved these editions."""
        have = [slave for slave in self._slaves.values() if not _lacks(slave, wanted)]
        there = {slave.broker_id for slave in have if self._knows(slave.broker_id, slave.mark)}
        return self._ours.intersection(self._expected()) - there

    def _note_receipt(self, asker: Asker, header: NewerTablesHeader, saved: Mapping[str, int]) -> None:
        slave = self._slaves.get(asker)
        if slave is None:
            slave = self._slaves[asker] = _Slave(header.broker_id, header.mark)
            self._ours.add(header.broker_id)
            self._watch()
            asker.on_close.append(self._left)
            _log.info("slave %d (%s) copies the tables of this broker", header.broker_id, asker.address)
        slave.saved = saved
        slave.is_late = False
        self._settle(-math.inf)

    def _left(self, asker: Asker) -> None:
        slave = self._slaves.pop(asker, None)
        if slave is not None:
            _log.info("slave %d (%s) copies no more tables", slave.broker_id, asker.address)
            self._settle(-math.inf)

    def _settle(self, now: float) -> None:
        """End the waits that are over: all slaves have what is wanted, or the time is up."""
        for wait in list(self._waits):
            lacking = [slave for slave in self._slaves.values() if not slave.is_late and _lacks(slave, wait.wanted)]
            missing = {slave.broker_id for slave in lacking} | self._absent(wait.wanted)
            if missing and wait.deadline > now:
                continue
            self._waits.remove(wait)
            if wait.seconds >= _PATIENCE_SECONDS:
                for slave in lacking:
                    slave.is_late = True
            text = ", ".join(map(str, sorted(missing)))
            call(wait.done, f"slave {text} has not copied it within {wait.seconds:g} s" if missing else "")


def _lacks(slave: _Slave, wanted: Mapping[str, int]) -> bool:
    return any(slave.saved.get(name, -1) < edition for name, edition in wanted.items())
