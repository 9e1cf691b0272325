from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import StoreError


@pytest.fixture(params=["posix", "memory", "faulty without faults"])
def disk(request, tmp_path):
    """(files, an existing folder): every rule of the seam holds for every disk."""
    if request.param == "posix":
        return PosixFiles(), tmp_path
    memory = MemoryFiles()
    memory.make_dirs(Path("/d"))
    return (memory if request.param == "memory" else FaultyFiles(memory)), Path("/d")


class TestEveryDisk:
    def test_a_missing_file_is_made_only_when_asked_and_filled_with_zeros(self, disk):
        files, folder = disk
        with pytest.raises(FileNotFoundError):
            files.open(folder / "a")
        file = files.open(folder / "a", size=10, create=True)
        assert (file.size, file.pread(20, 0), file.path) == (10, bytes(10), folder / "a")
        assert files.size(folder / "a") == 10

    def test_a_file_of_another_size_is_refused_but_an_empty_one_is_lengthened(self, disk):
        files, folder = disk
        files.write_bytes(folder / "a", b"12345")
        for create in (True, False):
            with pytest.raises(StoreError, match="5 bytes, the settings ask for 8"):
                files.open(folder / "a", size=8, create=create)
        files.write_bytes(folder / "b", b"")
        with pytest.raises(StoreError):
            files.open(folder / "b", size=8)
        assert files.open(folder / "b", size=8, create=True).size == 8

    def test_reads_and_views_see_writes_at_once(self, disk):
        files, folder = disk
        file = files.open(folder / "a", size=100, create=True)
        view = file.view()
        file.pwrite(b"hello", 10)
        file.pwrite(bytearray(b"wor"), 15)
        file.pwrite(memoryview(b"xxldxx")[2:4], 18)
        assert bytes(view[10:20]) == b"helloworld"
        assert files.open(folder / "a").pread(10, 10) == b"helloworld"
        assert view.readonly
        assert len(view) == 100

    @pytest.mark.parametrize("size", [100, 1 << 20])
    def test_whether_only_zeros_follow_is_known(self, disk, size):
        files, folder = disk
        file = files.open(folder / "a", size=size, create=True)
        assert file.is_zero_from(0)
        file.pwrite(b"abc", 20)
        assert not file.is_zero_from(0)
        assert not file.is_zero_from(22)
        assert file.is_zero_from(23)
        file.pwrite(b"x", size - 1)
        assert not file.is_zero_from(23)
        assert not file.is_zero_from(size - 1)
        assert file.is_zero_from(size)

    def test_a_view_outlives_its_file(self, disk):
        files, folder = disk
        file = files.open(folder / "a", size=10, create=True)
        file.pwrite(b"abc", 0)
        view = file.view()
        file.close()
        file.close()
        files.remove(folder / "a")
        assert bytes(view[:3]) == b"abc"

    def test_a_file_grows_by_writing_and_changes_length_by_truncate(self, disk):
        files, folder = disk
        file = files.open(folder / "a", create=True)
        assert (file.size, len(file.view())) == (0, 0)
        file.pwrite(b"abc", 5)
        assert (file.size, bytes(file.view())) == (8, b"\0\0\0\0\0abc")
        file.truncate(6)
        assert (file.size, bytes(file.view())) == (6, b"\0\0\0\0\0a")
        file.truncate(8)
        assert file.pread(10, 4) == b"\0a\0\0"

    def test_a_file_opened_for_reading_refuses_writes(self, disk):
        files, folder = disk
        files.write_bytes(folder / "a", b"abc")
        file = files.open(folder / "a", read_only=True)
        with pytest.raises(OSError):
            file.pwrite(b"x", 0)
        assert bytes(file.view()) == b"abc"

    def test_folders_list_sorted_names_and_go_only_when_empty(self, disk):
        files, folder = disk
        assert files.list_dir(folder / "none") == []
        files.make_dirs(folder / "x" / "y")
        files.make_dirs(folder / "x" / "y")
        files.write_bytes(folder / "x" / "b", b"1")
        files.write_bytes(folder / "x" / "a", b"1")
        assert files.list_dir(folder / "x") == ["a", "b", "y"]
        assert files.is_dir(folder / "x")
        assert not files.is_dir(folder / "x" / "a")
        with pytest.raises(OSError):
            files.remove(folder / "x")
        for name in ("a", "b", "y"):
            files.remove(folder / "x" / name)
        files.remove(folder / "x")
        assert not files.exists(folder / "x")

    def test_rename_replaces_files_and_moves_folders(self, disk):
        files, folder = disk
        files.write_bytes(folder / "a", b"new")
        files.write_bytes(folder / "b", b"old")
        files.rename(folder / "a", folder / "b")
        assert files.read_bytes(folder / "b") == b"new"
        assert not files.exists(folder / "a")
        files.make_dirs(folder / "q" / "0")
        files.write_bytes(folder / "q" / "0" / "f", b"1")
        files.rename(folder / "q", folder / "r")
        assert files.read_bytes(folder / "r" / "0" / "f") == b"1"
        assert not files.exists(folder / "q")

    def test_a_link_is_a_second_name_and_only_the_first_gets_it(self, disk):
        files, folder = disk
        files.write_bytes(folder / "mine", b"mine")
        files.write_bytes(folder / "yours", b"yours")
        files.link(folder / "mine", folder / "taken")
        with pytest.raises(FileExistsError):
            files.link(folder / "yours", folder / "taken")
        files.remove(folder / "mine")
        assert files.read_bytes(folder / "taken") == b"mine"

    def test_missing_files_are_reported_as_such(self, disk):
        files, folder = disk
        for call in (files.size, files.modified_ms, files.read_bytes, files.remove):
            with pytest.raises(FileNotFoundError):
                call(folder / "none")
        with pytest.raises(FileNotFoundError):
            files.rename(folder / "none", folder / "a")
        with pytest.raises(FileNotFoundError):
            files.open(folder / "no folder" / "a", create=True)

    def test_write_bytes_replaces_the_whole_content(self, disk):
        files, folder = disk
        files.write_bytes(folder / "a", b"long content")
        files.write_bytes(folder / "a", memoryview(b"short"))
        assert files.read_bytes(folder / "a") == b"short"
        assert files.modified_ms(folder / "a") > 1_600_000_000_000
        files.sync_dir(folder)

    def test_the_disk_tells_its_size_and_room(self, disk):
        files, folder = disk
        total, free = files.disk_usage(folder)
        assert 0 < free <= total

    def test_a_lock_is_held_once_until_closed(self, disk):
        files, folder = disk
        lock = files.lock(folder / "lock")
        with pytest.raises(StoreError, match="in use"):
            files.lock(folder / "lock")
        lock.close()
        lock.close()
        files.lock(folder / "lock").close()
        assert files.exists(folder / "lock")

    def test_sync_and_sync_dir_succeed_and_change_no_byte(self, disk):
        files, folder = disk
        file = files.open(folder / "a", size=10, create=True)
        file.pwrite(b"abc", 2)
        file.sync()
        files.sync_dir(folder)
        assert files.read_bytes(folder / "a") == b"\0\0abc\0\0\0\0\0"


