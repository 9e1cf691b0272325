"""The replicas in step with a master, and the rule by which their reports acknowledge its records.

Owns        the recorded set, the one proposal in flight, the reports of the replicas, the confirm offset.
Must not know   asyncio, clocks, the network, the store, the controller that records the set.

One object serves one master for one master epoch; a new epoch begins a new one. All calls come from one thread.

Invariant: a record is confirmed only when each member has reported its end. Members are the recorded set and the set of
the open proposal together: whichever of the two the register holds, each replica in it has what is confirmed.
Invariant: a joiner has at least what is confirmed, and all of the log from before this epoch; it counts from the call
that proposes it. A replica that leaves counts until its leave is recorded.
Invariant: a proposal ends when a newer set is known, or when each try of it was refused. An answer that never came may
stand for a change that is recorded later: such a proposal stays open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rocketlake.base.errors import ProtocolError, UsageError
from rocketlake.model.positions import PhysicalOffset

__all__ = ["Follower", "Proposal", "ReportRefused", "SyncStateSet"]

_NOTHING = PhysicalOffset(0)


class ReportRefused(ProtocolError):
    """A replica says that it has more than its master: close its connection."""


class Follower:
    """One connection of a replica. Its reports count while it is the newest connection of that replica."""

    __slots__ = ("broker_id", "is_ended", "reported")

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.reported: PhysicalOffset | None = None
        """Physical offset up to which the replica has the log; None before its first report."""
        self.is_ended = False
        """True: the replica must connect again before its reports count."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A set that the controller is asked to record in place of the one with `set_epoch`."""

    members: frozenset[int]
    set_epoch: int


