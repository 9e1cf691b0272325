"""After which stops a log may have lost its end, and for how long that is doubted."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.broker.membership.boot import Boot

FILE, ABORT, KERNEL = Path("/s/bootId"), Path("/s/abort"), Path("/proc/sys/kernel/random/boot_id")
IDENTITY, CHECKPOINT = Path("/s/brokerIdentity"), Path("/s/checkpoint")


def started(files: MemoryFiles, boot_id: str, *, clean: bool) -> Boot:
    for path in (ABORT, KERNEL):
        files.make_dirs(path.parent)
        if files.exists(path):
            files.remove(path)
    if boot_id:
        files.write_bytes(KERNEL, f"{boot_id}\n".encode())
    if not clean:
        files.write_bytes(ABORT, b"1")
    boot = Boot(FILE, files, ABORT, identity=IDENTITY, checkpoint=CHECKPOINT)
    boot.load()
    return boot


@pytest.mark.parametrize(
    ("boot_id", "clean", "whole"),
    [("one", True, True), ("one", False, True), ("two", True, True), ("two", False, False), ("", False, False)],
)
def test_a_log_is_whole_after_a_kill_and_after_a_clean_stop(boot_id: str, clean: bool, whole: bool) -> None:
    files = MemoryFiles()
    assert started(files, "one", clean=True).log_whole
    boot = started(files, boot_id, clean=clean)
    assert (boot.boot_id, boot.log_whole) == (boot_id, whole)


def test_the_doubt_stays_until_the_controller_was_told() -> None:
    files = MemoryFiles()
    started(files, "one", clean=True)
    assert not started(files, "two", clean=False).log_whole
    boot = started(files, "two", clean=True)
    assert not boot.log_whole
    boot.told()
    assert started(files, "two", clean=False).log_whole


def test_without_the_kernels_name_each_unclean_stop_is_doubted() -> None:
    files = MemoryFiles()
    started(files, "", clean=True)
    assert not started(files, "", clean=False).log_whole


def test_a_broker_with_an_id_and_without_a_store_has_been_emptied() -> None:
    files = MemoryFiles()
    assert started(files, "one", clean=True).log_whole
    files.write_bytes(IDENTITY, b"c#b#1")
    assert not started(files, "one", clean=True).log_whole
    files.write_bytes(CHECKPOINT, b"")
    assert not started(files, "one", clean=True).log_whole
    boot = started(files, "one", clean=True)
    boot.told()
    assert started(files, "one", clean=True).log_whole