def test_a_lock_keeps_other_processes_out(tmp_path):
    lock = PosixFiles().lock(tmp_path / "lock")
    program = "import sys; from pathlib import Path; from rocketlake.base.disk.posix import PosixFiles\n"
    program += "PosixFiles().lock(Path(sys.argv[1]))"
    arguments = [sys.executable, "-c", program, str(tmp_path / "lock")]
    environment = {"PYTHONPATH": str(Path(__file__).parents[3] / "src"), "ROCKETLAKE_PURE": "1"}
    refused = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)
    assert refused.returncode != 0
    assert "in use by another process" in refused.stderr
    assert str(tmp_path / "lock") in refused.stderr
    lock.close()
    assert subprocess.run(arguments, env=environment, check=False).returncode == 0


def test_a_write_that_the_disk_takes_in_pieces_is_written_whole(tmp_path, monkeypatch):
    file = PosixFiles().open(tmp_path / "a", create=True)
    whole_write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: whole_write(descriptor, memoryview(data)[:3], at))
    file.pwrite(b"0123456789", 2)
    assert file.pread(20, 0) == b"\0\0" + b"0123456789"
    assert file.size == 12


class TestPowerCut:
    def test_only_synced_bytes_under_synced_names_survive(self):
        files = MemoryFiles()
        files.make_dirs(Path("/d"))
        file = files.open(Path("/d/a"), size=8, create=True)
        file.pwrite(b"safe", 0)
        file.sync()
        files.sync_dir(Path("/d"))
        file.pwrite(b"lost", 4)
        files.open(Path("/d/b"), size=8, create=True).sync()
        after = files.power_cut()
        assert after.list_dir(Path("/d")) == ["a"]
        assert after.read_bytes(Path("/d/a")) == b"safe\0\0\0\0"
        assert files.read_bytes(Path("/d/a")) == b"safelost"

    def test_a_length_never_synced_is_lost_too(self):
        files = MemoryFiles()
        files.open(Path("a"), size=8, create=True)
        files.sync_dir(Path("."))
        assert files.power_cut().size(Path("a")) == 0

    def test_a_rename_is_safe_after_sync_dir(self):
        files = MemoryFiles()
        files.write_bytes(Path("a"), b"1")
        files.sync_dir(Path("."))
        files.rename(Path("a"), Path("b"))
        assert files.power_cut().list_dir(Path(".")) == ["a"]
        files.sync_dir(Path("."))
        assert files.power_cut().list_dir(Path(".")) == ["b"]

    def test_a_removal_is_safe_after_sync_dir(self):
        files = MemoryFiles()
        files.write_bytes(Path("a"), b"1")
        files.sync_dir(Path("."))
        files.remove(Path("a"))
        assert files.power_cut().exists(Path("a"))
        files.sync_dir(Path("."))
        assert not files.power_cut().exists(Path("a"))

    def test_truncate_cuts_what_was_safe_once_synced(self):
        files = MemoryFiles()
        files.write_bytes(Path("a"), b"12345678")
        files.sync_dir(Path("."))
        file = files.open(Path("a"))
        file.truncate(3)
        assert files.power_cut().read_bytes(Path("a")) == b"12345678"
        file.sync()
        assert files.power_cut().read_bytes(Path("a")) == b"123"
        file.truncate(8)
        file.sync()
        assert files.power_cut().read_bytes(Path("a")) == b"123\0\0\0\0\0"

    def test_with_random_some_sectors_reach_the_disk_whole_and_a_seed_repeats_them(self):
        files = MemoryFiles()
        file = files.open(Path("a"), size=512 * 64, create=True)
        file.sync()
        files.sync_dir(Path("."))
        file.pwrite(b"\xff" * (512 * 64), 0)
        after = files.power_cut(random.Random(5)).read_bytes(Path("a"))
        sectors = {after[start : start + 512] for start in range(0, len(after), 512)}
        assert sectors == {bytes(512), b"\xff" * 512}
        assert files.power_cut(random.Random(5)).read_bytes(Path("a")) == after
        assert files.power_cut(random.Random(6)).read_bytes(Path("a")) != after

    def test_with_random_a_name_and_a_length_never_synced_may_survive(self):
        files = MemoryFiles()
        files.open(Path("a"), create=True).pwrite(b"x" * 1000, 0)
        found = [files.power_cut(random.Random(seed)) for seed in range(40)]
        sizes = {after.size(Path("a")) if after.exists(Path("a")) else None for after in found}
        assert sizes == {None, 0, 512, 1000}

    def test_a_killed_process_gives_up_its_locks_and_loses_nothing(self):
        files = MemoryFiles()
        files.lock(Path("lock"))
        files.write_bytes(Path("a"), b"1")
        files.process_died()
        files.lock(Path("lock"))
        assert files.read_bytes(Path("a")) == b"1"

    def test_what_was_synced_survives_every_seed(self):
        files = MemoryFiles()
        file = files.open(Path("a"), size=4096, create=True)
        file.pwrite(b"x" * 1000, 0)
        file.sync()
        files.sync_dir(Path("."))
        file.pwrite(b"y" * 1000, 1000)
        for seed in range(30):
            assert files.power_cut(random.Random(seed)).read_bytes(Path("a"))[:1000] == b"x" * 1000

    def test_the_survivor_is_a_disk_of_its_own(self):
        files = MemoryFiles(clock=ManualClock(start_ms=77))
        files.write_bytes(Path("a"), b"1")
        files.sync_dir(Path("."))
        after = files.power_cut()
        after.write_bytes(Path("a"), b"2")
        assert files.read_bytes(Path("a")) == b"1"
        assert after.power_cut().read_bytes(Path("a")) == b"2"
        assert after.modified_ms(Path("a")) == 77


