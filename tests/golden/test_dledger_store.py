"""The store of Apache's broker in DLedger mode, as it was recorded, becomes an ordinary one with the same messages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import load_broker_conf
from rocketlake.cli.tree import app
from rocketlake.codec.record import decode_record
from rocketlake.store.dledger.conversion import Conversion
from rocketlake.store.reader import StoreReader

STORE = Path(__file__).parent / "stores" / "apache-5.3.3-dledger"
DATA = Path("dledger-n0") / "data"
FILE_BYTES = 65536


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORE, tmp_path / "source"))


def tree(root: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of every file."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


def entry_records(source: Path) -> Iterator[bytes]:
    """The records of all entries, taken out by the documented bytes."""
    for path in sorted((source / DATA).iterdir()):
        data, position = path.read_bytes(), 0
        while data[position : position + 4] == b"\0\0\0\1":
            size = int.from_bytes(data[position + 4 : position + 8], "big")
            yield data[position + 48 : position + size]
            position += size


def store_records(root: Path) -> list[bytes]:
    reader = StoreReader(root)
    return [bytes(reader.record(each.physical_offset) or b"") for each in reader.scan_log()]


def without_place(records: list[bytes]) -> list[bytes]:
    """All of each record but its physical offset."""
    return [record[:28] + record[36:] for record in records]


async def test_every_message_is_there_with_its_place_in_its_queue(source: Path, tmp_path: Path) -> None:
    before = tree(source)
    done = await Conversion(source).run(tmp_path / "target")
    assert (done.records, done.last_term, done.last_index, done.committed_index) == (350, 0, 349, 349)
    assert (done.was_stopped, done.without_record, done.left, done.file_bytes) == (True, 0, [], FILE_BYTES)
    written = store_records(tmp_path / "target")
    assert without_place(written) == without_place(list(entry_records(source)))
    reader = StoreReader(tmp_path / "target")
    assert [reader.queue_range("Golden", queue) for queue in range(4)] == [(0, 76), (0, 116), (0, 76), (0, 76)]
    for queue in range(4):
        found = [decode_record(record).queue_offset for record in reader.records("Golden", queue, 0, 76)]
        assert found == list(range(76))
    for name in ("consumerOffset.json", "topics.json", "subscriptionGroup.json", "delayOffset.json"):
        assert (tmp_path / "target" / "config" / name).read_bytes() == (STORE / "config" / name).read_bytes()
    assert tree(source) == before


async def test_our_broker_goes_on_where_the_member_stopped(source: Path, tmp_path: Path) -> None:
    await Conversion(source).run(tmp_path / "target")
    given = {
        "mappedFileSizeCommitLog": str(FILE_BYTES),
        "listenPort": "0",
        "storePathRootDir": str(tmp_path / "target"),
    }
    async with Broker(*load_broker_conf(None, given)) as broker:
        golden = broker.topics.get("Golden")
        assert golden is not None and golden.read_queues == 4
        read = [broker.offsets.query("golden_group", "Golden", queue) for queue in range(4)]
        assert read == [broker.store.max_offset("Golden", queue) for queue in range(4)] == [76, 116, 76, 76]
        (waiting,) = broker.delay.schedule.waiting().values()
        assert waiting[0] == waiting[1]
        found = broker.store.query("Golden", "k299", 10, 0, 2**42)
        assert [decode_record(record).properties["number"] for record in found.slices] == ["299"]


async def test_a_store_whose_oldest_files_were_deleted_begins_where_it_begins(source: Path, tmp_path: Path) -> None:
    os.remove(source / DATA / "00000000000000000000")
    done = await Conversion(source).run(tmp_path / "target")
    reader = StoreReader(tmp_path / "target")
    start, end = reader.queue_range("Golden", 0)
    assert (0 < start < end, end) == (True, 76)
    assert done.records == len(list(entry_records(source)))
    assert reader.log.start == 0


def starts(path: Path) -> list[int]:
    """Where the entries of a file start."""
    data, found = path.read_bytes(), [0]
    while data[found[-1] : found[-1] + 4] == b"\0\0\0\1":
        found.append(found[-1] + int.from_bytes(data[found[-1] + 4 : found[-1] + 8], "big"))
    return found[:-1]


MAGIC, SIZE, INDEX, POSITION, BODY_SIZE, RECORD_SIZE, PLACE, BODY = 3, 7, 15, 31, 47, 51, 48 + 35, 48 + 88


@pytest.mark.parametrize(
    ("name", "entry", "byte"),
    [
        ("00000000000000000000", 0, MAGIC),
        ("00000000000000000000", 0, BODY),
        ("00000000000000000000", -1, SIZE),
        ("00000000000000065536", 0, POSITION),
        ("00000000000000065536", 70, INDEX),
        ("00000000000000065536", 70, PLACE),
        ("00000000000000065536", -1, BODY),
        ("00000000000000131072", 0, BODY_SIZE),
        ("00000000000000131072", -1, RECORD_SIZE),
        ("00000000000000131072", -1, BODY),
    ],
)
async def test_damage_anywhere_is_found_and_nothing_is_made(
    source: Path, tmp_path: Path, name: str, entry: int, byte: int
) -> None:
    path = source / DATA / name
    data = bytearray(path.read_bytes())
    data[starts(path)[entry] + byte] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"the log is damaged.*another member"):
        await Conversion(source).run(tmp_path / "target")
    assert not (tmp_path / "target").exists()


async def test_a_conversion_that_failed_is_begun_anew(source: Path, tmp_path: Path) -> None:
    path = source / DATA / "00000000000000131072"
    whole = path.read_bytes()
    path.write_bytes(whole[: starts(path)[-1]] + bytes(FILE_BYTES - starts(path)[-1]))
    with pytest.raises(StoreError):
        await Conversion(source).run(tmp_path / "target")
    assert (tmp_path / "target.unfinished" / "commitlog").is_dir()
    path.write_bytes(whole)
    assert (await Conversion(source).run(tmp_path / "target")).records == 350
    assert not (tmp_path / "target.unfinished").exists()


async def test_a_member_that_was_killed_ends_at_its_last_sound_entry(source: Path, tmp_path: Path) -> None:
    (source / "abort").write_text("1")
    path = source / DATA / "00000000000000131072"
    data = bytearray(path.read_bytes())
    data[starts(path)[-1] + BODY :] = bytes(len(data) - starts(path)[-1] - BODY)  # the last entry is torn
    path.write_bytes(data)
    (source / "dledger-n0" / "checkpoint").write_text("committedIndex=348\nendIndex=348\n")
    done = await Conversion(source).run(tmp_path / "target")
    assert (done.was_stopped, done.last_index, done.records) == (False, 348, 349)
    path = source / DATA / "00000000000000065536"
    data = bytearray(path.read_bytes())
    data[starts(path)[40] + BODY] ^= 0x40
    path.write_bytes(data)
    (source / "dledger-n0" / "checkpoint").unlink()
    with pytest.raises(StoreError, match="later files hold entries"):
        Conversion(source).look()


async def test_entries_behind_the_end_of_a_clean_stop_are_left_over_and_not_taken(source: Path, tmp_path: Path) -> None:
    (source / "dledger-n0" / "checkpoint").write_text("committedIndex=340\nendIndex=343\n")
    done = await Conversion(source).run(tmp_path / "target")
    assert (done.last_index, done.committed_index, done.records) == (343, 340, 344)


@pytest.mark.parametrize("cut", [None, b"", b"{", bytes(40)])
async def test_a_table_that_was_cut_off_while_it_was_saved_comes_from_its_copy(
    source: Path, tmp_path: Path, cut: bytes | None
) -> None:
    names = ("consumerOffset.json", "topics.json")
    for name in names:
        os.rename(source / "config" / name, source / "config" / f"{name}.bak")
        if cut is not None:
            (source / "config" / name).write_bytes(cut)
    before = tree(source)
    done = await Conversion(source).run(tmp_path / "target")
    assert done.older == [f"config/{name}" for name in names]
    for name in names:
        assert (tmp_path / "target" / "config" / name).read_bytes() == (STORE / "config" / name).read_bytes()
    assert tree(source) == before


async def test_a_table_that_cannot_be_read_at_all_is_an_error_before_the_log_is_read(
    source: Path, tmp_path: Path
) -> None:
    (source / "config" / "topics.json").write_bytes(b"{")
    (source / "config" / "delayOffset.json").write_bytes(b"")
    told: list[int] = []
    with pytest.raises(StoreError, match=r"neither the file nor its copy topics.json.bak"):
        await Conversion(source).run(tmp_path / "target", progress=told.append)
    assert (told, (tmp_path / "target").exists()) == ([], False)
    (source / "config" / "topics.json").write_bytes((STORE / "config" / "topics.json").read_bytes())
    done = await Conversion(source).run(tmp_path / "target")
    assert done.left == ["config/delayOffset.json: nothing is written in it"]


@pytest.mark.parametrize(
    ("wheel", "queues", "left"),
    [
        (bytes(8192), ["Golden"], []),
        (bytes(4096) + b"\x01" + bytes(4095), ["Golden"], ["timerwheel"]),
        (bytes(8192), ["Golden", "rmq_sys_wheel_timer"], ["timerwheel"]),
        (bytes(8192), [], ["timerwheel"]),
    ],
)
async def test_a_timer_wheel_is_named_unless_no_message_ever_came_into_it(
    source: Path, tmp_path: Path, wheel: bytes, queues: list[str], left: list[str]
) -> None:
    (source / "timerwheel").write_bytes(wheel)
    for topic in queues:
        (source / "consumequeue" / topic).mkdir(parents=True)
    assert (await Conversion(source).run(tmp_path / "target")).left == left


def test_the_command_says_what_it_found(source: Path, tmp_path: Path) -> None:
    looked = CliRunner().invoke(app, ["store", "convert", str(source)])
    assert looked.exit_code == 0, looked.output
    assert (
        "350 messages checked\nlast entry: term 0, index 349\noffsets of groups: 347 in all, of delayed messages: 3\n"
        in looked.stdout
    )
    target = tmp_path / "target"
    done = CliRunner().invoke(app, ["store", "convert", str(source), str(target)])
    assert done.exit_code == 0, done.output
    assert "350 messages converted\n" in done.stdout
    assert f"storePathRootDir={target}\n  mappedFileSizeCommitLog=65536\n" in done.stdout
    again = CliRunner().invoke(app, ["store", "convert", str(source), str(target)])
    assert isinstance(again.exception, UsageError)
    assert "is there already" in str(again.exception)


def test_the_command_says_what_is_given_up(source: Path, tmp_path: Path) -> None:
    (source / "abort").write_text("1")
    path = source / DATA / "00000000000000131072"
    data = bytearray(path.read_bytes())
    data[starts(path)[-4] + BODY] ^= 0x40
    path.write_bytes(data)
    refused = CliRunner().invoke(app, ["store", "convert", str(source), str(tmp_path / "target")])
    assert "--give-up-from 346" in str(refused.exception)
    done = CliRunner().invoke(app, ["store", "convert", str(source), str(tmp_path / "target"), "--give-up-from", "346"])
    assert done.exit_code == 0, done.output
    assert "346 messages converted\nlast entry: term 0, index 345\n" in done.stdout
    assert "given up: entry 346 and all behind it; of these the member noted 4 entries, 4 of them comm" in done.stdout
    later = CliRunner().invoke(app, ["store", "convert", str(source), "--give-up-from", "347"])
    assert isinstance(later.exception, StoreError)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda source: shutil.rmtree(source / "dledger-n0"), "no folders of DLedger are here"),
        (lambda source: shutil.copytree(source / "dledger-n0", source / "dledger-n1"), "2 folders of DLedger"),
        (lambda source: shutil.rmtree(source / DATA), "no entries of DLedger here"),
        (lambda source: (source / "dledger-n0" / "checkpoint").write_text("endIndex=x"), "checkpoint cannot be read"),
        (lambda source: os.remove(source / DATA / "00000000000000065536"), "a file before this one is missing"),
    ],
)
def test_a_folder_that_cannot_be_taken_over_is_said(source: Path, change: object, reason: str) -> None:
    assert callable(change)
    change(source)
    with pytest.raises(StoreError, match=reason):
        Conversion(source).look()
