from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import RemoteError, StoreError
from rocketlake.broker.producer_sequences.table import LogEnds, ProducerSequences
from rocketlake.codec.sequence_mark import SequenceMark

PATH = Path("/store/config/producerSequences.json")


def mark(sequence: int, *, batch: int = 0, producer: str = "q/0", layout: str = "4") -> SequenceMark:
    return SequenceMark(producer, batch, sequence, layout)


def rows(plan: int, first: int, count: int, *, batch: int = 0) -> SequenceMark:
    """The mark of a request whose rows are those of a plan."""
    before, after = (digest(plan, number) for number in (first, first + count))
    return SequenceMark("q/0", batch, first, "4", count, before, after)


def digest(plan: int, count: int) -> int:
    return 1000 * plan + count if count else 0


def no_digest(_count: int) -> None:
    return None


class World:
    """A table, and a log of which only two numbers are known."""

    def __init__(self, files: MemoryFiles | None = None, *, producers_max: int = 100, keep_ms: int = 10_000) -> None:
        self.clock = ManualClock(1000)
        self.files = files or MemoryFiles()
        self.ends = LogEnds(0, 0)
        self.table = ProducerSequences(
            PATH, self.files, self.clock, lambda: self.ends, producers_max=producers_max, keep_ms=keep_ms
        )
        self.table.load()

    def begin(self) -> None:
        self.table.begin()
        self.table.save()

    def put(self, sequence: int, count: int, queue: int = 0, *, batch: int = 0, producer: str = "q/0") -> int:
        """Store what is new; how many were known."""
        known = self.table.known("T", queue, mark(sequence, batch=batch, producer=producer), count, no_digest)
        if known < count:
            self.table.advance("T", queue, mark(sequence + known, batch=batch, producer=producer), count - known)
        return known

    def knows(self, sequence: int, count: int = 1, queue: int = 0, *, batch: int = 0, producer: str = "q/0") -> int:
        return self.table.known("T", queue, mark(sequence, batch=batch, producer=producer), count, no_digest)

    def write(self, plan: int, first: int, count: int, *, batch: int = 0) -> int:
        """Store what is new of these rows of a plan; how many were known."""
        given = rows(plan, first, count, batch=batch)
        known = self.table.known("T", 0, given, count, lambda number: digest(plan, first + number))
        if known < count:
            self.table.advance("T", 0, given.later(known, digest(plan, first + known)), count - known)
        return known


def test_what_was_stored_is_known_and_the_rest_of_an_overlap_is_not() -> None:
    world = World()
    assert world.put(0, 10) == 0
    assert [world.knows(0, 10), world.knows(3, 4), world.knows(5, 10), world.knows(10, 5)] == [10, 4, 5, 0]
    assert world.put(5, 10) == 5
    assert world.knows(0, 20) == 15


def test_each_queue_topic_and_task_has_numbers_of_its_own() -> None:
    world = World()
    world.put(0, 10)
    assert world.knows(0, 10, queue=1) == 0
    assert world.knows(0, 10, producer="q/1") == 0
    assert world.table.known("Other", 0, mark(0), 10, no_digest) == 0


def test_a_number_beyond_the_next_one_is_refused_for_messages_are_missing() -> None:
    world = World()
    world.put(0, 10)
    with pytest.raises(RemoteError, match=r"number 11 of batch 0 to queue 0 of T, but 10 is next") as refused:
        world.put(11, 5)
    assert refused.value.code == 13 and "from its beginning" in refused.value.hint
    with pytest.raises(RemoteError, match="but 0 is next"):
        world.put(1, 5, batch=1)


def test_a_later_batch_starts_anew_and_an_earlier_one_is_refused() -> None:
    world = World()
    world.put(0, 10, batch=4)
    assert world.put(0, 3, batch=5) == 0
    for sequence, queue in ((0, 0), (500, 3)):
        with pytest.raises(RemoteError, match="sends batch 4 to T, but its query has written batch 5") as refused:
            world.knows(sequence, 10, queue=queue, batch=4)
        assert "an older copy of a checkpoint" in refused.value.hint
    assert world.knows(0, 10, batch=5) == 3


@pytest.mark.parametrize(("first", "count"), [(0, 10), (0, 14), (4, 6), (4, 9), (10, 5)])
def test_another_content_under_the_same_numbers_is_refused(first: int, count: int) -> None:
    world = World()
    world.write(1, 0, 6)
    world.write(1, 6, 4)
    with pytest.raises(
        RemoteError, match=r"was written before with other rows: 10 of them are stored in queue 0"
    ) as no:
        world.write(2, first, count)
    assert "minPartitions" in no.value.hint
    assert world.write(1, first, count) == 10 - first, "the same rows are taken, however they are cut"
    assert world.write(2, 0, 5, batch=1) == 0, "and another batch has rows of its own"


