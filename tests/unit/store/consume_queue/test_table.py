from __future__ import annotations

import random
from collections import OrderedDict
from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue.entry import ENTRY_SIZE, pack_entry
from rocketlake.store.consume_queue.table import BadQueueName, ConsumeQueueTable
from rocketlake.store.consume_queue.tail import Tails
from rocketlake.store.mapped_file import PAGE
from rocketlake.store.mapped_file_list import FlushJob
from rocketlake.store.removal import Removal

FOLDER = Path("/store/consumequeue")
AWAY = Path("/store/removed")
FILE_SIZE = 100  # five entries


def new_table(disk: Files, folder: Path = FOLDER, *, open_files_max: int = 4) -> ConsumeQueueTable:
    return ConsumeQueueTable(folder, disk, file_size=FILE_SIZE, open_files_max=open_files_max)


def reopened(disk: Files, folder: Path = FOLDER, *, clean: bool = True) -> ConsumeQueueTable:
    table = new_table(disk, folder)
    table.load(last_exit_ok=clean)
    return table


def put(table: ConsumeQueueTable, topic: str, queue_id: int, physical: int) -> int:
    offset = table.assign(topic, queue_id)
    assert table.append(topic, queue_id, offset, physical, 100, 0)
    return offset


def jobs(table: ConsumeQueueTable, least_pages: int = 0) -> list[FlushJob]:
    return [job for job in table.to_flush(least_pages) if job is not None]


def write_tails(table: ConsumeQueueTable) -> None:
    while not table.write_tails():
        pass


def test_offsets_of_a_queue_are_dense_and_its_own() -> None:
    table = new_table(MemoryFiles())
    assert [table.assign("A", 0), table.assign("A", 0, 3), table.assign("A", 0)] == [0, 1, 4]
    assert table.assign("A", 1) == 0
    assert table.assign("B", 0) == 0


def test_the_oldest_tail_is_found_without_a_walk_over_those_that_were_written() -> None:
    """hunt.md, H9: `next(iter(...))` of a plain dict passes over everything deleted before it."""
    tails = Tails(0)
    assert isinstance(tails.queues, OrderedDict)


def test_offsets_given_back_are_assigned_again() -> None:
    table = new_table(MemoryFiles())
    table.assign("A", 0, 2)
    table.assign("A", 0, 3)
    table.give_back("A", 0, 3)
    assert table.assign("A", 0) == 2


def test_all_is_found_again_after_a_restart() -> None:
    disk = MemoryFiles()
    table = new_table(disk)
    for number in range(60):
        put(table, f"topic{number % 3}", number % 4, number * 100)
    table.flush()
    table.close()
    again = reopened(disk)
    assert sorted(again.topics()) == ["topic0", "topic1", "topic2"]
    assert again.queue_ids("topic1") == [0, 1, 2, 3]
    assert again.max_offset("topic0", 0) == 5
    assert again.max_physical_offset() == 6000
    assert again.assign("topic2", 3) == 5
    assert again.max_offset("none", 0) == again.min_offset("none", 0) == 0


def test_an_empty_table_has_no_physical_offset() -> None:
    assert new_table(MemoryFiles()).max_physical_offset() == -1


def test_many_queues_need_few_open_files(tmp_path: Path) -> None:
    table = new_table(PosixFiles(), tmp_path, open_files_max=3)
    for number in range(400):
        put(table, f"topic{number % 100}", number % 2, number * 100)
    open_queues = [link for link in Path("/proc/self/fd").iterdir() if _target(link).startswith(str(tmp_path))]
    assert len(open_queues) <= 3
    table.flush()
    table.close()
    again = reopened(PosixFiles(), tmp_path)
    assert sum(queue.max_offset for queue in again) == 400
    again.close()


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def test_the_file_size_is_rounded_up_to_whole_entries() -> None:
    assert ConsumeQueueTable(FOLDER, MemoryFiles(), file_size=101).file_size == 120
    assert ConsumeQueueTable(FOLDER, MemoryFiles()).file_size == 6_000_000


