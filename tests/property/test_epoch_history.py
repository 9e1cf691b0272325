"""Histories of epochs tell how far two logs agree, whatever masters, followers and retention did."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketlake.replication.epochs.epoch_file import decode, encode
from rocketlake.replication.epochs.history import EpochHistory, agreed_end

REPLICAS = 3
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["lead", "write", "write", "follow", "follow", "lose", "expire", "expire"]),
        st.integers(0, REPLICAS - 1),
        st.integers(0, REPLICAS - 1),
        st.integers(0, 6),
    ),
    min_size=20,
    max_size=60,
)


@dataclass
class Replica:
    """A log whose bytes are objects of their own, so that equal means: from the same append."""

    start: int = 0
    """Before it the bytes have expired; the test still knows them."""
    log: list[object] = field(default_factory=list)
    history: EpochHistory = field(default_factory=EpochHistory)
    leads: int = 0

    @property
    def end(self) -> int:
        return len(self.log)

    def cut(self, end: int) -> None:
        del self.log[end:]
        self.history = self.history.cut(end)  # type: ignore[arg-type]


def follow(mine: Replica, other: Replica, count: int) -> None:
    """Cut to where both agree, then copy some bytes, as frames do: none of them crosses the end of an epoch."""
    point = agreed_end(mine.history, mine.end, other.history, other.end)  # type: ignore[arg-type]
    if point is None or point < mine.start or not mine.end:
        # It is filled from the other's first byte on.
        mine.start, mine.log, mine.history = other.start, other.log[: other.start], EpochHistory()
    else:
        assert mine.log[mine.start : point] == other.log[mine.start : point]
        if mine.end > point < other.end and not mine.start and not other.start:
            assert mine.log[point] is not other.log[point], "more than differs was cut"
        mine.cut(point)
        if point == mine.start:
            mine.log = other.log[:point]  # of its own log nothing is left
    mine.leads = 0
    for offset in range(mine.end, min(other.end, mine.end + count)):
        epoch = other.history.at(offset)  # type: ignore[arg-type]
        assert epoch is not None
        known = mine.history.last
        if known is None or known.number != epoch.number:
            mine.history = mine.history.begun(*epoch)
        mine.log.append(other.log[offset])


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_a_log_cut_where_histories_agree_is_a_part_of_the_other(steps: list[tuple[str, int, int, int]]) -> None:
    replicas = [Replica() for _ in range(REPLICAS)]
    epoch = 0
    for step, first, second, count in steps:
        mine = replicas[first]
        if step == "lead":
            epoch += 1
            mine.leads = epoch
            mine.history = mine.history.cut(mine.end + 1)  # type: ignore[arg-type]  # as each start does
            mine.history = mine.history.begun(epoch, mine.end)  # type: ignore[arg-type]
        elif step == "write" and mine.leads:
            mine.log += [object() for _ in range(count)]
        elif step == "follow" and first != second and replicas[second].history.first is not None:
            follow(mine, replicas[second], count)
        elif step == "lose" and not mine.leads:  # a torn tail: the log is shorter, the epochs not yet
            del mine.log[max(mine.start, mine.end - count) :]
        elif step == "expire" and mine.start + count < mine.end:
            mine.start += count
            mine.history = mine.history.from_offset(mine.start)  # type: ignore[arg-type]
        assert decode(encode(mine.history)) == mine.history
