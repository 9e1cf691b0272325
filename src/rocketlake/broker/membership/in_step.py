"""Keeps the set of replicas of this master: acknowledges what all members have, and has changes of the set recorded.

Owns        when a replica is proposed to join or leave, the tries of a proposal, what acks and readers wait for.
Must not know   the rule who counts (replication/sync_state_set.py), which change is next (set_changes.py), elections.

A replica joins as soon as it may. It leaves when its last connection ends, when it keeps the confirm offset where it
is, or when it is slower than the producers and others are not. All that is only proposed here: nothing is acknowledged
without a member before the controller has recorded that it left.

A try without an answer may be recorded later, so the proposal stays open and its joiner counts. If the next try is
refused, this broker registers again: that ends all tries before it (controller/decision.py). Not so under Apache's
controller: there this master has to resign (succession.py).

A set that needs one copy only and has no other member asks nobody: its acks do not wait, and all that is appended is
confirmed. Before a replica joins such a set, acks begin to wait, so that it can catch up with what they were given for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.broker.membership.controllers import ControllerSilent
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.ack_age import AckAge
from rocketlake.replication.set_changes import Changes, Steadiness
from rocketlake.replication.sync_state_set import Follower, Proposal, SyncStateSet
from rocketlake.store.durability import Demands, Durability, Stage

__all__ = ["InStep", "Pace"]

_log = get_logger(__name__)

_PAUSE_SECONDS = 0.1
"""Between two tries of a proposal that nobody answered, or that was refused."""
_NEAR_BYTES = 1 << 20
"""A replica that lacks no more is about to join."""
_TROUBLE_MS = 10_000
"""Acks that wait for longer are a trouble: who holds them up should have left long ago."""
_LATE_FACTORS = 1, 2, 4, 8
_NOWHERE = PhysicalOffset(0)

Alter = Callable[[int, frozenset[int], int], Awaitable[tuple[frozenset[int], int]]]
"""(master epoch, members, set epoch): ask the controller once; see Calls.alter_set."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long this master waits."""

    ack_timeout_ms: int
    """A send that waits longer for replicas is told so."""
    stall_seconds: float
    """A member that holds up acks for longer is proposed to leave."""
    copies: int = 0
    """Answer a send when so many brokers, this one included, have it; 0: when all members do, the only safe way."""

    @property
    def slow_seconds(self) -> float:
        """A member that lacks what was appended longer ago is too slow; no send is answered late for it then."""
        return max(self.stall_seconds, self.ack_timeout_ms / 2000)


