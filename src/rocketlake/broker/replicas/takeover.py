"""A planned change of the master of a name that has no controller: from another broker to this one, and back.

Owns        the order of the steps on this broker, what must be proven before this broker takes messages.
Must not know   who asks for it, how wings start and stop (broker.py), how the other broker is made a slave.

Two masters of one name would give the same offsets to different messages. So a slave becomes the master only when the
other broker itself says that it is a slave, when its log stands still, and when this broker has all of it; then it
copies the tables once more. It looks a second time behind that, when nothing is copied any more. And a master becomes
a slave only when its slaves have all of its log. What is not so ends the change, and the role stays.

Two slaves may be told at once to take over from a master that stands still. Each says that it is changing before it
asks the others, and asks them last of all: so at least one of the two sees the other, and gives up.

The role is on the disk before it holds: a broker that is killed in between starts with the new one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RemoteError, StoreError
from rocketlake.base.logs import get_logger
from rocketlake.base.worker import Worker, run_on
from rocketlake.broker.cluster.role import MASTER_ID, Role
from rocketlake.broker.replicas.master_calls import MasterCalls, Part
from rocketlake.broker.replicas.taken_role import TakenRole
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Followed", "Roles", "Takeover"]

_log = get_logger(__name__)

_QUIET_SECONDS = 0.3
"""A log that has not grown for so long stands still. An append of Apache's that began before its broker became a slave
ends within a millisecond or so; it tells of those that take longer (pageCacheLockTimeMills)."""
_LOOK_SECONDS = 0.02
_PATIENCE_SECONDS = 10.0
_SYNC_SECONDS = 1.0
"""A disk that is slower, or has failed, does not stop a change: that may be its reason."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The master that a slave follows."""

    address: str
    """`host:port` of its listener, "" while none is known."""
    stream: str
    """`host:port` from which its log comes now, "" without a connection."""


class Roles(Protocol):
    """The broker: see there."""

    async def become_slave(
        self, broker_id: int, copied: Callable[[], Awaitable[None]] | None = None, *, waits: bool = True
    ) -> None: ...

    async def become_master(
        self, ready: Callable[[], Awaitable[None]] | None = None, *, waits: bool = True
    ) -> None: ...