class SyncStateSet:
    """The set of one master in one master epoch."""

    def __init__(
        self,
        broker_id: int,
        recorded: Iterable[int],
        set_epoch: int,
        *,
        start: PhysicalOffset,
        copies_min: int = 1,
        is_resumed: bool = False,
    ) -> None:
        """`broker_id`: ours. `recorded`: the broker ids that the controller has recorded, with their `set_epoch`.

        `start`: where the log of this master ended when it became the master (again). `copies_min`: a smaller recorded
        set confirms nothing. `is_resumed`: this broker was the master of this epoch before a restart. A proposal from
        before may still be recorded, so nothing is confirmed until the set has changed once.
        """
        self.broker_id = broker_id
        self.recorded = frozenset(recorded)
        self.set_epoch = set_epoch
        self.start = start
        self.copies_min = copies_min
        self.confirmed = _NOTHING
        """Physical offset up to which each replica that may be elected has the log: acks and readers go so far."""
        self.proposal: Proposal | None = None
        self._tries_unknown = 0
        """Tries of the open proposal that were sent and not answered."""
        self._resumed_at = set_epoch if is_resumed else -1
        self._followers: dict[int, Follower] = {}

    # -- who counts ----------------------------------------------------------------------------------------------------

    @property
    def members(self) -> frozenset[int]:
        """The broker ids that each record waits for."""
        return self.recorded if self.proposal is None else self.recorded | self.proposal.members

    @property
    def is_short(self) -> bool:
        """True while the recorded set may not confirm anything."""
        return len(self.recorded) < self.copies_min or self.waits_for_change

    @property
    def waits_for_change(self) -> bool:
        """True while a proposal of this master's former life may still be recorded."""
        return self.set_epoch == self._resumed_at

    def reported(self, broker_id: int) -> PhysicalOffset | None:
        """How far that replica has come; None without a connection or before its first report."""
        follower = self._followers.get(broker_id)
        return None if follower is None else follower.reported

    def behind(self, end: PhysicalOffset) -> frozenset[int]:
        """The other members that have not reported `end` yet."""
        return frozenset(member for member in self.members - {self.broker_id} if self._end_of(member, end) < end)

    # -- reports -------------------------------------------------------------------------------------------------------

    def connected(self, broker_id: int) -> Follower:
        """A replica has connected and agrees with our log up to its end. An older connection of it counts no more."""
        follower = self._followers[broker_id] = Follower(broker_id)
        return follower

    def lost(self, follower: Follower) -> None:
        """The connection has ended. A member without one freezes the confirm offset."""
        if self._followers.get(follower.broker_id) is follower:
            del self._followers[follower.broker_id]

    def report(self, follower: Follower, offset: PhysicalOffset, own_end: PhysicalOffset) -> None:
        """The replica has the log up to `offset`; `own_end`: where ours ends. Raises ReportRefused.

        Reports of a connection that was replaced or lost are ignored. Call `advance` afterwards.
        """
        if follower.is_ended:
            raise ReportRefused(
                f"replica {follower.broker_id} has to connect again: the set changed without its master",
                hint="wait, it connects again by itself",
            )
        if offset > own_end:
            raise ReportRefused(
                f"replica {follower.broker_id} reports {offset}, but the log of its master ends at {own_end}",
                hint="see that no other program connects to haListenPort, and that brokerId is used once in the group",
            )
        if self._followers.get(follower.broker_id) is follower:
            follower.reported = max(offset, follower.reported or _NOTHING)

    def advance(self, own_end: PhysicalOffset) -> PhysicalOffset:
        """Confirm what all members have, our own log up to `own_end`; returns the confirm offset, which never falls."""
        if not self.is_short:
            end = min(self._end_of(member, own_end) for member in self.members)
            self.confirmed = max(self.confirmed, end)
        return self.confirmed

    def _end_of(self, member: int, own_end: PhysicalOffset) -> PhysicalOffset:
        return own_end if member == self.broker_id else self.reported(member) or _NOTHING

    # -- changes of the set --------------------------------------------------------------------------------------------

    def may_join(self, broker_id: int) -> bool:
        """True if that replica is not a member and has all that a member must have."""
        reported = self.reported(broker_id)
        return broker_id not in self.members and reported is not None and reported >= max(self.start, self.confirmed)

    def propose(self, joining: Iterable[int] = (), leaving: Iterable[int] = ()) -> Proposal | None:
        """Open a proposal that adds those of `joining` that may join, and removes `leaving`.

        None if a proposal is open or the set would stay as it is. Raises UsageError if the master itself should leave.
        """
        joining = {broker_id for broker_id in joining if self.may_join(broker_id)}
        leaving = set(leaving)
        if self.broker_id in leaving:
            raise UsageError(
                f"broker {self.broker_id} cannot leave its own set of replicas", hint="elect another master first"
            )
        members = (self.recorded | joining) - leaving
        if self.proposal is not None or members == self.recorded:
            return None
        self.proposal = Proposal(members, self.set_epoch)
        self._tries_unknown = 0
        return self.proposal

    def asked(self) -> None:
        """The open proposal is about to be sent (once more); `refused` or `record` tell what came of it."""
        self._tries_unknown += 1

    def refused(self, proposal: Proposal) -> None:
        """One try was refused and changes nothing. The last of them closes the proposal."""
        if proposal is self.proposal:
            self._tries_unknown -= 1
            if self._tries_unknown <= 0:
                self.proposal = None

    def record(self, members: Iterable[int], set_epoch: int) -> bool:
        """The controller has recorded this set, in our master epoch. True if that is news: no proposal is open then.

        If it is not what we proposed, a replica has lost the end of its log. Only members count on: any other must
        connect again, and report what it has now. A connection to a dead machine would go on to report what it had.
        """
        if set_epoch <= self.set_epoch:
            return False
        own = self.proposal
        if own is None or (own.members, own.set_epoch + 1) != (frozenset(members), set_epoch):
            for outsider in self._followers.keys() - set(members):
                self._followers.pop(outsider).is_ended = True
        self.recorded, self.set_epoch, self.proposal = frozenset(members), set_epoch, None
        return True