def test_who_ends_before_what_was_stored_is_told_where_it_ends() -> None:
    world = World()
    world.write(1, 0, 10)
    assert world.write(2, 0, 5) == 5, "the table cannot see what lies below its number"
    assert world.table.next_number("T", 0, rows(2, 0, 5)) == 10
    assert world.table.next_number("T", 0, rows(2, 0, 5, batch=1)) == 0


def test_digests_are_kept_in_the_file_and_a_file_without_them_is_read() -> None:
    world = World()
    world.begin()
    world.write(1, 0, 10)
    world.ends = LogEnds(100, 100)
    world.table.save()
    again = World(world.files)
    with pytest.raises(RemoteError, match="with other rows"):
        again.write(2, 0, 10)
    text = world.files.read_bytes(PATH).decode()
    old = re.sub(r',\s*"digests":\s*\{[^}]*\}', "", text)
    assert old != text
    world.files.write_bytes(PATH, old.encode())
    again = World(world.files)
    assert again.write(2, 0, 12) == 10, "as before: nothing to compare with"
    with pytest.raises(RemoteError, match="with other rows"):
        again.write(3, 0, 20)


def test_marks_without_digests_are_taken_beside_those_with_them() -> None:
    world = World()
    world.put(0, 10)
    assert world.write(1, 5, 10) == 5
    assert world.put(12, 10) == 3
    assert world.write(1, 20, 10) == 2


def test_a_deleted_topic_is_forgotten() -> None:
    world = World()
    world.put(0, 10)
    world.table.advance("Other", 0, mark(0), 10)
    world.table.forget_topic("T")
    assert world.put(0, 3) == 0
    assert world.table.known("Other", 0, mark(0), 10, no_digest) == 10


@pytest.mark.parametrize(("ends_at", "known"), [(99, 10), (100, 0), (500, 0)])
def test_a_file_from_before_the_deletion_brings_nothing_back(ends_at: int, known: int) -> None:
    world = World()
    world.begin()
    world.put(0, 10)
    world.ends = LogEnds(100, 100)
    world.table.save()
    again = World(world.files)
    again.table.forget_deleted({"T": ends_at, "Other": 500})
    assert again.knows(0, 10) == known


def test_another_layout_is_refused_in_the_same_batch_only() -> None:
    world = World()
    world.put(0, 10)
    with pytest.raises(RemoteError, match="spreads its rows over the queues of T in another way") as refused:
        world.table.known("T", 7, mark(0, layout="8"), 10, no_digest)
    assert "queues" in refused.value.hint
    assert world.table.known("T", 7, mark(0, layout="8", batch=1), 10, no_digest) == 0


def test_the_file_is_written_as_of_a_place_that_is_on_disk() -> None:
    world = World()
    world.begin()
    world.put(0, 10)
    world.ends = LogEnds(1000, 0)
    world.table.save()
    assert World(world.files).knows(0, 10) == 0, "a power cut would lose these messages, and a replay must bring them"
    assert world.table.changed
    world.put(10, 10)
    world.ends = LogEnds(2000, 1000)
    world.table.save()
    again = World(world.files)
    assert (again.knows(0, 20), again.table.log_offset) == (10, 1000)
    world.ends = LogEnds(2000, 2000)
    world.table.save()
    again = World(world.files)
    assert (again.knows(0, 20), again.table.log_offset) == (20, 2000)
    assert not world.table.changed


def test_the_file_is_made_before_the_first_mark() -> None:
    world = World()
    world.ends = LogEnds(900, 700)
    world.table.opened()
    assert (world.table.is_kept, world.table.changed) == (False, False)
    world.begin()
    again = World(world.files)
    again.table.opened()
    assert (again.table.is_kept, again.table.log_offset) == (True, 700)


def test_a_log_that_grew_without_marks_moves_the_place_in_the_file() -> None:
    world = World()
    world.begin()
    world.ends = LogEnds((64 << 20) - 1, 64 << 20)
    assert not world.table.changed
    world.ends = LogEnds(64 << 20, 64 << 20)
    assert world.table.changed
    world.table.save()
    assert World(world.files).table.log_offset == 64 << 20


def test_the_last_save_of_all_is_as_of_the_end_of_the_log() -> None:
    world = World()
    world.begin()
    world.ends = LogEnds(100, 100)
    assert not world.table.changed
    world.table.save()
    assert World(world.files).table.log_offset == 100


