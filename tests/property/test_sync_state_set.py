"""Random walks over one epoch of a master: what it confirmed is on each replica that may be elected.

The register takes a proposal whenever one arrives, with delays, losses and repetitions; the answers are lost as well.
Each rule of the set is broken once, to see that the walks would find it.
"""

from __future__ import annotations

from random import Random

import pytest

from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.sync_state_set import Follower, Proposal, ReportRefused, SyncStateSet

WALKS, STEPS = 120, 250
IDS = (1, 2, 3)


class Walk:
    """One master (1), two slaves and a register."""

    def __init__(self, seed: int, kind: type[SyncStateSet], copies_min: int) -> None:
        self.random = random = Random(seed)
        self.copies_min = copies_min
        start = random.choice([0, 5])
        self.ends = {1: start, 2: random.randint(0, start), 3: random.randint(0, start)}
        self.recorded, self.set_epoch = frozenset({1}), 1
        self.before = start if copies_min == 1 else 0  # confirmed in earlier epochs
        self.kept: frozenset[int] = frozenset()
        if copies_min > 1:  # a replica that is eligible though it left the set: it has all that was confirmed
            self.kept, self.ends[2], self.before = frozenset({2}), start, start
        self.replicas = kind(1, self.recorded, 1, start=PhysicalOffset(start), copies_min=copies_min)
        self.followers: dict[int, Follower] = {}
        self.tries: list[Proposal] = []
        self.news: list[tuple[frozenset[int], int]] = []
        self.refusals: list[Proposal] = []

    def run(self) -> str:
        """The first record that an electable replica lacks, or nothing."""
        for _ in range(STEPS):
            self.random.choice([self.append, self.copy, self.copy, self.report, self.report, self.link, self.propose,
                                self.ask, self.arrive, self.answer, self.refuse])()  # fmt: skip
            confirmed = max(self.before, self.replicas.advance(PhysicalOffset(self.ends[1])))
            for broker_id in self.recorded | self.kept:
                if self.ends[broker_id] < confirmed:
                    return f"{confirmed} is confirmed, {broker_id} has {self.ends[broker_id]}"
        return ""

    def append(self) -> None:
        self.ends[1] += 1

    def copy(self) -> None:
        slave = self.random.choice(IDS[1:])
        self.ends[slave] = min(self.ends[slave] + 1, self.ends[1])

    def report(self) -> None:
        slave = self.random.choice(IDS[1:])
        if slave not in self.followers:
            return
        try:
            self.replicas.report(self.followers[slave], PhysicalOffset(self.ends[slave]), PhysicalOffset(self.ends[1]))
        except ReportRefused:  # the set changed without its master: the link is closed
            self.replicas.lost(self.followers.pop(slave))

    def link(self) -> None:
        slave = self.random.choice(IDS[1:])
        old = self.followers.get(slave)
        if old is None or self.random.random() < 0.2:
            self.followers[slave] = self.replicas.connected(slave)
        elif self.random.random() < 0.2:
            self.replicas.lost(self.followers.pop(slave))

    def propose(self) -> None:
        slave = self.random.choice(IDS[1:])
        if self.random.random() < 0.3:
            self.replicas.propose(leaving=[slave])
        else:
            self.replicas.propose([slave])

    def ask(self) -> None:
        if self.replicas.proposal is not None:
            self.replicas.asked()
            self.tries.append(self.replicas.proposal)

    def arrive(self) -> None:
        """A try reaches the register, which records it, or refuses it (a dead member, an old epoch)."""
        if not self.tries:
            return
        proposal = self.tries.pop(self.random.randrange(len(self.tries)))
        if proposal.set_epoch != self.set_epoch or self.random.random() < 0.2:
            self.refusals.append(proposal)
            return
        left = self.recorded - proposal.members
        was_full = len(self.recorded) >= self.copies_min
        self.recorded, self.set_epoch = proposal.members, self.set_epoch + 1
        if len(self.recorded) >= self.copies_min:
            self.kept = frozenset()
        elif was_full or self.kept:
            self.kept = (self.kept | left) - self.recorded
        self.news.append((self.recorded, self.set_epoch))

    def answer(self) -> None:
        if self.news:
            members, set_epoch = self.news.pop(self.random.randrange(len(self.news)))
            if self.random.random() < 0.7:
                self.replicas.record(members, set_epoch)
        elif self.random.random() < 0.1:
            self.replicas.record(self.recorded, self.set_epoch)  # a read of the register

    def refuse(self) -> None:
        if self.refusals:
            self.replicas.refused(self.refusals.pop(self.random.randrange(len(self.refusals))))


class ShrinksBeforeRecord(SyncStateSet):
    @property
    def members(self) -> frozenset[int]:
        return self.recorded if self.proposal is None else self.proposal.members


class CountsJoinersWhenRecorded(SyncStateSet):
    @property
    def members(self) -> frozenset[int]:
        return self.recorded


class AnyTwoCopies(SyncStateSet):
    def advance(self, own_end: PhysicalOffset) -> PhysicalOffset:
        ends = sorted([own_end, *((self.reported(broker_id) or PhysicalOffset(0)) for broker_id in (2, 3))])
        if not self.is_short:
            self.confirmed = max(self.confirmed, ends[-2])
        return self.confirmed


class JoinersBelowTheStart(SyncStateSet):
    def may_join(self, broker_id: int) -> bool:
        reported = self.reported(broker_id)
        return broker_id not in self.members and reported is not None and reported >= self.confirmed


class JoinersBelowTheConfirmed(SyncStateSet):
    def may_join(self, broker_id: int) -> bool:
        reported = self.reported(broker_id)
        return broker_id not in self.members and reported is not None and reported >= self.start


class ConfirmsWhileShort(SyncStateSet):
    @property
    def is_short(self) -> bool:
        return len(self.members) < self.copies_min


class GivesUpAfterOneRefusal(SyncStateSet):
    def refused(self, proposal: Proposal) -> None:
        if proposal is self.proposal:
            self.proposal = None


def first_violation(kind: type[SyncStateSet], copies_min: int, walks: int) -> str:
    return next((found for seed in range(walks) if (found := Walk(seed, kind, copies_min).run())), "")


@pytest.mark.parametrize("copies_min", [1, 2])
def test_what_is_confirmed_is_on_each_electable_replica(copies_min: int) -> None:
    assert first_violation(SyncStateSet, copies_min, WALKS) == ""


def test_the_walks_confirm_and_change_the_set() -> None:
    walks = [Walk(seed, SyncStateSet, 2) for seed in range(20)]
    assert [walk.run() for walk in walks] == [""] * 20
    assert sum(walk.replicas.confirmed for walk in walks) > 20
    assert sum(walk.set_epoch for walk in walks) > 60


@pytest.mark.parametrize(
    ("kind", "copies_min"),
    [
        (ShrinksBeforeRecord, 1),
        (ShrinksBeforeRecord, 2),
        (CountsJoinersWhenRecorded, 1),
        (CountsJoinersWhenRecorded, 2),
        (AnyTwoCopies, 2),
        (JoinersBelowTheStart, 2),
        (JoinersBelowTheConfirmed, 1),
        (ConfirmsWhileShort, 2),
        (GivesUpAfterOneRefusal, 1),
        (GivesUpAfterOneRefusal, 2),
    ],
)
def test_the_walks_find_a_broken_rule(kind: type[SyncStateSet], copies_min: int) -> None:
    assert first_violation(kind, copies_min, 5 * WALKS) != ""