def test_a_full_memory_disk_refuses_growth_and_keeps_what_it_has():
    files = MemoryFiles(capacity=100)
    file = files.open(Path("a"), size=90, create=True)
    assert files.disk_usage(Path("a")) == (100, 10)
    for call in (
        lambda: files.open(Path("b"), size=11, create=True),
        lambda: file.pwrite(b"x" * 20, 85),
        lambda: file.truncate(101),
        lambda: files.write_bytes(Path("c"), bytes(50)),
    ):
        with pytest.raises(OSError) as refused:
            call()
        assert refused.value.errno == errno.ENOSPC
    file.pwrite(b"y" * 90, 0)
    assert file.pread(100, 0) == b"y" * 90


def test_a_folder_cannot_take_the_place_of_a_file():
    files = MemoryFiles()
    files.write_bytes(Path("a"), b"1")
    with pytest.raises(FileExistsError):
        files.make_dirs(Path("a/b"))


class TestFaults:
    def test_a_torn_write_leaves_the_first_bytes_and_raises(self):
        files = FaultyFiles(MemoryFiles(), FaultPlan([Fault("pwrite", keep_bytes=3, times=1)]))
        file = files.open(Path("a"), size=10, create=True)
        with pytest.raises(OSError) as refused:
            file.pwrite(b"abcdef", 0)
        assert refused.value.errno == errno.EIO
        assert file.pread(10, 0) == b"abc" + bytes(7)
        file.pwrite(b"abcdef", 0)
        assert file.pread(6, 0) == b"abcdef"

    def test_a_failed_sync_makes_nothing_safe(self):
        memory = MemoryFiles()
        files = FaultyFiles(memory, FaultPlan([Fault("sync", after=1)]))
        file = files.open(Path("a"), size=4, create=True)
        file.sync()
        files.sync_dir(Path("."))
        file.pwrite(b"abcd", 0)
        for _ in range(3):
            with pytest.raises(OSError):
                file.sync()
        assert memory.power_cut().read_bytes(Path("a")) == bytes(4)

    def test_a_lost_sync_says_yes_and_does_nothing(self):
        memory = MemoryFiles()
        files = FaultyFiles(memory)
        file = files.open(Path("a"), size=4, create=True)
        file.sync()
        files.sync_dir(Path("."))
        files.plan.add(Fault("sync", error=None))
        file.pwrite(b"abcd", 0)
        file.sync()
        assert memory.power_cut().read_bytes(Path("a")) == bytes(4)

    def test_a_full_disk(self):
        files = FaultyFiles(
            MemoryFiles(), FaultPlan([Fault("open", path_part="/log/", error=errno.ENOSPC)], free_bytes=0)
        )
        files.make_dirs(Path("/log"))
        with pytest.raises(OSError, match="space") as refused:
            files.open(Path("/log/1"), size=5, create=True)
        assert refused.value.errno == errno.ENOSPC
        assert files.disk_usage(Path("/log"))[1] == 0
        files.open(Path("/other"), create=True)

    def test_faults_hit_the_named_files_only_and_end(self):
        files = FaultyFiles(MemoryFiles(), FaultPlan([Fault("write_bytes", path_part="topics", times=2)]))
        files.write_bytes(Path("offsets"), b"1")
        for _ in range(2):
            with pytest.raises(OSError):
                files.write_bytes(Path("topics.json"), b"1")
        files.write_bytes(Path("topics.json"), b"1")
        assert [call for call, _ in files.plan.calls] == ["write_bytes"] * 4

    @pytest.mark.parametrize(
        "call", ["make_dirs", "remove", "rename", "link", "read_bytes", "write_bytes", "sync_dir", "open"]
    )
    def test_every_call_can_fail(self, call):
        files = FaultyFiles(MemoryFiles())
        files.write_bytes(Path("a"), b"1")
        files.plan.add(Fault(call))
        pair = (Path("a"), Path("b"))
        arguments = {"rename": pair, "link": pair, "write_bytes": (Path("a"), b"2")}.get(call, (Path("a"),))
        with pytest.raises(OSError):
            getattr(files, call)(*arguments)
        files.plan.clear()
        assert files.read_bytes(Path("a")) == b"1"

    @pytest.mark.parametrize("call", ["pread", "truncate"])
    def test_every_call_of_a_file_can_fail(self, call):
        files = FaultyFiles(MemoryFiles(), FaultPlan([Fault(call)]))
        file = files.open(Path("a"), size=5, create=True)
        with pytest.raises(OSError):
            getattr(file, call)(*{"pread": (1, 0), "truncate": (1,)}[call])
        assert file.size == 5

    def test_a_lost_write_is_silent(self):
        faults = [Fault("pwrite", error=None), Fault("truncate", error=None), Fault("pread", error=None)]
        files = FaultyFiles(MemoryFiles(), FaultPlan([*faults, Fault("rename", error=None)]))
        file = files.open(Path("a"), size=3, create=True)
        file.pwrite(b"abc", 0)
        assert bytes(file.view()) == bytes(3)
        file.truncate(0)
        assert file.size == 3
        assert file.pread(3, 0) == b""
        files.rename(Path("a"), Path("b"))
        assert files.exists(Path("a"))
        file.close()


def test_a_write_that_writes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """structure.md, bug 18: it was tried again for ever, on the loop."""
    file = PosixFiles().open(tmp_path / "a", create=True)
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError, match="takes no more bytes") as refused:
        file.pwrite(b"abc", 0)
    assert refused.value.filename == str(tmp_path / "a")
