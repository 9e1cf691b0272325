"""This broker as a member of its group: it asks the controller, and changes its role as the controller decides.

Owns        when the controller is asked, the change of role (standing.py says to which), the end of acks.
Must not know   requests to the controller (calls.py), who counts for an ack (in_step.py), frames between replicas.

What the controller says is believed by its epoch. A master that hears of a newer epoch stops to acknowledge in the same
turn of the loop; the change of its parts comes after that and takes its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.broker.cluster.role import Role
from rocketlake.broker.membership.calls import Calls
from rocketlake.broker.membership.controllers import ControllerSilent
from rocketlake.broker.membership.group_view import GroupView, Known
from rocketlake.broker.membership.heartbeats import Heartbeats
from rocketlake.broker.membership.in_step import InStep
from rocketlake.broker.membership.joining import Joining
from rocketlake.broker.membership.standing import Goal, Standing, State
from rocketlake.broker.membership.succession import GivingWay, Resigning, Succession
from rocketlake.broker.replicas.known_lives import KnownLives
from rocketlake.model.positions import PhysicalOffset
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.replication.epochs.promotion import LogDamaged
from rocketlake.replication.sync_state_set import SyncStateSet

__all__ = ["Member", "Parts", "Roles"]

_log = get_logger(__name__)

_RETRY_SECONDS = 0.2
_SHORT_SECONDS = 2.0
"""Sends wait so long for enough replicas in step before they are refused."""
_RED_SECONDS = 10.0
"""The health is red after so long without acknowledgements, or with nothing but refusals of the controller."""
_CHANGE_PAUSE_SECONDS_MAX = 2.0
"""Between two tries of a change of role: while one fails a group may be without a master."""
_HANGING_SECONDS = 3.0
"""A broker that was chosen and has not become the master for so long leaves the place to another one."""
_LOOK_SECONDS = 0.2
_BEHIND_SECONDS = 1.0
_HURRY_SECONDS, _HURRIED_MAX = 0.05, 20
"""After a notice a controller that does not know of it yet is asked so soon again, so many times."""
_VAIN_MAX = 3
"""A controller that tells nothing newer so many times is left for another: it may be cut off from its register."""
_NOT_OURS = (ResponseCode.CONTROLLER_BROKER_ID_INVALID, ResponseCode.NO_PERMISSION)
"""So a registration is refused while another process is alive under the same id, here or on another machine."""
_UNKNOWN = (ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)


class Roles(Protocol):
    """The broker, as far as its role goes."""

    async def become_master(self, ready: Callable[[], Awaitable[None]], *, waits: bool) -> None:
        """See Broker."""

    async def become_slave(self, broker_id: int, *, waits: bool) -> None:
        """See Broker."""

    def refuse_messages(self, why: str) -> None:
        """See Broker."""

    def take_messages(self) -> None:
        """See Broker."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a member."""

    role: Role
    roles: Roles
    calls: Calls
    joining: Joining
    in_step: InStep
    heartbeats: Heartbeats
    begin_epoch: Callable[[int], Awaitable[tuple[PhysicalOffset, bool]]]
    """Make the log ready for an epoch of ours: where it ends, and whether the epoch had begun before."""
    follow: Callable[[Goal], object]
    """The master is another one, or nobody."""
    announce: Callable[[int], Coroutine[Any, Any, None]]
    """Tell the other members where to copy from, in this epoch."""
    hears_master: Callable[[], bool]
    """True while a slave has a connection to its master."""
    may_not_begin: Callable[[], str]
    """Why this broker must not be the first master that the controller knows of, "" if it may."""
    known_lives: KnownLives
    log_end: Callable[[], PhysicalOffset]
    giving_way: GivingWay


class _Outdated(RocketLakeError):
    """Another goal was set during a change."""


