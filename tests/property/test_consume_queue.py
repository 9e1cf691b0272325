"""A consume queue table behaves as plain lists do, through restarts, power cuts and cuts at both ends."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.store.consume_queue.seek import offset_by_time
from rocketlake.store.consume_queue.table import ConsumeQueueTable

FOLDER = Path("/store/consumequeue")
QUEUES = [("A", 0), ("A", 1), ("B", 0)]
QUEUE = st.sampled_from(QUEUES)


class ConsumeQueues(RuleBasedStateMachine):
    """The model: each queue is the list of all entries it ever had; index in the list = queue offset.

    Record n of the log lies at n * 10 and is stored at time n // 3.
    """

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryFiles()
        self.model: dict[tuple[str, int], list[tuple[int, int, int]]] = {queue: [] for queue in QUEUES}
        self.log_end = 0
        self.log_start = 0
        self.flushed_end = 0  # everything of the log below it was flushed in all queues

    @initialize()
    def begin(self) -> None:
        self.table = self.opened()

    def opened(self, *, clean: bool = True) -> ConsumeQueueTable:
        table = ConsumeQueueTable(FOLDER, self.disk, file_size=100, open_files_max=2, tail_bytes_max=150)
        table.load(last_exit_ok=clean)
        table.min_physical = self.log_start
        return table

    @rule(queue=QUEUE, count=st.integers(1, 12))
    def append(self, queue: tuple[str, int], count: int) -> None:
        for _ in range(count):
            offset = self.table.assign(*queue)
            assert offset == len(self.model[queue])
            assert self.table.append(*queue, offset, self.log_end, 10, self.log_end * 7)
            self.model[queue].append((self.log_end, 10, self.log_end * 7))
            self.log_end += 10

    @rule(queue=QUEUE)
    def give_back(self, queue: tuple[str, int]) -> None:
        self.table.assign(*queue, 3)
        self.table.give_back(*queue, 3)

    @rule()
    def dispatch_again(self) -> None:
        """A start walks over records that the log still has: one that has expired is never dispatched again."""
        for queue, entries in self.model.items():
            for offset, entry in enumerate(entries):
                if entry[0] >= self.log_start:
                    assert not self.table.append(*queue, offset, *entry)

    @rule()
    def flush(self) -> None:
        self.table.flush()
        self.flushed_end = self.log_end

    @rule()
    def stop_and_start(self) -> None:
        self.flush()
        self.table.close()
        self.table = self.opened()

    @rule(seed=st.integers(0, 1000))
    def power_cut(self, seed: int) -> None:
        """What was flushed stays; the rest is dispatched again from there, as recovery does."""
        self.disk = self.disk.power_cut(random.Random(seed))
        self.table = self.opened(clean=False)
        self.table.truncate_after(self.log_end)
        for queue, entries in self.model.items():
            kept = self.table.max_offset(*queue)
            assert kept >= sum(1 for entry in entries if entry[0] < self.flushed_end)
            for offset, entry in enumerate(entries):
                if entry[0] >= self.flushed_end:
                    self.table.append(*queue, offset, *entry)

    @rule(share=st.floats(0.5, 1))
    def cut_log(self, share: float) -> None:
        """The log lost its tail: entries of it go, offsets are assigned again."""
        limit = max(int(self.log_end * share) // 10 * 10, self.log_start)
        self.table.truncate_after(limit)
        for entries in self.model.values():
            while entries and entries[-1][0] >= limit:
                entries.pop()
        self.log_end = limit
        self.flushed_end = min(self.flushed_end, limit)

    @rule(share=st.floats(0, 0.7))
    def drop_old(self, share: float) -> None:
        """The log lost old files; queues keep their offsets."""
        self.flush()
        self.log_start = max(self.log_start, int(self.log_end * share) // 10 * 10)
        for mapped in self.table.delete_before(self.log_start):
            mapped.remove()

    def readable(self, queue: tuple[str, int]) -> int:
        """The model's min offset."""
        return sum(1 for entry in self.model[queue] if entry[0] < self.log_start)

    @invariant()
    def all_queues_are_as_the_lists(self) -> None:
        for queue, entries in self.model.items():
            found = self.table.find(*queue)
            assert self.table.max_offset(*queue) == len(entries)
            if found is None:
                continue
            low = self.readable(queue)
            assert self.table.min_offset(*queue) == low
            read: list[tuple[int, int, int]] = []
            while len(read) < len(entries) - low:
                read += found.read(low + len(read), 7)
            assert read == entries[low:]

    @invariant()
    def times_are_found_as_by_looking_at_all(self) -> None:
        for queue, entries in self.model.items():
            found = self.table.find(*queue)
            if found is None:
                continue
            low, times = self.readable(queue), [entry[0] // 30 for entry in entries]
            for ms in {0, self.log_start // 30, self.log_end // 60, self.log_end // 30 + 1}:
                lower = next((at for at in range(low, len(times)) if times[at] >= ms), len(times))
                upper = max((at for at in range(low, len(times)) if times[at] <= ms), default=low)
                if low == len(times):
                    upper = low
                for wanted, is_upper in ((lower, False), (upper, True)):
                    got = offset_by_time(found, ms, lambda at: at // 30, min_physical=self.log_start, upper=is_upper)
                    assert got == wanted


ConsumeQueues.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestConsumeQueues = ConsumeQueues.TestCase


def test_a_queue_that_lost_its_old_files_and_its_end_goes_on_at_the_same_queue_offset() -> None:
    """Hypothesis found this history: not one entry is left, so nothing but the file's name says where the queue is."""
    state = ConsumeQueues()
    state.begin()
    state.append(("A", 0), 8)
    state.drop_old(0.625)
    state.cut_log(0.5)
    for step in (state.dispatch_again, state.stop_and_start, lambda: state.power_cut(1), state.dispatch_again):
        step()
        state.all_queues_are_as_the_lists()
    state.append(("A", 0), 7)
    state.dispatch_again()
    state.all_queues_are_as_the_lists()
    state.times_are_found_as_by_looking_at_all()