def test_a_later_batch_of_one_task_ends_the_earlier_one_of_all() -> None:
    """Spark begins it when the earlier one is through. The tasks it has no more take no room, and are not new."""
    world = World()
    for task in range(3):
        world.put(0, 10, producer=f"q/{task}", batch=4)
    world.put(0, 10, producer="q/0", batch=5)
    assert len(world.table) == 1
    with pytest.raises(RemoteError, match="q/2 sends batch 4 to T, but its query has written batch 5"):
        world.knows(0, 10, producer="q/2", batch=4)
    assert world.put(0, 10, producer="q/2", batch=5) == 0


# -- what is forgotten -------------------------------------------------------------------------------------------------


def forgets(world: World, producer: str, batch: int = 0) -> bool:
    """Is this batch refused, because it cannot be told whether it is stored?"""
    try:
        world.knows(0, 5, producer=producer, batch=batch)
    except RemoteError as error:
        assert f"up to batch {batch} was forgotten" in error.what and "at_least_once" in error.hint
        return True
    return False


def test_a_batch_that_was_idle_for_long_is_forgotten_as_a_whole_and_refused_then() -> None:
    world = World(keep_ms=10_000)
    for task in range(3):
        world.put(0, 5, producer=f"old/{task}", batch=7)
    world.clock.advance(10_001)
    world.put(0, 5, producer="new/0")
    assert len(world.table) == 1
    assert [forgets(world, f"old/{task}", batch=7) for task in range(4)] == [True] * 4
    with pytest.raises(RemoteError, match="was forgotten"):
        world.knows(0, 5, producer="old/0", batch=6)
    assert world.put(0, 5, producer="old/0", batch=8) == 0, "the next batch is new"
    assert (world.knows(0, 5, producer="old/0", batch=8), world.knows(0, 5, producer="new/0")) == (5, 5)


def test_the_first_task_that_comes_back_forgets_no_other_of_its_batch() -> None:
    """Broker and query were away for longer than numbers are kept; then the query repeats its batch."""
    world = World(keep_ms=10_000)
    for task in range(4):
        world.put(0, 5, producer=f"q/{task}", batch=7)
    world.clock.advance(10_001)
    assert world.put(0, 8, producer="q/0", batch=7) == 5
    assert [world.put(0, 5, producer=f"q/{task}", batch=7) for task in range(4)] == [5] * 4


def test_ages_count_while_the_broker_runs_and_no_clock_that_jumps_ends_one() -> None:
    world = World(keep_ms=10_000)
    world.begin()
    world.put(0, 5, producer="a/0")
    world.clock.jump_wall(8 * 86_400_000)
    world.put(0, 5, producer="b/0")
    world.clock.advance(6_000)
    world.ends = LogEnds(100, 100)
    world.table.save()
    away = World(world.files, keep_ms=10_000)  # its clock begins anew, and is days away
    away.put(0, 5, producer="c/0")
    assert [away.knows(0, 5, producer=f"{query}/0") for query in "abc"] == [5, 5, 5]
    away.clock.advance(4_001)
    away.put(5, 5, producer="c/0")
    assert [forgets(away, f"{query}/0") for query in "abc"] == [True, True, False]


def test_what_was_forgotten_is_in_the_file_and_goes_with_its_topic() -> None:
    world = World(keep_ms=10_000)
    world.begin()
    world.put(0, 5, producer="old/0", batch=3)
    world.clock.advance(10_001)
    world.put(0, 5, producer="new/0")
    world.ends = LogEnds(100, 100)
    world.table.save()
    again = World(world.files)
    assert forgets(again, "old/1", batch=3)
    again.table.recover("T", 0, mark(0, batch=3, producer="old/1"), 5, None)
    assert forgets(again, "old/1", batch=3), "read from the log again: its other tasks are not known by that"
    again.table.forget_topic("T")
    assert again.put(0, 5, producer="old/0", batch=3) == 0


def test_a_file_of_an_earlier_release_is_read() -> None:
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    line = '{"topic":"T","producer":"q/%d","batch":%d,"layout":"4","lastMs":5,"queues":{"0":%d}}'
    lines = ",".join(line % each for each in ((0, 6, 9), (1, 7, 3), (2, 7, 4)))
    files.write_bytes(PATH, f'{{"logOffset":1,"producers":[{lines}]}}'.encode())
    world = World(files)
    assert [world.knows(0, 10, producer=f"q/{task}", batch=7) for task in range(3)] == [0, 3, 4]
    with pytest.raises(RemoteError, match="has written batch 7"):
        world.knows(0, 10, batch=6)


def test_too_many_tasks_push_out_the_batches_unused_for_longest(caplog: pytest.LogCaptureFixture) -> None:
    world = World(producers_max=3)
    for producer in ("a/0", "b/0", "b/1"):
        world.put(0, 5, producer=producer)
    world.put(5, 5, producer="a/0")
    world.put(0, 5, producer="c/0")
    assert [forgets(world, producer) for producer in ("a/0", "b/0", "b/1", "c/0")] == [False, True, True, False]
    assert "producerSequencesMax" in caplog.text


