"""When a broker leaves the place of the master, and to whom: before its stop, or because it cannot lead.

Owns        how long a refusal of the store is borne, how soon a second try follows; who is asked for; the waits before.
Must not know   why the store refuses, how a role changes (member.py), who may be elected: the controller says that.

A disk that is full, or that failed, is the loss of one machine: the group goes on without it. A replica whose own disk
takes nothing is not in step, or finds out when it is chosen, and leaves the place to the next one.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.broker.membership.calls import Calls
from rocketlake.broker.membership.group_view import GroupView
from rocketlake.broker.membership.heartbeats import Heartbeats
from rocketlake.broker.membership.standing import Standing, State
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.sync_state_set import SyncStateSet

__all__ = ["GivingWay", "Resigning", "Succession"]

_log = get_logger(__name__)

_HAND_OVER_SECONDS = 3.0
"""Each of the two waits of a planned change ends after this."""
_PATIENCE_SECONDS = 0.6
"""So long a master refuses before it gives way, and so long it leads well before it may do so again at once."""
_AGAIN_SECONDS = 20.0
_SILENT_SECONDS = 20.0
"""Longer than Apache's controllers listen for one that has gone without a word."""


class GivingWay:
    """Of one broker."""

    def __init__(self, refusal: Callable[[], str], clock: Clock) -> None:
        """`refusal`: why the store takes no messages, "" while it does."""
        self._refusal = refusal
        self._clock = clock
        self._since: float | None = None
        self._well_since: float | None = None
        self._not_before = 0.0

    def look(self) -> str:
        """Why this master has to hand over now; "" if it has not to."""
        now, refusal = self._clock.monotonic(), self._refusal()
        if not refusal:
            self._since = None
            self._well_since = now if self._well_since is None else self._well_since
            if now - self._well_since >= _PATIENCE_SECONDS:
                self._not_before = now
            return ""
        self._well_since = None
        if self._since is None:
            self._since = now
        elif now - self._since >= _PATIENCE_SECONDS and self.may:
            self.gave()
            return refusal
        return ""

    @property
    def may(self) -> bool:
        """True if the last time is long enough ago, or this broker has led well since.

        Two brokers that cannot lead would else change all the time.
        """
        return self._clock.monotonic() >= self._not_before

    def gave(self) -> None:
        """It gives way now."""
        self._since = self._well_since = None
        self._not_before = self._clock.monotonic() + _AGAIN_SECONDS


class Succession:
    """The ways of one member to leave the place of the master to another one."""

    def __init__(
        self,
        standing: Standing,
        calls: Calls,
        clock: Clock,
        *,
        learn: Callable[[GroupView], None],
        refuse_messages: Callable[[str], object],
        log_end: Callable[[], PhysicalOffset],
    ) -> None:
        """`learn`: the controller has said so. `refuse_messages`: see Broker."""
        self._standing = standing
        self._calls = calls
        self._clock = clock
        self._learn = learn
        self._refuse_messages = refuse_messages
        self._log_end = log_end

    async def hand_over(self, replicas: SyncStateSet | None) -> None:
        """Make the best replica in step that can lead the master, when it has all. Takes a few seconds at most.

        `replicas`: the set of this master. The controller refuses those that it does not hear, or that cannot lead.
        """
        if self._standing.state is not State.MASTER or replicas is None:
            return
        ends = {broker_id: replicas.reported(broker_id) or 0 for broker_id in replicas.recorded}
        ends.pop(self._standing.broker_id, None)
        if not ends:
            _log.warning("no replica is in step: this broker has no successor")
            return
        self._refuse_messages("this broker hands over: ask again")
        if not await self._until(lambda: replicas.confirmed >= self._log_end()):
            _log.warning("not all replicas have caught up before the change")
        try:
            for broker_id in sorted(ends, key=lambda each: (-ends[each], each)):
                if self._standing.state is State.MASTER:
                    await self._designate(broker_id)
        except RocketLakeError as error:
            _log.warning("no other broker takes over: %s", error)
        if self._standing.state is State.MASTER:
            return
        await self._until(lambda: self._standing.goal == self._standing.reached)
        _log.info("broker %s is the master now", self._standing.goal.master_id)

    async def pass_on(self) -> None:
        """Have any other replica chosen that lives and has all acknowledged messages; there may be none.

        For a broker that was chosen and cannot lead. Its set is itself alone, so it knows no other one in step. The
        next id is asked first: brokers that all cannot lead pass the place in a circle, until one can.
        """
        epoch, own = self._standing.goal.epoch, self._standing.broker_id
        try:
            for broker_id in sorted(await self._calls.living(), key=lambda each: (each < own, each)):
                if broker_id != own and self._standing.goal.epoch == epoch:
                    await self._designate(broker_id)
        except RocketLakeError as error:
            _log.warning("no other replica is chosen in place of this one: %s", error)

    async def _designate(self, broker_id: int) -> None:
        try:
            self._learn(await self._calls.elect(broker_id, designated=True))
        except RemoteError as error:
            _log.info("broker %d is not chosen: %s", broker_id, error)

    async def _until(self, is_reached: Callable[[], bool]) -> bool:
        deadline = self._clock.monotonic() + _HAND_OVER_SECONDS
        while not is_reached() and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.002)
        return is_reached()


class Resigning:
    """Silence, under a controller that would keep this master. Told of each view of the group.

    Our controller ends the epoch of a master that registers as damaged, and the tries of a proposal that nobody
    answered. Apache's knows neither, and keeps a master as long as it hears its heartbeats. When their link ends, it
    chooses another replica in step, or nobody: with a newer epoch in both cases, and what was asked for in the old one
    is over.

    A controller that is started again just then notices nothing, so the silence ends after a while, and is tried again.
    """

    def __init__(self, heartbeats: Heartbeats, hang_up: Callable[[], object], clock: Clock) -> None:
        """`hang_up`: end the links to all controllers; the next question opens a new one."""
        self._heartbeats = heartbeats
        self._hang_up = hang_up
        self._clock = clock
        self._epoch: int | None = None
        """The epoch that is given up, while this broker is silent."""
        self._since = 0.0

    async def look(self, view: GroupView, broker_id: int, why: str) -> None:
        """The controller has said so; `why` this broker cannot go on in its epoch, "" if it can."""
        if self._epoch is not None:
            if view.master_epoch > self._epoch or self._clock.monotonic() - self._since > _SILENT_SECONDS:
                self._epoch, self._heartbeats.is_silent = None, False
                await self._heartbeats.beat_all()  # before an election is asked for: only who is heard is chosen
        elif why and view.master_id == broker_id and not view.asker_mark:
            _log.warning("epoch %d is given up, the controllers hear nothing more of it: %s", view.master_epoch, why)
            self._epoch, self._since, self._heartbeats.is_silent = view.master_epoch, self._clock.monotonic(), True
            self._hang_up()