def test_strange_folders_are_passed_over() -> None:
    disk = MemoryFiles()
    disk.make_dirs(FOLDER / "T" / "not-a-number")
    disk.write_bytes(FOLDER / "file", b"x")
    assert reopened(disk).topics() == []


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../../etc", "a\0b", "x" * 256])
def test_a_topic_never_leads_out_of_the_folder(topic: str) -> None:
    table = new_table(MemoryFiles())
    with pytest.raises(BadQueueName, match="no queue can have the topic"):
        table.append(topic, 0, 0, 0, 100, 0)
    assert table.topics() == []


# -- flushing ----------------------------------------------------------------------------------------------------------


def test_what_was_flushed_survives_a_power_cut() -> None:
    disk = MemoryFiles()
    table = new_table(disk)
    for number in range(12):
        put(table, "A", number % 2, number * 100)
    table.flush()
    put(table, "A", 0, 1200)
    assert [reopened(disk.power_cut(), clean=False).max_offset("A", queue) for queue in (0, 1)] == [6, 6]


def test_what_was_flushed_after_a_kill_survives_a_power_cut() -> None:
    """The killed process had made files whose names were not safe yet."""
    disk = MemoryFiles()
    table = new_table(disk)
    put(table, "A", 0, 0)
    jobs(table)  # and not run
    again = reopened(disk, clean=False)
    put(again, "A", 0, 100)
    again.flush()
    assert reopened(disk.power_cut(), clean=False).max_offset("A", 0) == 2


def test_only_queues_with_new_entries_are_synced() -> None:
    disk = MemoryFiles()
    table = new_table(disk)
    put(table, "A", 0, 0)
    put(table, "B", 0, 100)
    for job in jobs(table):
        job.run()
        job.done()
    assert jobs(table) == []
    put(table, "B", 0, 200)
    assert len(jobs(table)) == 1


def test_few_pages_can_wait() -> None:
    table = new_table(MemoryFiles())
    put(table, "A", 0, 0)
    assert jobs(table, 2) == []
    assert len(jobs(table, 0)) == 1


