"""How a broker comes into its group: an id, its registration.

Owns        the order of the steps, what is on disk before each of them.
Must not know   roles, heartbeats after the first, how often the steps are tried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import get_logger
from rocketlake.base.worker import Worker, run_on
from rocketlake.broker.cluster.role import Role
from rocketlake.broker.membership.boot import Boot
from rocketlake.broker.membership.calls import Calls
from rocketlake.broker.membership.group_view import NOTHING_KNOWN, GroupView, Known
from rocketlake.broker.membership.identity import Application, IdentityFiles
from rocketlake.broker.membership.lives import Lives
from rocketlake.broker.replicas.furthest_log import FurthestLog, LogPosition
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Joining"]

_log = get_logger(__name__)
_TRIES = 5
"""Ids that are applied for in one go: brokers that start together ask for the same one."""


class Joining:
    """The way of one broker into its group. Each step may be repeated."""

    def __init__(
        self,
        identity: IdentityFiles,
        boot: Boot,
        lives: Lives,
        calls: Calls,
        furthest: FurthestLog,
        *,
        role: Role,
        worker: Worker,
        now_ms: Callable[[], int],
        log_is_sound: Callable[[], bool],
    ) -> None:
        """`worker` reads and writes the files. `log_is_sound`: a start has found no damage that is not mended yet."""
        self.broker_id = 0
        """Our id; 0 until it is known."""
        self._identity = identity
        self._boot = boot
        self.lives = lives
        self._calls = calls
        self._furthest = furthest
        self._role = role
        self._worker = worker
        self._log_is_sound = log_is_sound
        self._now_ms = now_ms

    async def take_id(self) -> int:
        """The id of this broker, a new one if it has none. Raises RocketLakeError, OSError."""
        self.broker_id = await run_on(self._worker, self._identity.broker_id) or 0
        if not self.broker_id:
            self.broker_id = await self._apply()
            _log.info("this broker has id %d in its group %s", self.broker_id, self._role.broker_name)
        return self.broker_id

    async def _apply(self) -> int:
        """Take the id of an application from before the last stop, or else the next free one."""
        application = await run_on(self._worker, self._identity.application)
        for left in reversed(range(_TRIES)):
            if application is None:
                application = await self._new_application()
            try:
                await self._calls.apply_id(application)
                break
            except RemoteError as error:
                if error.code != ResponseCode.CONTROLLER_BROKER_ID_INVALID or not left:
                    raise
                application = None
                await run_on(self._worker, self._identity.give_up)
        broker_id: int = application.broker_id
        await run_on(self._worker, lambda: self._identity.applied(broker_id))
        return broker_id

    async def _new_application(self) -> Application:
        broker_id = await self._calls.next_id()
        application = Application(broker_id, "{}:{};{}".format(*self._role.address(), self._now_ms()))
        await run_on(self._worker, lambda: self._identity.apply(application))
        return application

    async def note(self, epoch: int, master: int | None) -> None:
        """There is such an epoch: remember it before anything follows from it. Raises OSError."""
        await run_on(self._worker, lambda: self.lives.note(epoch, master))
        if master is not None:
            await run_on(self._worker, self._furthest.forget)

    async def load(self) -> None:
        """Read what is on disk of lives and of a register that was lost. Raises StoreError, OSError."""
        await run_on(self._worker, self.lives.load)
        await run_on(self._worker, self._furthest.load)

    def lacks_furthest(self, own: LogPosition) -> str:
        """Why this broker, whose log ends at `own`, must not be the first master of its group; "" if it may."""
        return self._furthest.lacks(own, self._role.broker_name)

    async def register(
        self,
        copies_min: int,
        heartbeat: Callable[[], Awaitable[None]],
        *,
        known: Known = NOTHING_KNOWN,
        is_damaged: bool = False,
    ) -> GroupView:
        """Register under our id, then say with `heartbeat` that this broker lives. Raises RocketLakeError, OSError.

        A view without a master: none is alive. `known`: what this process has heard of. `is_damaged`: the log of this
        broker is.
        """
        is_whole = self._boot.log_whole and self._log_is_sound() and not is_damaged
        log_kept = "ON_DISK" if is_whole else "DAMAGED"
        view = await self._calls.register(
            self.broker_id,
            self.lives,
            known=known,
            boot_id=self._boot.boot_id,
            log_kept=log_kept,
            copies_min=copies_min,
        )
        if view.asker_mark:  # Apache's controller has recorded neither
            await run_on(self._worker, self._boot.told)
            await run_on(self._worker, self.lives.told)
        await heartbeat()
        return view
