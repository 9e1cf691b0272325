"""Which change of its set a master proposes next.

Owns        who is to leave, who joins, in what order after a refusal.
Must not know   when a proposal is made and tried (in_step.py), who counts for an ack (sync_state_set.py).

A replica that left because it held up acks may join when it has taken more than it had then: until it does, a set that
is short without it would change all the time. One that leaves soon after it joined, again and again (it is a little too
slow, its disk refuses, its line breaks), may join after a pause that grows: each time acks would wait for it.
A controller refuses a whole set because of one joiner that it does not hear. So after a refusal those that leave leave
first, and then the joiners are proposed one by one.
A master that was started again needs a change, whichever: if there is no other, one replica leaves and joins again.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.sync_state_set import Proposal, SyncStateSet

__all__ = ["Changes", "Steadiness"]

_STEADY_SECONDS = 60.0
"""Who was a member for so long joins at once when it comes back."""
_PAUSE_SECONDS_FIRST, _PAUSE_SECONDS_MAX = 0.5, 10.0
_SHORT_PAUSE_SECONDS_MAX = 1.0
"""While nothing can be acknowledged for want of replicas."""


class Changes:
    """The changes of one master's set in one epoch."""

    def __init__(self, replicas: SyncStateSet) -> None:
        self.leaving: set[int] = set(replicas.recorded) - {replicas.broker_id}
        """Broker ids of members that are to leave: at first all, until they come."""
        self._replicas = replicas
        self._stalled: dict[int, PhysicalOffset] = {}
        """Who held up acks, with the end of its log then."""
        self._was_refused = False
        self._tried = 0
        """The joiner that was proposed last, alone."""

    def came(self, broker_id: int) -> None:
        """It reports."""
        self.leaving.discard(broker_id)

    def went(self, broker_id: int) -> None:
        """Its last connection has ended. With the next one it may have been started again."""
        self._stalled.pop(broker_id, None)
        self.leaving.add(broker_id)

    def stalled(self) -> None:
        """Acks have waited for too long: those that keep the confirm offset where it is are to leave.

        Not all that lack the newest records: under load each replica does.
        """
        replicas = self._replicas
        for broker_id in replicas.behind(PhysicalOffset(replicas.confirmed + 1)):
            self._stalled[broker_id] = replicas.reported(broker_id) or PhysicalOffset(0)
            self.leaving.add(broker_id)

    def late(self, end: PhysicalOffset) -> bool:
        """What lies before `end` has waited for too long: those that lack it are to leave, if enough others have it.

        False if too few would stay.
        """
        replicas = self._replicas
        slow = replicas.behind(end)
        if len(replicas.recorded - slow) < replicas.copies_min:
            return False
        for broker_id in slow:
            self._stalled[broker_id] = replicas.reported(broker_id) or PhysicalOffset(0)
            self.leaving.add(broker_id)
        return True

    def _may_join(self, broker_id: int) -> bool:
        end = self._replicas.reported(broker_id)
        has_moved = end is not None and end > self._stalled.get(broker_id, -1)
        return has_moved and self._replicas.may_join(broker_id)

    def propose(self, followers: Iterable[int]) -> Proposal | None:
        """Open the next proposal; `followers`: the broker ids that follow. None if the set is to stay as it is."""
        replicas = self._replicas
        joining = {each for each in followers if self._may_join(each)}
        leaving = self.leaving & replicas.recorded
        if replicas.waits_for_change and not leaving and (self._was_refused or not joining):
            leaving = set(sorted(replicas.recorded - {replicas.broker_id})[-1:])
        if self._was_refused:
            joining = set() if leaving else self._one_of(joining)
        return replicas.propose(joining, leaving)

    def _one_of(self, joining: set[int]) -> set[int]:
        """The next one in a circle."""
        if joining:
            self._tried = min((each for each in joining if each > self._tried), default=min(joining))
        return joining & {self._tried}

    def refused(self) -> None:
        """The last proposal was."""
        self._was_refused = True

    def recorded(self) -> None:
        """The set has changed."""
        self.leaving &= self._replicas.recorded
        self._stalled = {each: end for each, end in self._stalled.items() if each not in self._replicas.recorded}
        self._was_refused = False


class Steadiness:
    """How soon each replica may join again. `now` in seconds of one clock."""

    def __init__(self, recorded: Iterable[int]) -> None:
        """`recorded`: the set at first. Its members count as steady."""
        self._members = frozenset(recorded)
        self._joined: dict[int, float] = {}
        self._left: dict[int, tuple[float, float]] = {}
        """When it left, and the pause behind it."""

    def recorded(self, members: Iterable[int], now: float) -> None:
        """The set is this one now."""
        members = frozenset(members)
        for broker_id in members - self._members:
            self._joined[broker_id] = now
        for broker_id in self._members - members:
            joined = self._joined.pop(broker_id, None)
            is_steady = joined is None or now - joined >= _STEADY_SECONDS
            before = self._left.get(broker_id, (0.0, 0.0))[1]
            pause = 0.0 if is_steady else min(max(2 * before, _PAUSE_SECONDS_FIRST), _PAUSE_SECONDS_MAX)
            self._left[broker_id] = now, pause
        self._members = members

    def may_join(self, broker_id: int, now: float, *, is_short: bool) -> bool:
        """True if its pause is over. `is_short`: without it nothing is acknowledged."""
        left, pause = self._left.get(broker_id, (0.0, 0.0))
        return now - left >= (min(pause, _SHORT_PAUSE_SECONDS_MAX) if is_short else pause)