def test_a_batch_with_more_tasks_than_may_be_known_is_refused_and_not_forgotten() -> None:
    world = World(producers_max=2)
    world.put(0, 5, producer="a/0")
    for task in range(2):
        world.put(0, 5, producer=f"q/{task}")
    with pytest.raises(RemoteError, match="by more than 2 tasks") as refused:
        world.put(0, 5, producer="q/2")
    assert "producerSequencesMax" in refused.value.hint
    for task in range(2, 5):  # in one chunk, stored together before it is seen that they are too many
        world.table.advance("T", 0, mark(0, producer=f"q/{task}"), 5)
    assert [world.put(0, 5, producer=f"q/{task}") for task in range(5)] == [5] * 5


def test_traces_of_what_was_forgotten_are_bounded_too(caplog: pytest.LogCaptureFixture) -> None:
    world = World(producers_max=2)
    for query in "abcde":
        world.put(0, 5, producer=f"{query}/0")
    assert [forgets(world, f"{query}/0") for query in "abcde"] == [False, True, True, False, False]
    assert "query a in T is forgotten" in caplog.text


def test_what_is_recovered_never_goes_back() -> None:
    world = World()
    world.table.recover("T", 0, mark(0, batch=2), 7, None)
    world.table.recover("T", 0, mark(0, batch=1), 90, None)
    world.table.recover("T", 0, mark(0, batch=2), 3, 99)
    assert world.knows(0, 10, batch=2) == 7


def test_a_broken_file_is_named() -> None:
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    files.write_bytes(PATH, b'{"logOffset": 1, "producers": [{"topic": "T"}]}')
    with pytest.raises(StoreError, match=r"producer sequences cannot be read.*stored again"):
        World(files)


def test_a_closed_table_takes_no_marks_and_says_that_it_counts_up_to_its_close() -> None:
    world = World()
    world.table.opened()
    world.begin()
    world.table.has_file = True
    world.put(0, 10)
    world.ends = LogEnds(1000, 900)
    world.table.close()
    assert not world.table.is_kept
    world.ends = LogEnds(5000, 5000)  # a master's records came, with marks that were not counted
    world.table.save()
    assert World(world.files).table.log_offset == 1000
    assert world.table.log_offset == 1000, "the next opening reads the log from here"
    world.table.opened()
    assert world.table.is_kept
    world.table.save()
    assert World(world.files).table.log_offset == 5000
    assert world.knows(0, 10) == 10


def test_a_table_without_a_file_waits_for_it_after_each_opening() -> None:
    world = World()
    for _opening in range(2):
        world.table.opened()
        assert not world.table.is_kept
        world.table.close()


def saved_place(world: World) -> int:
    return int(json.loads(world.files.read_bytes(PATH))["logOffset"])


def test_a_slave_has_a_file_before_the_first_mark_of_its_master() -> None:
    world = World()
    world.ends = LogEnds(70, 70)
    world.table.follow()
    assert world.table.changed
    world.ends = LogEnds(900, 900)
    world.table.save()
    assert saved_place(world) == 70, "the slave does not count what it appends"


def test_a_slave_whose_log_lost_its_end_counts_from_the_start() -> None:
    world = World()
    world.table.opened()
    world.begin()
    world.ends = LogEnds(500, 500)
    world.put(0, 10)
    world.table.close()
    world.table.save()
    after = World(world.files)
    after.ends = LogEnds(300, 300)
    after.table.follow()
    assert (after.knows(0, 10), after.table.log_offset) == (0, 0)
    after.table.save()
    assert saved_place(after) == 0


def test_a_masters_table_that_is_ahead_of_the_log_is_saved_with_the_masters_place() -> None:
    master, slave = World(), World()
    master.table.opened()
    master.begin()
    master.ends = LogEnds(500, 500)
    master.put(0, 10)
    slave.ends = LogEnds(300, 300)
    slave.table.follow()
    master.table.save()
    slave.table.replace(master.table.to_text())
    slave.table.save()
    assert saved_place(slave) == 500, "the slave's log holds no message that the table counts beyond 300"


def test_the_first_file_of_a_table_that_was_counted_from_the_log_says_where_it_counts_to() -> None:
    """A power cut takes the end of the log. A table that claims a lower place would know messages that are gone."""
    world = World()
    world.table.follow()
    world.table.has_file = False  # the disk has refused the file
    world.ends = LogEnds(500, 300)
    world.table.recover("T", 0, mark(0), 10, None)
    world.table.opened()
    world.begin()
    assert saved_place(world) == 500
    world.table.log_was_cut(300)
    assert (world.knows(0, 10), world.table.log_offset) == (0, 0), (
        "the log is read again for what stands before the cut"
    )
