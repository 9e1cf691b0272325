"""Queues and index built from Apache's own commit log are Apache's own files, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.store.consume_queue.entry import valid_count
from rocketlake.store.consume_queue.table import ConsumeQueueTable
from rocketlake.store.deletions import Deletions
from rocketlake.store.dispatch import Dispatch
from rocketlake.store.key_index.files import KeyIndex, index_names
from rocketlake.store.mapped_file_list import MappedFileList
from rocketlake.store.offset_files import queue_folders
from rocketlake.store.paths import StorePaths

STORE = StorePaths(Path(__file__).parent / "stores" / "apache-5.3.3-clean")
SETTINGS = {key: value for key, value in json.loads((STORE.root / "about.json").read_text())["settings"].items()}
LEVELS = DelayLevels()
DELAYS_MS = [LEVELS.delay_ms(level) for level in range(1, LEVELS.highest + 1)]
ROOT = Path("/rebuilt")


@pytest.fixture
def disk() -> MemoryFiles:
    """A disk in memory that holds only the recorded commit log."""
    disk = MemoryFiles()
    disk.make_dirs(ROOT / "commitlog")
    for path in sorted(STORE.commit_log.iterdir()):
        disk.write_bytes(ROOT / "commitlog" / path.name, path.read_bytes())
    return disk


@pytest.fixture
def rebuilt(disk: MemoryFiles) -> MemoryFiles:
    """The same with queues and index dispatched from it."""
    log = MappedFileList(ROOT / "commitlog", int(SETTINGS["mappedFileSizeCommitLog"]), disk)
    log.load()
    table = ConsumeQueueTable(
        ROOT / "consumequeue", disk, file_size=int(SETTINGS["mappedFileSizeConsumeQueue"]), open_files_max=3
    )
    slots, entries = int(SETTINGS["maxHashSlotNum"]), int(SETTINGS["maxIndexNum"])
    index = KeyIndex(ROOT / "index", disk, ManualClock(), slots=slots, entries_max=entries)
    dispatch = Dispatch(log, table, index, Deletions(disk, ROOT / "deletedTopics.json"), DELAYS_MS)
    dispatch.run_all(log.max_offset)
    table.flush()
    index.flush()
    return disk


def test_every_queue_file_is_the_same(rebuilt: MemoryFiles) -> None:
    recorded = list(queue_folders(STORE.consume_queue, PosixFiles()))
    assert [row[:2] for row in queue_folders(ROOT / "consumequeue", rebuilt)] == [row[:2] for row in recorded]
    entries = 0
    for topic, queue_id, folder in recorded:
        ours = ROOT / "consumequeue" / topic / str(queue_id)
        assert rebuilt.list_dir(ours) == sorted(path.name for path in folder.iterdir())
        for path in sorted(folder.iterdir()):
            assert rebuilt.read_bytes(ours / path.name) == path.read_bytes(), path
            entries += valid_count(path.read_bytes())
    assert entries > 700


def test_every_index_file_is_the_same(rebuilt: MemoryFiles) -> None:
    ours = index_names(ROOT / "index", rebuilt)
    theirs = index_names(STORE.index, PosixFiles())
    assert len(ours) == len(theirs) == 4
    for our_name, their_name in zip(ours, theirs, strict=True):
        assert rebuilt.read_bytes(ROOT / "index" / our_name) == (STORE.index / their_name).read_bytes()