class Member(Service):
    """One member. Its parts are those of the wing (broker/wings/membership.py)."""

    def __init__(self, parts: Parts, clock: Clock, *, copies_min: int, poll_seconds: float) -> None:
        super().__init__("member", clock)
        self.standing = Standing()
        self._parts = parts
        self._copies_min = copies_min
        self._promised = 0
        """See `_promise`: what the controller was told last."""
        self._poll_seconds = poll_seconds
        self._is_registered = False
        self._is_damaged = False
        self._due = asyncio.Event()
        self._woken: asyncio.Future[None] | None = None
        self._noticed = 0
        """The newest epoch that somebody has told of."""
        self._hurried = 0
        self._vain = 0
        """Answers in a row that told nothing new while there must be news."""
        self._short_since: float | None = None
        self._troubled_since: float | None = None
        self._refused_since: float | None = None
        self._behind_since: float | None = None
        """Since when the controller has known less than we do."""
        self._changing: tuple[Goal, float] | None = None
        """What the parts have stood at while a change is due, and since when."""
        self._leaving: asyncio.Task[None] | None = None
        self._resigning = Resigning(parts.heartbeats, parts.calls.hang_up, clock)
        self._succession = Succession(
            self.standing,
            parts.calls,
            clock,
            learn=self.learn,
            refuse_messages=parts.roles.refuse_messages,
            log_end=parts.log_end,
        )
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=clock)

    async def start(self) -> None:
        """Begin to look for the controller; a broker without one serves reads."""
        await super().start()
        self.keep("group", self._meet)
        self.keep("role", self._change, pause_seconds_max=_CHANGE_PAUSE_SECONDS_MAX)
        self.every("look", _LOOK_SECONDS, self._look)

    # -- the controller ------------------------------------------------------------------------------------------------

    def look_up(self) -> None:
        """Ask the controller now."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def noticed(self, epoch: int) -> None:
        """Somebody says that there is a newer epoch: ask, more often for a while if the controller is behind."""
        if epoch > self.standing.goal.epoch:
            self._noticed, self._hurried = epoch, 0
            self.look_up()

    def register_again(self) -> None:
        """Until that is done. A registration of the recorded master ends what it had proposed (decision.py)."""
        self._is_registered = False
        self.look_up()

    def _pause_seconds(self) -> float:
        if self.standing.goal.epoch < self._noticed and self._hurried < _HURRIED_MAX:
            self._hurried += 1
            return _HURRY_SECONDS
        return self._poll_seconds

    def learn(self, view: GroupView) -> None:
        """The controller has said so."""
        standing, mark = self.standing, self._parts.joining.lives.mark
        # Before the set: nobody is proposed for what another process has reported.
        self._parts.known_lives.learn((view.master_epoch, view.set_epoch), view.member_marks)
        if view.master_id == standing.broker_id and view.master_mark not in ("", mark):
            self._is_registered = False  # another process has our id
            return
        if standing.learn(view):
            _log.info("epoch %d: the master is %s", view.master_epoch, view.master_address or "not known")
            self._goal_changed()
        elif view.master_id == standing.broker_id:
            self._parts.in_step.learn(view.master_epoch, view.members, view.set_epoch)

    def _goal_changed(self) -> None:
        if self.standing.state is State.DEPOSED:
            self._parts.in_step.end()
            self._parts.roles.refuse_messages("this broker is not the master any more: ask the new one")
        self._due.set()

    async def _meet(self) -> None:
        """One talk with the controller, and the pause behind it."""
        try:
            if self._is_registered:
                self._woken = asyncio.get_running_loop().create_future()
                await self._clock.wait(self._woken, self._pause_seconds())
                view = await self._parts.calls.group(self.standing.broker_id, self._parts.joining.lives)
                if self._must_register_again(view):
                    self._is_registered = False
                else:
                    await self._resigning.look(view, self.standing.broker_id, self._cannot_lead())
                    await self._take(view)
                self._doubt()
            else:
                await self._register()
            self._refused_since = None
            self.health.set("controller", "")
        except ControllerSilent as error:
            self.health.set("controller", str(error))
            await self._clock.sleep(_RETRY_SECONDS)
        except RemoteError as error:
            if error.code in _NOT_OURS and self._parts.joining.broker_id and not self._is_registered:
                self._disown(error)
            if error.code in _UNKNOWN:
                if not self._is_registered and self._parts.joining.broker_id:
                    self.health.set("identity", str(error))  # removed, or the register is another one
                self._is_registered = False
            self._refused(error)
            await self._clock.sleep(_RETRY_SECONDS)

    def _refused(self, error: RemoteError) -> None:
        """A member that is refused for long has no role, or its group has no master: somebody has to look."""
        self._warnings.warn(error.what, "the controller refuses: %s", error)
        now = self._clock.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        if now - self._refused_since >= _RED_SECONDS:
            self.health.set("controller", f"the controller refuses: {error}")

    def _doubt(self) -> None:
        """A controller that cannot reach its register tells what it knows, and it may be old."""
        standing = self.standing
        is_lost = standing.state is State.SLAVE and not self._parts.hears_master()
        self._vain = self._vain + 1 if is_lost or standing.goal.epoch < self._noticed else 0
        if self._vain >= _VAIN_MAX:
            self._vain = 0
            self._parts.calls.ask_another()

    async def _register(self) -> None:
        parts = self._parts
        broker_id = await parts.joining.take_id()
        self._promised = promised = self._promise
        view = await parts.joining.register(
            promised,
            parts.heartbeats.beat_all,
            known=self._known(),
            is_damaged=self._is_damaged,
        )
        self.standing.registered(broker_id)
        self._is_registered = True
        self.health.set("identity", "")
        await parts.heartbeats.start()
        await self._take(view)
        in_step = parts.in_step
        if self.standing.state is State.MASTER and (view.master_id, view.master_epoch) == (broker_id, in_step.epoch):
            in_step.promise(promised)
        if self._owes_promise:  # the role has changed meanwhile
            self._is_registered = False
            await self._clock.sleep(_RETRY_SECONDS)

    @property
    def _promise(self) -> int:
        """So many members have what this broker acknowledges as the master: two until it leads.

        With a promise of one the controller forgets at the election who else holds everything, and a broker that is
        chosen and cannot lead would have nobody to leave the place to. So it makes that promise when it is the master,
        and acknowledges nothing alone before.
        """
        return self._copies_min if self.standing.state is State.MASTER else max(2, self._copies_min)

    @property
    def _owes_promise(self) -> bool:
        """True if the controller is to hear of the promise of the role that is reached, in this epoch."""
        replicas = self._parts.in_step.replicas
        if self.standing.state is State.MASTER and replicas is not None and replicas.copies_min != self._copies_min:
            return True
        return self._promised != self._promise

    def _cannot_lead(self) -> str:
        """Why this broker, the master, cannot go on in this epoch; "" if it can."""
        if self.standing.is_stuck:
            return "the log of this broker is not fit for it"
        return "a change of the set has no known outcome" if self._parts.in_step.is_barred else ""

    async def _take(self, view: GroupView) -> None:
        """Believe the view; if there is no master, have one elected.

        A broker whose log is damaged does not ask while another one may have more, nor one that knows of a log that
        goes further, while the controller knows of none.
        """
        self.learn(view)
        is_new = view.master_id is None and not view.master_epoch
        obstacle = self._parts.may_not_begin() if is_new else ""
        self.health.set("first master", obstacle)
        if obstacle:
            return
        if view.master_id is None and (not self._is_damaged or view.members == {self.standing.broker_id}):
            self.learn(await self._parts.calls.elect(self.standing.broker_id))

    def _must_register_again(self, view: GroupView) -> bool:
        """True if another process has our id, or the register is an older copy: it knows less than we were told.

        A controller may be a little behind the others: only if it stays so. Apache's does not tell who we are.
        """
        if not view.asker_mark:
            # Apache's controller tells of nobody. Ours tells of its members: this broker is none any more.
            return bool(view.member_marks)
        if view.asker_mark != self._parts.joining.lives.mark:
            return True
        goal, now = self.standing.goal, self._clock.monotonic()
        is_other = view.master_epoch == goal.epoch and goal.master_id is not None and view.master_id != goal.master_id
        if (view.master_epoch, view.set_epoch) >= self._known() and not is_other:
            self._behind_since = None
            return False
        self._behind_since = now if self._behind_since is None else self._behind_since
        return now - self._behind_since >= _BEHIND_SECONDS

    def _known(self) -> Known:
        replicas, standing = self._parts.in_step.replicas, self.standing
        set_epoch = standing.view.set_epoch
        if replicas is not None and self._parts.in_step.epoch == standing.goal.epoch:
            set_epoch = max(set_epoch, replicas.set_epoch)
        return Known(standing.goal.epoch, set_epoch)

    def _disown(self, error: RemoteError) -> None:
        self.health.set(
            "identity",
            f"another broker has our id {self._parts.joining.broker_id}: {error}. Cure: stop one of the two; a broker"
            " on a copy of a store comes as a new one after brokerIdentity, brokerIdentity-temp and bootId are deleted"
            " in it",
        )
        if self.standing.disown():
            self._parts.follow(self.standing.goal)  # at once: its acks would count for the broker that has the id now
            self._goal_changed()

    # -- the role ------------------------------------------------------------------------------------------------------

    async def _change(self) -> None:
        """The next change that is due."""
        await self._due.wait()
        standing = self.standing
        while standing.goal != standing.reached:
            goal = standing.goal
            try:
                if goal.master_id is not None:
                    await self._parts.joining.note(goal.epoch, goal.master_id)
                await (self._lead(goal) if standing.leads else self._follow(goal))
            except _Outdated:
                pass
            except LogDamaged as error:
                await self._fall_out(goal, error)
            except (OSError, RocketLakeError) as error:
                if not await self._is_rid_of(goal, error):
                    raise
            else:
                self._arrived(goal)
        self._due.clear()

    def _arrived(self, goal: Goal) -> None:
        self.standing.arrived(goal)
        if self._owes_promise:
            self.register_again()
        _log.info("this broker is %s in epoch %d", self.standing.state.value, goal.epoch)
        if self._is_damaged and goal.master_id is not None:
            # In a newer epoch. What the log lacks is copied anew in it, or given up; the store says if it still does.
            self._is_damaged = False
            self.health.set("log", "")

    async def _fall_out(self, goal: Goal, error: LogDamaged) -> None:
        """This broker can lead in no way: have the controller forget that it is a choice."""
        self._is_damaged, self._is_registered = True, False
        self.health.set("log", str(error))
        _log.error("this broker cannot become the master, the controller is told: %s", error)
        await self._follow(Goal(goal.epoch))
        self.standing.stuck(goal)
        self.look_up()

    async def _is_rid_of(self, goal: Goal, error: Exception) -> bool:
        """True if the change to `goal`, which failed, is not due any more.

        One that was chosen and whose disk is full, say, keeps the place from others that can: its log is whole, so it
        stays a choice, and tries again if it is the only one.
        """
        if self.standing.leads and self._parts.giving_way.may and self._leaving is None:
            _log.error("this broker was chosen as the master and cannot lead now, another one is looked for: %s", error)
            await self._pass_on(goal)
        return self.standing.goal != goal

    async def _pass_on(self, goal: Goal) -> None:
        await self._succession.pass_on()
        if self.standing.goal != goal:
            self._parts.giving_way.gave()

    def _watch_change(self) -> None:
        """A disk that hangs raises nothing, and ends no change: the chosen broker would keep the place for ever."""
        standing, now = self.standing, self._clock.monotonic()
        if standing.goal == standing.reached:
            self._changing = None
            self.health.set("change of role", "")
            return
        if self._changing is None or self._changing[0] != standing.reached:
            self._changing = standing.reached, now
        seconds = now - self._changing[1]
        if seconds >= _RED_SECONDS:
            self.health.set("change of role", f"takes longer than {_RED_SECONDS:.0f} s: look at the disk of the store")
        if standing.leads and seconds >= _HANGING_SECONDS and self._parts.giving_way.may and self._leaving is None:
            self._leaving = self.spawn("leave", self._leave(standing.goal))

    async def _leave(self, goal: Goal) -> None:
        """One try to be rid of the place, and the pause behind it."""
        _log.error("this broker was chosen as the master and is not ready after %.0f s", _HANGING_SECONDS)
        try:
            await self._pass_on(goal)
            await self._clock.sleep(_CHANGE_PAUSE_SECONDS_MAX)
        finally:
            self._leaving = None

    async def _follow(self, goal: Goal) -> None:
        parts = self._parts
        await parts.roles.become_slave(self.standing.broker_id, waits=False)
        parts.follow(goal)
        parts.roles.take_messages()

    async def _lead(self, goal: Goal) -> None:
        parts = self._parts
        self.standing.promoting()
        if parts.role.is_master:  # chosen again: its replicas connect anew, for the new epoch
            await parts.roles.become_slave(self.standing.broker_id, waits=False)
        self._short_since = None

        async def ready() -> None:
            start, is_resumed = await parts.begin_epoch(goal.epoch)
            if self.standing.goal != goal:
                raise _Outdated("there is a newer epoch")
            parts.in_step.lead(self._set(start, is_resumed), goal.epoch)

        await parts.roles.become_master(ready, waits=False)
        if self.standing.goal == goal:
            parts.roles.take_messages()
            self.spawn("announce", parts.announce(goal.epoch))

    def _set(self, start: PhysicalOffset, is_resumed: bool) -> SyncStateSet:
        """The set of a new master, as it is recorded. One that was master before a restart waits for a new set.

        Not if it is alone and one copy is enough: there may be nobody to join it.
        """
        view, broker_id = self.standing.view, self.standing.broker_id
        members = view.members | {broker_id}
        waits = is_resumed and (self._copies_min > 1 or len(members) > 1)
        return SyncStateSet(
            broker_id, members, view.set_epoch, start=start, copies_min=max(2, self._copies_min), is_resumed=waits
        )

    def _look(self) -> None:
        """A slave without its master asks for a new one. A master with too few replicas refuses sends after a while.

        Producers ask other brokers then.
        """
        if self.standing.state is State.SLAVE and not self._parts.hears_master():
            self.look_up()
        self._say_trouble()
        self._watch_change()
        if self.standing.state is not State.MASTER:
            return
        if refusal := self._parts.giving_way.look():
            self.spawn("give way", self._give_way(refusal))
        now = self._clock.monotonic()
        if not self._parts.in_step.is_short:
            if self._short_since is not None:
                self._short_since = None
                self._parts.roles.take_messages()
        elif self._short_since is None:
            self._short_since = now
        elif now - self._short_since >= _SHORT_SECONDS:
            self._parts.roles.refuse_messages(
                f"{self._parts.in_step.trouble or 'too few replicas are in step'}: nothing can be kept safe"
            )

    async def _give_way(self, refusal: str) -> None:
        _log.warning("this master takes no messages, so a replica is to take its place: %s", refusal)
        await self.hand_over()
        if self.standing.state is State.MASTER:
            self._parts.roles.take_messages()

    def _say_trouble(self) -> None:
        trouble, now = self._parts.in_step.trouble, self._clock.monotonic()
        if not trouble:
            self._troubled_since = None
            self.health.set("in step", "")
            return
        if self._troubled_since is None:
            self._troubled_since = now
        if now - self._troubled_since >= _RED_SECONDS:
            self.health.set("in step", f"messages are not acknowledged in time: {trouble}")

    # -- the end -------------------------------------------------------------------------------------------------------

    async def hand_over(self) -> None:
        """Make the best replica in step the master, when it has all. Takes a few seconds at most."""
        await self._succession.hand_over(self._parts.in_step.replicas)