class Takeover:
    """Changes the role of this broker."""

    def __init__(
        self,
        *,
        role: Role,
        roles: Roles,
        taken: TakenRole,
        calls: MasterCalls,
        copy_tables: Callable[[str], Awaitable[None]],
        log_end: Callable[[], int],
        copied_end: Callable[[], int],
        kept_end: Callable[[], int],
        sync_log: Callable[[], None],
        followed: Callable[[], Followed],
        worker: Worker,
        clock: Clock,
    ) -> None:
        """`copy_tables(address)`: all of them, behind the stop of the usual copies.

        `log_end`: of this broker. `copied_end`: up to where each connected slave has it. `kept_end`: up to where a
        power cut leaves it here; `sync_log` moves that.
        `followed`: the master that this slave copies now.
        """
        self._role = role
        self._roles = roles
        self._taken = taken
        self._calls = calls
        self._copy_tables = copy_tables
        self._log_end = log_end
        self._copied_end = copied_end
        self._kept_end = kept_end
        self._sync_log = sync_log
        self._followed = followed
        self._worker = worker
        self._clock = clock

    async def lead(self, other: str, members: Sequence[str] = (), *, copies: bool = True) -> None:
        """Become the master in place of the broker at `other`, which takes no messages any more.

        `members`: other brokers of the name. None of them may be a master, or be changing its role.
        `copies`: its tables are newer. RocketLakeError: this broker stays a slave, for the reason told.
        """
        if self._role.is_master:
            return
        before = self._role.broker_id
        others = [other, *await self._master_unlisted(other)]
        rivals = [each for each in members if each not in others]
        for each in rivals:
            await self._slave(each)
        for each in others:
            await self._until_still(each)
        try:
            await self._roles.become_master(partial(self._settle, others, rivals, copies))
        except BaseException:
            # A master that is stopped while it tells the name servers has acknowledged messages: it stays the master.
            if not self._role.is_master:
                await self._keep(before)
            raise
        _log.warning("this broker is the master of %s now, in place of %s", self._role.broker_name, other)

    async def follow(self, broker_id: int) -> None:
        """Become a slave with this id. RocketLakeError: this broker stays what it was, for the reason told."""
        if not self._role.is_master:
            return
        try:
            await self._roles.become_slave(broker_id, partial(self._hand_over, broker_id))
        except BaseException:
            if self._role.is_master:
                await self._keep(MASTER_ID)
            raise
        _log.warning("this broker is a slave of %s now (brokerId %d)", self._role.broker_name, broker_id)

    # -- from another broker -------------------------------------------------------------------------------------------

    async def _master_unlisted(self, other: str) -> list[str]:
        """The master that this slave follows, if that is not `other`: name servers that lost it do not list it."""
        followed = self._followed()
        if followed.address == other:
            return []
        if followed.address:
            try:
                part = await self._calls.part(followed.address)
            except LinkError as error:
                if self._followed().stream:
                    raise _still_there(followed.address, f"it does not answer ({error.what})") from error
                return []  # nobody hears of it: it is gone
            if part.broker_name != self._role.broker_name:
                return []
            if not part.is_slave:
                raise _still_there(followed.address, "it takes messages")
            return [followed.address]
        if followed.stream and followed.stream not in (await self._calls.part(other)).streams:
            raise _still_there(followed.stream, "no name server tells which broker that is")
        return []

    async def _until_still(self, other: str) -> None:
        """Until this broker has all of a log that does not grow."""
        deadline = self._clock.monotonic() + _PATIENCE_SECONDS
        part = await self._slave(other)
        still_since = self._clock.monotonic()
        while self._clock.monotonic() - still_since < _QUIET_SECONDS or self._log_end() < part.log_end:
            await self._clock.sleep(_LOOK_SECONDS)
            now = await self._slave(other)
            if now.log_end != part.log_end or now.appends:
                part, still_since = now, self._clock.monotonic()
            if self._clock.monotonic() > deadline:
                lacking = part.log_end - self._log_end()
                raise _refusal(
                    f"this broker lacks {lacking} bytes of its log" if lacking > 0 else "its log still grows", other
                )

    async def _settle(self, others: Sequence[str], rivals: Sequence[str], copies: bool) -> None:
        """Nothing is appended here any more: copy the tables, look again."""
        if copies:
            await self._copy_tables(others[0])
        for other in others:
            part = await self._slave(other)
            if part.log_end > self._log_end():
                ends = f"its log has grown to {part.log_end}, that of this broker ends at {self._log_end()}"
                raise _refusal(ends, other)
        for rival in rivals:
            await self._slave(rival)
        await run_on(self._worker, partial(self._save, MASTER_ID))

    async def _slave(self, other: str) -> Part:
        part = await self._calls.part(other)
        if not part.is_slave:
            raise _refusal("it is a master: it takes messages", other)
        if part.is_changing:
            raise _refusal("its role is being changed: another takeover is under way", other)
        if part.broker_name != self._role.broker_name:
            raise _refusal(f"its brokerName is {part.broker_name}, that of this broker {self._role.broker_name}", other)
        return part

    # -- to another broker ---------------------------------------------------------------------------------------------

    async def _hand_over(self, broker_id: int) -> None:
        """Nothing is appended here any more: wait until the slaves have all of it.

        And until it is synced: of delayed messages a table says "delivered" when the delivered copy cannot be lost, and
        the next master delivers what it does not say.
        """
        deadline = self._clock.monotonic() + _PATIENCE_SECONDS
        self._sync_log()
        while self._copied_end() < self._log_end():
            if self._clock.monotonic() > deadline:
                raise RemoteError(
                    f"the log ends at {self._log_end()}, slaves have it up to {self._copied_end()}",
                    code=ResponseCode.SYSTEM_ERROR,
                    hint="see that each slave of this broker is in step: `rocketlake takeover --dry-run`",
                )
            await self._clock.sleep(_LOOK_SECONDS)
        deadline = self._clock.monotonic() + _SYNC_SECONDS
        while self._kept_end() < self._log_end() and self._clock.monotonic() < deadline:
            await self._clock.sleep(_LOOK_SECONDS)
        await run_on(self._worker, partial(self._save, broker_id))

    # -- the role on disk ----------------------------------------------------------------------------------------------

    async def _keep(self, broker_id: int) -> None:
        """See that the disk says the role that this broker has kept. A write that nobody waits for may still run."""

        def mend() -> None:
            if self._taken.load() != broker_id:
                self._save(broker_id)

        try:
            await run_on(self._worker, mend)
        except (OSError, StoreError) as error:
            _log.error("the role on disk is not the one that this broker has (brokerId %d): %s", broker_id, error)

    def _save(self, broker_id: int) -> None:
        try:
            self._taken.save(broker_id)
        except OSError as error:
            raise StoreError(f"the role is not saved: {error}", hint="look at the disk of this broker") from error


def _still_there(address: str, why: str) -> RemoteError:
    return RemoteError(
        f"not taken over: this broker still follows another master: {why}",
        code=ResponseCode.SYSTEM_ERROR,
        address=address,
        hint="see that this master registers with the name servers, or stop it; then repeat `rocketlake takeover`",
    )


def _refusal(reason: str, other: str) -> RemoteError:
    return RemoteError(
        f"not taken over: {reason}",
        code=ResponseCode.SYSTEM_ERROR,
        address=other,
        hint="`rocketlake takeover` makes it a slave first; repeat it",
    )