def test_a_round_looks_only_at_queues_that_were_written_since_the_last_one() -> None:
    table = ConsumeQueueTable(FOLDER, MemoryFiles(), file_size=4 * PAGE)
    for number in range(100):
        put(table, "A", number, number * 100)
    write_tails(table)
    assert list(table.to_flush(2)) == [None] * 100
    assert list(table.to_flush(2)) == []
    table.append_run(table.find_or_make("A", 7), 1, pack_entry(10_000, 100, 0) * (2 * PAGE // ENTRY_SIZE), 10_100)
    assert list(table.to_flush(2)) == []  # they are in memory, where no sync finds them
    write_tails(table)
    (job,) = table.to_flush(2)
    assert job is not None
    assert len(list(table.to_flush(2))) == 1  # until that sync is done
    job.run()
    job.done()
    assert list(table.to_flush(2)) == [None]
    assert list(table.to_flush(2)) == []
    assert len(jobs(table)) == 99  # no thorough round passes over the others


def test_a_queue_whose_sync_was_not_done_is_looked_at_again_behind_a_kill_too() -> None:
    disk = MemoryFiles()
    table = new_table(disk)
    table.append_run(table.find_or_make("A", 0), 0, pack_entry(0, 100, 0) * (FILE_SIZE // ENTRY_SIZE), 100)
    write_tails(table)
    assert [len(jobs(table, 2)) for _ in range(3)] == [1, 1, 1]
    assert len(jobs(reopened(disk, clean=False), 2)) == 1


@pytest.mark.parametrize("seed", range(10))
def test_a_round_finds_what_a_look_at_all_queues_finds(seed: int) -> None:
    """Runs of all sizes, gaps, tails that give way, cuts, topics that go: no queue that is due is left out."""
    chance = random.Random(seed)
    disk = MemoryFiles()
    table = ConsumeQueueTable(FOLDER, disk, file_size=4 * PAGE, tail_bytes_max=chance.choice([0, 3 * PAGE]))
    physical, due = 0, 0
    for _ in range(300):
        topic, number = chance.choice("AB"), chance.randrange(6)
        match chance.randrange(12):
            case 0:
                write_tails(table)
            case 1:
                table.truncate_after(PhysicalOffset(physical - chance.choice([100, 3_000, 20_000])))
                table.flush()  # as a cut of the log does before anything is appended
            case 2 if chance.randrange(4) == 0 and table.forget_topic(topic):
                Removal(disk, AWAY).take(FOLDER / topic).remove()
            case 3 | 4:
                all_due = sum(queue.to_flush(2) is not None for queue in table)
                is_thorough = chance.randrange(4) == 0
                found = jobs(table, 0 if is_thorough else 2)
                assert is_thorough or len(found) == all_due
                due += all_due
                for job in found:
                    if chance.randrange(3):
                        job.run()
                        job.done()
            case 5:
                offset = table.find_or_make(topic, number).max_offset + chance.choice([1, 300, 700])
                table.append(topic, number, QueueOffset(offset), PhysicalOffset(physical), 100, 0)
                physical += 100
            case _:
                count = chance.choice([1, 5, 150, 300, 900])
                queue = table.find_or_make(topic, number)
                entries = b"".join(pack_entry(physical + at * 100, 100, 0) for at in range(count))
                physical += count * 100
                table.append_run(queue, queue.max_offset, entries, PhysicalOffset(physical))
    assert due > 20


def test_a_failed_sync_is_reported_and_not_tried_again() -> None:
    table = new_table(FaultyFiles(MemoryFiles(), FaultPlan([Fault("sync", times=1)])))
    put(table, "A", 0, 0)
    with pytest.raises(StoreError, match="sync"):
        table.flush()
    assert jobs(table) == []


def test_queues_may_come_and_go_while_others_are_looked_at() -> None:
    disk = MemoryFiles()
    table = new_table(disk)
    for number in range(3):
        put(table, "A", number, number * 100)
    put(table, "B", 0, 300)
    looked = table.to_flush()
    assert next(looked) is not None
    assert table.forget_topic("B")
    put(table, "C", 0, 400)
    for job in looked:
        if job is not None:
            job.run()
            job.done()
    assert len(jobs(table)) == 2


# -- cutting and dropping ----------------------------------------------------------------------------------------------


def test_a_cut_log_takes_entries_and_assigned_offsets_along() -> None:
    table = new_table(MemoryFiles())
    for number in range(6):
        put(table, "A", number % 2, number * 100)
    table.assign("A", 0)  # its record was never appended
    table.truncate_after(300)
    assert [table.max_offset("A", 0), table.max_offset("A", 1)] == [2, 1]
    assert [table.assign("A", 0), table.assign("A", 1)] == [2, 1]
    assert table.max_physical_offset() == 300


def test_min_offsets_follow_the_log() -> None:
    disk = MemoryFiles()
    table = new_table(disk)
    for number in range(24):
        put(table, "A", number % 2, number * 100)
    table.flush()
    dropped = table.delete_before(1500)
    assert [mapped.start for mapped in dropped] == [0, 0]
    assert [table.min_offset("A", 0), table.min_offset("A", 1)] == [8, 7]
    for mapped in dropped:
        mapped.remove()
    again = reopened(disk)
    again.min_physical = 1500
    assert [again.min_offset("A", 0), again.min_offset("A", 1)] == [8, 7]


def test_deleted_topics_leave_nothing_behind() -> None:
    disk = MemoryFiles()
    table = new_table(disk)
    put(table, "A", 0, 0)
    put(table, "B", 0, 100)
    table.assign("C", 0)
    assert [table.forget_topic(name) for name in ("A", "C", "unknown")] == [True, True, False]
    Removal(disk, AWAY).take(FOLDER / "A").remove()
    assert (disk.list_dir(FOLDER), disk.list_dir(AWAY)) == (["B"], [])
    assert table.topics() == ["B"]
    assert table.assign("A", 0) == 0
    table.flush()


def test_a_topic_deleted_while_its_flush_is_under_way_does_not_fail_the_flush() -> None:
    disk = MemoryFiles()
    table = new_table(disk)
    put(table, "A", 0, 0)
    (job,) = jobs(table)
    table.forget_topic("A")
    job.run()
    job.done()


def test_without_a_log_all_queues_go() -> None:
    disk = MemoryFiles()
    table = new_table(disk)
    put(table, "A", 0, 0)
    table.flush()
    table.destroy_all()
    assert disk.list_dir(FOLDER) == []
    assert list(table) == []
    assert reopened(disk.power_cut(), clean=False).max_physical_offset() == -1
