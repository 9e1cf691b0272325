"""A slave keeps its tables like its master's.

Owns        when which table is copied, what a copy waits for.
Must not know   requests (master_calls.py), what a table means (copied.py), who the master is (cluster/known_master.py).

Two duties. **Settings** (topics, groups): our master holds a question until something is newer, so they come within
milliseconds; Apache's master does not know the question and is asked every few seconds. A copy is on the disk of this
slave before the next question goes out, because the master takes the question for a receipt.
**Progress** (offsets of groups, which hold those of transactions, too, and of delayed messages): it says which messages
are dealt with, by messages that follow in the log. So a copy waits until the log of this slave is safe up to the end
that the master's log had behind the copy: under a controller, up to what is confirmed. Else a slave that became the
master would think a delayed message delivered whose delivered copy it never got, or lost when its log was cut; and it
would send a group behind the end of a queue.

A copy is checked as a whole, then taken over; a large one in short turns of the loop. One that fails leaves the tables
as they are, is logged and tried again after a second at most; health is red while it goes on failing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RemoteError, StoreError
from rocketlake.base.service import Service
from rocketlake.broker.cluster.known_master import KnownMaster
from rocketlake.broker.replicas.copied import Copied
from rocketlake.broker.replicas.master_calls import MasterCalls
from rocketlake.broker.tables.table_saver import NOT_SAVED, TableSaver

__all__ = ["TableCopies"]

_POLL_SECONDS = 3.0
"""Between two looks at an Apache master's topics and groups."""
_PROGRESS_SECONDS = 0.5
"""Between two looks at an Apache master's progress; between two copies of ours."""
_LOOK_SECONDS = 0.02
_PAUSE_SECONDS_MAX = 1.0
_TURN_SECONDS = 0.002
"""So long a large table is taken over before other work gets a turn."""


class TableCopies(Service):
    """Runs on a slave."""

    def __init__(
        self,
        settings: Sequence[Copied],
        progress: Sequence[Copied],
        *,
        ours_only: Sequence[Copied],
        calls: MasterCalls,
        master: KnownMaster,
        saver: TableSaver,
        safe_end: Callable[[], int],
        ask_for_master: Callable[[], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """`ours_only`: progress that Apache's master does not tell.

        `safe_end`: of this slave's log, up to which no new master takes it back. It moves without a word, so it is
        looked at.
        `ask_for_master`: asks the name servers who is the master now.
        """
        super().__init__("table-copies", clock)
        self._settings = settings
        self._progress = [*progress, *ours_only]
        self._of_apache = {copied.name for copied in progress}
        self._calls = calls
        self._master = master
        self._saver = saver
        self._safe_end = safe_end
        self._ask_for_master = ask_for_master
        self._known = ""
        self._known_of = ""
        """The master whose editions `_known` tells."""
        self._is_told = False
        """The master says when progress is newer."""
        self._newer: set[str] = set()
        """Progress to be copied next."""
        self._progress_is_newer = asyncio.Event()
        self._master_changed = asyncio.Event()
        master.on_change.append(self._note_master)

    async def start(self) -> None:
        """Begin to copy."""
        await super().start()
        self._known_of = ""
        self.keep("settings", self._copy_settings, pause_seconds_max=_PAUSE_SECONDS_MAX)
        self.keep("progress", self._copy_progress, pause_seconds_max=_PAUSE_SECONDS_MAX)

    async def _copy_settings(self) -> None:
        master = await self._present_master()
        if master != self._known_of:
            self._known, self._known_of = "", master
        try:
            newer = await self._calls.newer(master, self._known)
            self._note_answer(master, True)
            self._is_told = newer is not None
            self._note_newer(self._of_apache if newer is None else newer.tables)
            if newer is None:
                await self._fetch(master, self._settings)
                await self._clock.sleep(_POLL_SECONDS)
                return
            if wanted := [copied for copied in self._settings if copied.name in newer.tables]:
                await self._fetch(master, wanted)
        except LinkError:
            self._note_answer(master, False)
            await self._ask_for_master()
            raise
        self._known = newer.known

    async def copy_once(self, master: str) -> None:
        """Copy all tables of a broker whose log stands still, and is here up to its end; saved when this returns.

        To be called behind the stop: a copy that waits for the log would come later, with older contents. That broker
        need not be the master that was followed: what it has shows by its answers.
        """
        bodies = [(copied, await self._table(master, copied)) for copied in (*self._settings, *self._progress)]
        for copied, body in bodies:
            await self._take(copied, body)
        await self._until_saved()

    async def _fetch(self, master: str, wanted: Sequence[Copied]) -> None:
        """Copy these tables; they are saved when this returns."""
        for copied in wanted:
            body = await self._table(master, copied)
            if master == self._master.address:
                await self._take(copied, body)
        await self._until_saved()

    async def _until_saved(self) -> None:
        saved: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._saver.when_saved(partial(_end, saved))
        if not await saved:
            raise StoreError(NOT_SAVED, hint="see the broker's log")

    async def _copy_progress(self) -> None:
        master = await self._present_master()
        if self._is_told:
            await self._progress_is_newer.wait()
        self._progress_is_newer.clear()
        names, self._newer = self._newer if self._is_told else self._of_apache, set()
        wanted = [copied for copied in self._progress if copied.name in names]
        try:
            await self._take_when_told(master, wanted)
        except BaseException:
            self._newer |= names
            self._progress_is_newer.set()
            raise
        await self._clock.sleep(_PROGRESS_SECONDS)

    async def _take_when_told(self, master: str, wanted: Sequence[Copied]) -> None:
        """Copy these, and take them over when the log of this slave has what they speak of."""
        bodies = [await self._table(master, copied) for copied in wanted]
        end = await self._calls.log_end(master)
        while self._safe_end() < end and master == self._master.address:
            await self._clock.sleep(_LOOK_SECONDS)
        if master == self._master.address:
            for copied, body in zip(wanted, bodies, strict=True):
                await self._take(copied, body)

    async def _table(self, master: str, copied: Copied) -> bytes | None:
        """None: this master has nothing of the kind."""
        try:
            return await self._calls.table(master, copied.code, copied.bytes_max)
        except RemoteError as error:
            if error.code in copied.absent:
                return None
            raise

    async def _take(self, copied: Copied, body: bytes | None) -> None:
        if body is None:
            return
        turn_end = self._clock.monotonic() + _TURN_SECONDS
        for _ in copied.take(body):
            if self._clock.monotonic() >= turn_end:
                await self._clock.sleep(0)
                turn_end = self._clock.monotonic() + _TURN_SECONDS

    def _note_newer(self, names: Collection[str]) -> None:
        """Have the progress among these tables copied."""
        self._newer |= {copied.name for copied in self._progress if copied.name in names}
        if self._newer:
            self._progress_is_newer.set()

    def _note_answer(self, master: str, is_there: bool) -> None:
        if master == self._master.address:
            self._master.is_there = is_there

    def _note_master(self) -> None:
        """Wait no more for what the last master has to say."""
        self._master_changed.set()
        if self._known_of and self._known_of != self._master.address:
            self._calls.hang_up(self._known_of)

    async def _present_master(self) -> str:
        while not self._master.address:
            self._master_changed.clear()
            await self._master_changed.wait()
        return self._master.address


def _end(wait: asyncio.Future[bool], good: bool) -> None:
    """End the wait, if nothing has ended it."""
    if not wait.done():
        wait.set_result(good)
