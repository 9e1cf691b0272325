"""One connection to the master: frames come in, reports go out.

Owns        the order of what is done with bytes that came; when this slave says where its log ends; why it all ended.
Must not know   listening, connecting again (follower.py), bytes of frames (dialect.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

from rocketlake.auth.credentials import Credentials
from rocketlake.auth.proof import answer, question_in
from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError, StoreError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.dialect import Agreement, FollowerDialect, Piece
from rocketlake.replication.incoming import Incoming
from rocketlake.replication.settings import StreamSettings
from rocketlake.store.message_store import MessageStore

__all__ = ["MasterLink"]

_NOWHERE = PhysicalOffset(-1)
_CONNECT_SECONDS = 5.0
_LATE_LOOK_SECONDS = 0.005
_LATE_SECONDS_MAX = 5.0  # as long as Apache's AllocateMappedFileService lets an append wait

Spawn = Callable[[str, Coroutine[Any, Any, None]], object]


class MasterLink(asyncio.Protocol):
    """One connection."""

    def __init__(
        self,
        store: MessageStore,
        settings: StreamSettings,
        dialect: FollowerDialect,
        clock: Clock,
        spawn: Spawn,
        *,
        credentials: Callable[[], Credentials | None],
    ) -> None:
        """`spawn` runs what must wait, named, and ends it with the follower.

        `credentials`: what this slave proves itself with to a master that asks.
        """
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when the connection is over, with the reason."""
        self.heard_at = self._wrote_at = self._counted_at = clock.monotonic()
        self.has_heard = False
        """True when the master has said something; until then `heard_at` is when this connection began."""
        self.bytes_per_second = 0
        self._counted = 0
        self._store = store
        self._settings = settings
        self._dialect = dialect
        self._clock = clock
        self._spawn = spawn
        self._incoming = Incoming(store, settings.record_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._credentials = credentials
        self._begin: bytes | None = b""
        """The first bytes of the master, until they tell whether it asks who this slave is; then None."""
        self._pauses = 0
        """Reasons to read nothing now."""
        self._confirm: PhysicalOffset | None = None
        self._has_progress = False
        self._reported = _NOWHERE
        self._awaits_sync = False
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def position(self) -> PhysicalOffset:
        """Offset behind the last byte that came."""
        return self._incoming.position

    @property
    def is_connected(self) -> bool:
        """True from the connection on to its end."""
        return self._transport is not None and not self.ended.done()

    @property
    def is_good(self) -> bool:
        """True when bytes of the master were appended, or it had none that the own log lacks."""
        return self._has_progress and self._settled.is_set()

    @property
    def waits_for(self) -> str:
        """What has not come yet."""
        if not self._settled.is_set():
            return "waits for this disk: the log is being cut to its master's, or an epoch is being noted"
        return "is connected and sends nothing of its log: see what it says of this slave in its own log"

    # -- asyncio -------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello at once: a master is silent until then."""
        self._transport = cast(asyncio.Transport, transport)
        if self.ended.done():
            self._transport.abort()
            return
        self._reported = self._safe_end()
        self._write(self._dialect.hello(self._reported))

    def data_received(self, data: bytes) -> None:
        """Frames, cut anywhere."""
        if self.ended.done():
            return
        self.heard_at, self.has_heard = self._clock.monotonic(), True
        self._counted += len(data)
        if self._begin is not None:
            data = self._prove(self._begin + data)
        self._work(iter(self._dialect.feed(data)))

    def _prove(self, data: bytes) -> bytes:
        """Answer the question of a master that knows users; the bytes behind it. Apache's masters ask nothing."""
        question = question_in(data)
        if question == b"":
            self._begin = data
            return b""
        self._begin = None
        if question is None:
            return data
        credentials = self._credentials()
        if credentials is None:
            self.end(
                "the master gives its log to users only: set innerClientAuthenticationCredentials as the master has it"
            )
            return b""
        self._write(answer(question, credentials))
        return data[len(question) :]

    def connection_lost(self, error: Exception | None) -> None:
        """The master or the line is gone."""
        self._transport = None
        self.end(str(error) if error else "the master has closed it; its log may say why")

    def end(self, reason: str) -> None:
        """End the connection; nothing is appended any more."""
        if not self.ended.done():
            self.ended.set_result(reason)
        self.close()

    def close(self) -> None:
        """End the connection without a reason."""
        if not self.ended.done():
            self.ended.set_result("this broker follows no more")
        if self._transport is not None:
            self._transport.abort()

    # -- what came -----------------------------------------------------------------------------------------------------

    def _work(self, events: Iterator[Piece | Agreement]) -> None:
        """Take all that came and append what is whole; go on later if something must be waited for."""
        try:
            for event in events:
                if self.ended.done():
                    return
                if isinstance(event, Agreement):
                    self._append()
                    self._settle(events, event)
                    return
                self._incoming.expect(event.offset)
                self._has_progress = self._has_progress or (event.offset == self._incoming.end and not event.data)
                self._confirm = event.confirm
                self._incoming.add(event.data)
            if self._store.log.is_late:
                self._pause("late", self._when_made())
            else:
                self._append()
        except (RocketLakeError, OSError) as error:
            self.end(str(error))

    def _append(self) -> None:
        before = self._incoming.end
        end = self._incoming.append()
        self._has_progress = self._has_progress or end > before
        self._dialect.appended(end, self._confirm)
        self.tell()

    def _settle(self, events: Iterator[Piece | Agreement], agreement: Agreement) -> None:
        async def settle() -> None:
            try:
                answer = await agreement.settle()
            finally:
                self._settled.set()
            if answer and self._settings.reports_flushed:
                await self._flushed(self._store.max_physical_offset)
            if self.ended.done():
                return
            self._incoming = Incoming(self._store, self._settings.record_bytes_max)
            self._reported = self._safe_end()
            self._write(answer)
            self._work(events)

        self._settled.clear()
        self._pause("settle", settle())

    async def settled(self) -> None:
        """Wait for what is being settled: a truncation that is cancelled half way leaves a store that must restart."""
        await self._settled.wait()

    async def _when_made(self) -> None:
        """The next file of the log is still being made: read nothing until it is there."""
        deadline = self._clock.monotonic() + _LATE_SECONDS_MAX
        while self._store.log.is_late and self._clock.monotonic() < deadline:
            await self._clock.sleep(_LATE_LOOK_SECONDS)
        if self._store.log.is_late:
            raise StoreError(f"the next commit log file is still being made after {_LATE_SECONDS_MAX:g} s")
        if not self.ended.done():  # else another master may have been followed meanwhile: these bytes are the old one's
            self._append()

    def _pause(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Read nothing until `work` has ended; its error ends the connection."""
        self._pauses += 1
        if self._transport is not None:
            self._transport.pause_reading()

        async def run() -> None:
            try:
                await work
            except (RocketLakeError, OSError) as error:
                self.end(str(error))
            self._pauses -= 1
            if self._transport is not None and not self._pauses and not self.ended.done():
                self._transport.resume_reading()

        self._spawn(name, run())

    # -- reports -------------------------------------------------------------------------------------------------------

    def tell(self) -> None:
        """Report the own end, if it is another one than was reported."""
        end = self._safe_end()
        if end > self._reported:
            self._reported = end
            self._write(self._dialect.report(end))
        if self._settings.reports_flushed and end < self._store.max_physical_offset and not self._awaits_sync:
            self._awaits_sync = True
            self._store.durability.flushed.wait(end + 1, self._synced, float("inf"))

    def _synced(self, is_synced: bool) -> None:
        self._awaits_sync = False
        if is_synced and not self.ended.done():
            self.tell()

    async def _flushed(self, end: PhysicalOffset) -> None:
        flushed = asyncio.get_running_loop().create_future()
        self._store.durability.flushed.wait(end, lambda _is_flushed: flushed.set_result(None), float("inf"))
        await flushed

    def _safe_end(self) -> PhysicalOffset:
        """Not beyond what is in the files: the end of this process takes write buffers with it."""
        store = self._store
        return store.flushed_offset if self._settings.reports_flushed else store.log.max_offset

    def _write(self, data: bytes) -> None:
        if self._transport is not None and data and not self.ended.done():
            self._wrote_at = self._clock.monotonic()
            self._transport.write(data)

    def look(self, now: float) -> None:
        """Called a few times a second: a report in place of a heartbeat, or the end of a dead connection."""
        if now - self._counted_at >= 1:
            self.bytes_per_second = int(self._counted / (now - self._counted_at))
            self._counted_at, self._counted = now, 0
        silence = self._settings.silence_seconds
        if self._transport is None and now - self.heard_at > _CONNECT_SECONDS:
            self.end(f"no connection within {_CONNECT_SECONDS:g} s")
        elif now - self.heard_at > silence:
            self.end(f"nothing came for {silence:g} s (haHousekeepingInterval)")
        elif now - self._wrote_at > self._settings.heartbeat_seconds:
            self._write(self._dialect.report(min(self._reported, self._safe_end())))  # the log may be cut by now
