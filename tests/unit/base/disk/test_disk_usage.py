"""How full a disk is, as `df` says it: what is kept for root counts neither as used nor as free."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rocketlake.base.disk.posix import PosixFiles

MIB = 1 << 20


def df(path: Path) -> tuple[int, int]:
    """(used, available) bytes."""
    out = subprocess.run(["df", "-B1", "--output=used,avail", path], check=True, capture_output=True, text=True)
    used, free = out.stdout.splitlines()[-1].split()
    return int(used), int(free)


def test_the_level_of_this_disk_is_that_of_df(tmp_path: Path) -> None:
    total, free = PosixFiles().disk_usage(tmp_path)
    used, available = df(tmp_path)
    assert abs(free - available) < 512 * MIB  # others write meanwhile
    assert abs((total - free) - used) < 512 * MIB
    assert (total - free) / total == pytest.approx(used / (used + available), abs=0.02)


@pytest.fixture
def reserved_disk(tmp_path: Path):
    """A file system of its own, of which half is kept for root."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("only root can mount a disk of its own")
    image, folder = tmp_path / "disk.img", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(32 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "50", image], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no loop mounts here: {mounted.stderr}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_blocks_reserved_for_root_are_not_used(reserved_disk: Path) -> None:
    (reserved_disk / "a").write_bytes(b"x" * 4 * MIB)
    subprocess.run(["sync", "-f", reserved_disk], check=True)
    total, free = PosixFiles().disk_usage(reserved_disk)
    used, available = df(reserved_disk)
    assert (total - free, free) == (used, available)
    assert (total - free) / total < 0.5  # 1 - available / size would say 60 % and more
    assert 1 - available / shutil.disk_usage(reserved_disk).total > 0.6