class InStep(Service):
    """The set of this broker while it is the master. It is also the rule of the stream's leader: who counts."""

    def __init__(
        self,
        durability: Durability,
        log_end: Callable[[], PhysicalOffset],
        clock: Clock,
        pace: Pace,
        *,
        alter: Alter,
        look_up: Callable[[], object],
        register_again: Callable[[], object],
    ) -> None:
        """`look_up`: have the controller asked for the group: what this broker knows is outdated.

        `register_again`: until that is done; no try from before is recorded after it, and `learn` hears of the new set.
        """
        super().__init__("in-step", clock)
        self.replicas: SyncStateSet | None = None
        """None while this broker is not the master."""
        self.epoch = 0
        self._durability = durability
        self._own_acks: Mapping[Stage, int] = durability.demands.acks
        self._log_end = log_end
        self._pace = pace
        self._alter = alter
        self._look_up = look_up
        self._register_again = register_again
        self._followers: dict[int, Follower] = {}
        self._changes: Changes | None = None
        """As long as `replicas`."""
        self._steadiness = Steadiness(())
        self._age = AckAge()
        self._fenced: Proposal | None = None
        """The proposal whose tries are ended by a registration."""
        self._is_due = asyncio.Event()
        self._moved_at = 0.0
        """When the confirm offset last grew, or nothing waited for it."""
        self._admits_since: float | None = None
        """Since when acks wait, so that a replica can join a set that waits for nobody."""
        self._warnings = RareWarnings(_log, clock=clock)
        self._confirm_nothing()  # the start hides what is not confirmed

    async def start(self) -> None:
        """Begin to have proposals recorded."""
        await super().start()
        self.keep("proposals", self._record_next)

    # -- the role ------------------------------------------------------------------------------------------------------

    def lead(self, replicas: SyncStateSet, epoch: int) -> None:
        """This broker is the master now, with this set."""
        self.replicas, self.epoch, self._changes = replicas, epoch, Changes(replicas)
        self._steadiness, self._age = Steadiness(replicas.recorded), AckAge()
        self._followers.clear()
        self._admits_since = None
        self._moved_at = self._clock.monotonic()
        self._durability.mend(Stage.CONFIRMED)
        self._demand()
        self._advance()

    def end(self) -> None:
        """It is not any more: from now on nothing is acknowledged, and what waits hears that it is not safe."""
        self.replicas = self._changes = None
        self._followers.clear()
        self._confirm_nothing()

    def _confirm_nothing(self) -> None:
        """Until this broker leads. A message that is taken all the same, in a batch, is not acknowledged either."""
        asked = {**self._own_acks, Stage.CONFIRMED: self._pace.ack_timeout_ms}
        self._durability.demand(Demands(asked, (Stage.CONFIRMED,)))
        self._durability.fail(Stage.CONFIRMED)

    @property
    def is_short(self) -> bool:
        """True while no message can be acknowledged: too few replicas are recorded."""
        return self.replicas is not None and self.replicas.is_short

    @property
    def trouble(self) -> str:
        """Why messages are not acknowledged in time, as far as this broker knows; "" if they are."""
        replicas = self.replicas
        if replicas is None:
            return ""
        if len(replicas.recorded) < replicas.copies_min:
            return f"{len(replicas.recorded)} of {replicas.copies_min} replicas (minInSyncReplicas) are in step"
        if replicas.waits_for_change:
            return "the controller has not recorded another set since this master was started again"
        lacking, waited = sorted(replicas.behind(PhysicalOffset(replicas.confirmed + 1))), self.stalled_ms
        if self._unmoved_ms > _TROUBLE_MS:
            return f"messages wait for the replicas {lacking}, and the controller has not recorded that they left"
        if waited > self._pace.ack_timeout_ms:
            return (
                f"the replicas {lacking} are slower than the producers: a message waits {waited / 1000:.0f} s for them"
            )
        return ""

    @property
    def is_barred(self) -> bool:
        """True if a try of the open proposal has no known outcome, and a registration did not end it.

        No change can follow while it is open. False while nobody waits for one.
        """
        replicas = self.replicas
        if replicas is None or replicas.proposal is None or replicas.proposal is not self._fenced:
            return False
        return replicas.is_short or self.stalled_ms > 1000 * self._pace.stall_seconds

    @property
    def is_alone(self) -> bool:
        """True if the set waits for no other broker."""
        replicas = self.replicas
        return replicas is not None and not replicas.is_short and replicas.members == {replicas.broker_id}

    @property
    def stalled_ms(self) -> int:
        """How long the oldest message has waited for replicas, about."""
        replicas = self.replicas
        if replicas is None or self.is_alone:
            return 0
        return max(self._unmoved_ms, round(self._age.seconds(self._clock.monotonic(), replicas.confirmed) * 1000))

    @property
    def _unmoved_ms(self) -> int:
        """How long nothing was confirmed, while messages wait for it."""
        replicas = self.replicas
        if replicas is None or self.is_alone or replicas.confirmed >= self._log_end():
            return 0
        return round((self._clock.monotonic() - self._moved_at) * 1000)

    def _demand(self) -> None:
        """Acks and readers wait for the set, unless it is this broker alone and nobody is about to join."""
        if self.is_alone and self._admits_since is None:
            self._durability.demand(Demands(self._own_acks))
            return
        acks = dict(self._own_acks)
        if self._pace.copies != 1:
            acks[Stage.REPLICATED if self._pace.copies else Stage.CONFIRMED] = self._pace.ack_timeout_ms
        self._durability.demand(Demands(acks, (Stage.CONFIRMED,)))

    def _count_copies(self) -> None:
        """For acks that do not wait for all members. A stranger may connect, too: only members count."""
        replicas, slaves_asked = self.replicas, self._pace.copies - 1
        members = () if replicas is None else replicas.recorded & self._followers.keys()
        ends = sorted((self._followers[each].reported or _NOWHERE for each in members), reverse=True)
        if 0 < slaves_asked <= len(ends):
            self._durability.advance(Stage.REPLICATED, ends[slaves_asked - 1])

    def _advance(self) -> None:
        """Acknowledge what all members have."""
        replicas = self.replicas
        if replicas is None or (self.is_alone and self._admits_since is not None):
            return
        before, confirmed = replicas.confirmed, replicas.advance(self._log_end())
        if confirmed > before:
            self._moved_at = self._clock.monotonic()
            self._durability.advance(Stage.CONFIRMED, confirmed)

    def promise(self, copies_min: int) -> None:
        """The controller knows that this master acknowledges with so many members, in this epoch."""
        if self.replicas is not None and self.replicas.copies_min != copies_min:
            self.replicas.copies_min = copies_min
            self._demand()
            self._advance()

    # -- the stream (replication/ack_set.py, AckRule) ------------------------------------------------------------------

    def reported(self, name: str, end: PhysicalOffset) -> None:
        """The replica with this id has the log up to `end`."""
        replicas, changes, broker_id = self.replicas, self._changes, int(name)
        if replicas is None or changes is None:
            return
        follower = self._followers.get(broker_id)
        if follower is None or (follower.reported or _NOWHERE) > end:  # only a new connection says less than before
            follower = self._followers[broker_id] = replicas.connected(broker_id)
        log_end = self._log_end()
        is_near = log_end - end <= _NEAR_BYTES and self._may_join(broker_id)
        if self.is_alone and self._admits_since is None and is_near:
            self._advance()
            self._admits_since = self._clock.monotonic()
            self._demand()
        replicas.report(follower, end, log_end)
        changes.came(broker_id)
        self._advance()
        self._count_copies()
        if replicas.proposal is None and replicas.may_join(broker_id):
            self._propose()  # in the turn in which it may: it counts from here on

    def left(self, name: str) -> None:
        """The replica has no connection any more."""
        replicas, changes, broker_id = self.replicas, self._changes, int(name)
        follower = self._followers.pop(broker_id, None)
        if replicas is not None and changes is not None and follower is not None:
            replicas.lost(follower)
            changes.went(broker_id)
            self._is_due.set()

    def look(self, log_end: PhysicalOffset) -> None:
        """A few times a second: members that hold up acks leave."""
        replicas, changes, now = self.replicas, self._changes, self._clock.monotonic()
        if replicas is None or changes is None:
            return
        if self._admits_since is not None and now - self._admits_since > self._pace.stall_seconds:
            self._admits_since = None  # it does not catch up: nobody is to wait for it
            self._advance()
            self._demand()
        elif self.is_alone:
            self._advance()
        self._age.look(now, log_end, replicas.confirmed)
        if replicas.confirmed >= log_end:
            self._moved_at = now
        elif now - self._moved_at > self._pace.stall_seconds:
            changes.stalled()
        else:
            self._let_late_ones_leave(changes, now)
        if self._propose() is not None:
            self._is_due.set()

    def _let_late_ones_leave(self, changes: Changes, now: float) -> None:
        """Those that are too slow; if too few would stay, only those that are twice as late, or four times.

        Members of one pace stay: there is no set that goes faster.
        """
        for factor in _LATE_FACTORS:
            end = self._age.end_of(factor * self._pace.slow_seconds, now)
            if end is None or changes.late(end):
                return

    # -- proposals -----------------------------------------------------------------------------------------------------

    def _may_join(self, broker_id: int) -> bool:
        return self._steadiness.may_join(broker_id, self._clock.monotonic(), is_short=self.is_short)

    def _propose(self) -> Proposal | None:
        """The proposal that is open, or a new one."""
        replicas, changes = self.replicas, self._changes
        if replicas is None or changes is None:
            return None
        self._advance()  # what was acknowledged alone since the last look: a joiner must have it
        if replicas.proposal is None and changes.propose([each for each in self._followers if self._may_join(each)]):
            self._admits_since = None
            self._demand()
            self._is_due.set()
        return replicas.proposal

    async def _record_next(self) -> None:
        """One try of the open proposal, if there is one."""
        await self._is_due.wait()
        self._is_due.clear()
        replicas, proposal = self.replicas, self._propose()
        if replicas is None or proposal is None:
            return
        replicas.asked()
        try:
            members, set_epoch = await self._alter(self.epoch, proposal.members, proposal.set_epoch)
        except ControllerSilent as error:
            self._warnings.warn("silent", "the set %s is not recorded yet: %s", sorted(proposal.members), error)
            await self._clock.sleep(_PAUSE_SECONDS)
            self._is_due.set()
        except RemoteError as error:
            self._warnings.warn("refused", "the set %s is refused: %s", sorted(proposal.members), error)
            self._refused(replicas, proposal)
            await self._clock.sleep(_PAUSE_SECONDS)
            self._is_due.set()
        else:
            if replicas is self.replicas:
                self.learn(self.epoch, members, set_epoch)

    def _refused(self, replicas: SyncStateSet, proposal: Proposal) -> None:
        replicas.refused(proposal)
        if replicas is self.replicas and self._changes is not None:
            self._changes.refused()
            self._advance()
            self._demand()
        if replicas is self.replicas and replicas.proposal is proposal is not self._fenced:
            self._fenced = proposal
            self._register_again()
        else:
            self._look_up()

    def learn(self, epoch: int, members: frozenset[int], set_epoch: int) -> None:
        """The controller has recorded this set in this master epoch."""
        replicas, changes = self.replicas, self._changes
        if replicas is None or changes is None or epoch != self.epoch or replicas.broker_id not in members:
            return
        if replicas.record(members, set_epoch):
            _log.info("in step with this master: %s (set epoch %d)", sorted(members), set_epoch)
            changes.recorded()
            self._steadiness.recorded(members, self._clock.monotonic())
            self._demand()
            self._advance()
            self._count_copies()
            self._is_due.set()
