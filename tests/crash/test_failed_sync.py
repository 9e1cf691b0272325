"""SYNC_FLUSH on a disk whose fdatasync fails (injected by strace into a real process): no ack without a sync."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.crash.broker_process import BrokerProcess, Ledger, Load, Reader

PWRITE = re.compile(r"^(\d+) +pwrite64\(\d+<[^>]*/commitlog/(\d{20})>.*, (\d+), (\d+)(?:\)\s+= \d+| (<unfinished).*)$")
PWRITE_END = re.compile(r"^(\d+) +<\.\.\. pwrite64 resumed>.*= \d+$")
SYNCS = "fdatasync,fsync,msync,sync_file_range"


def strace_works() -> bool:
    return (
        bool(shutil.which("strace"))
        and subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, timeout=30).returncode == 0
    )


@pytest.mark.smoke
@pytest.mark.crash
@pytest.mark.skipif(not strace_works(), reason="strace: not installed, or this machine does not let it trace")
@pytest.mark.parametrize("good_syncs", [40, 61])
async def test_nothing_is_acknowledged_that_was_not_synced(good_syncs: int, tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    broker = BrokerProcess(tmp_path / "broker", flushDiskType="SYNC_FLUSH")
    broker.prefix = ["strace", "-f", "--seccomp-bpf", "-y", "-o", str(trace), "-e", f"trace=pwrite64,{SYNCS}"]
    broker.prefix += ["-e", f"inject={SYNCS}:error=EIO:when={good_syncs}+"]
    broker.start()
    ledger = Ledger()
    try:
        await Load(broker.address, ledger).run(8, "sync")
        # The broker goes on: it answers reads, refuses writes, and says why.
        reader = Reader(broker.address, ledger)
        await reader.read_new()
        assert reader.lost() == []
        again = Ledger()
        await Load(broker.address, again).run(1, "later")
        assert again.acked == {}
    finally:
        broker.kill()
    assert list(ledger.refused) == [14], ledger.refused
    assert "sync" in ledger.refused[14].lower()
    assert ledger.acked, "some messages were acknowledged before the disk failed"
    safe = synced_up_to(trace.read_text())
    assert [i for i, physical in ledger.acked_physical.items() if physical >= safe] == []


def synced_up_to(trace: str) -> int:
    """The commit log position that the last successful sync covers: written before that sync began."""
    written = begun = safe = 0
    under_way: dict[str, int] = {}  # thread -> end of what it writes; strace tells of its end in another line
    for line in trace.splitlines():
        if found := PWRITE.search(line):
            thread, start, size, offset, unfinished = found.groups()
            end = int(start) + int(offset) + int(size)
            if unfinished:
                under_way[thread] = end
            else:
                written = max(written, end)
        elif found := PWRITE_END.search(line):
            written = max(written, under_way.pop(found[1], 0))
        elif re.search(r"f(data)?sync\(.*/commitlog/.*unfinished", line):
            begun = written
        elif re.search(r"f(data)?sync\(.*/commitlog/.*= 0$", line):
            safe = written
        elif re.search(r"f(data)?sync resumed.*= 0$", line):
            safe = begun
        elif "INJECTED" in line:
            break
    return safe
