"""The register in a file: one controller, every acknowledged swap survives, a disk that fails is not believed."""

from __future__ import annotations

import asyncio
import errno
import random
from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import LinkError, StoreError
from rocketlake.base.worker import HandWorker, InlineWorker
from rocketlake.controller.registers.file import FileRegister
from rocketlake.controller.registers.register import ABSENT, Conflict, OutcomeUnknown, Swapped

PATH = Path("/controller/register.json")


def register_on(files: Files, path: Path = PATH) -> FileRegister:
    return FileRegister(path, files=files, worker=InlineWorker())


async def test_it_keeps_values_and_revisions(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "register.json"
    async with FileRegister(path) as register:
        seen: list[set[str]] = []
        register.watch("g/", lambda keys: seen.append(set(keys)))
        assert await register.swap("g/a", ABSENT, b'{"v":1}', {"h/1": "grün".encode(), "h/0": None}) == Swapped(1)
        assert await register.swap("g/a", ABSENT, b"2") == Conflict(b'{"v":1}', 1)
        assert await register.swap("g/b", 1, b"2") == Conflict(None, ABSENT)
        assert await register.swap("g/a", 1, b"2", {"h/1": None, "h/2": b""}) == Swapped(2)
        assert seen == [{"g/a"}, {"g/a"}]
    async with FileRegister(path) as register:
        assert await register.read("") == {"g/a": (b"2", 2), "h/2": (b"", 2)}
        assert await register.read("g/") == {"g/a": (b"2", 2)}
        assert await register.swap("g/b", ABSENT, b"3") == Swapped(3)


async def test_a_second_controller_is_refused(tmp_path: Path) -> None:
    for files, path in ((PosixFiles(), tmp_path / "r"), (MemoryFiles(), PATH)):
        async with register_on(files, path):
            with pytest.raises(StoreError, match=r"only one.*etcd"):
                await register_on(files, path).start()
        async with register_on(files, path) as register:
            assert await register.read("") == {}


@pytest.mark.parametrize("text", [b"", b"{", b'{"v":1,"more":1}', b'{"v":1,"values":{"a":1}}', b'{"v":2}', b"\xff"])
async def test_a_broken_or_newer_file_is_refused(text: bytes) -> None:
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    files.write_bytes(PATH, text)
    with pytest.raises(StoreError, match="cannot be read"):
        await register_on(files).start()
    assert files.read_bytes(PATH) == text


@pytest.mark.parametrize("call", ["write_bytes", "rename", "sync_dir"])
async def test_after_a_failed_write_the_disk_says_what_is_true(call: str) -> None:
    plan = FaultPlan()
    disk = MemoryFiles()
    async with register_on(FaultyFiles(disk, plan)) as register:
        await register.swap("a", ABSENT, b"old")
        plan.add(Fault(call, times=1, error=errno.ENOSPC, keep_bytes=7))
        with pytest.raises(OutcomeUnknown, match="disk"):
            await register.swap("a", 1, b"new")
        plan.clear()
        plan.add(Fault("pread", times=1))
        with pytest.raises(LinkError, match="mend the disk"):
            await register.read("a")
        value, revision = (await register.read("a"))["a"]
        assert (value, revision) == ((b"new", 2) if call == "sync_dir" else (b"old", 1))
        assert await register.swap("a", revision, b"next") == Swapped(revision + 1)
    async with register_on(disk.power_cut()) as register:
        assert (await register.read("a"))["a"] == (b"next", revision + 1)


async def test_a_caller_that_gives_up_does_not_part_the_register_from_its_file() -> None:
    disk, hand = MemoryFiles(), HandWorker()
    register = FileRegister(PATH, files=disk, worker=hand)
    starting = asyncio.ensure_future(register.start())
    for _ in range(2):
        await asyncio.sleep(0)
        hand.run_all()
    await starting
    swap = asyncio.ensure_future(register.swap("a", ABSENT, b"1"))
    for _ in range(5):
        await asyncio.sleep(0)
    swap.cancel()
    await asyncio.gather(swap, return_exceptions=True)
    hand.run_all()
    assert await register.read("a") == {"a": (b"1", 1)}
    await register.stop()


@pytest.mark.parametrize("seed", range(20))
async def test_each_power_cut_leaves_the_state_before_or_after(seed: int) -> None:
    """At each call of the disk in a swap the power is cut; a value that was acknowledged is there, no other is."""
    generator = random.Random(seed)
    plan = FaultPlan()
    disk = MemoryFiles()
    async with register_on(FaultyFiles(disk, plan)) as register:
        await register.swap("a", ABSENT, b"1")
        begun = len(plan.calls)
        await register.swap("a", 1, b"2")
        calls = plan.calls[begun:]
        stop = generator.randrange(len(calls) + 1)
        for call, _path in calls[stop:]:
            plan.add(Fault(call))
        outcome = await asyncio.gather(register.swap("a", 2, b"3"), return_exceptions=True)
    async with register_on(disk.power_cut(generator)) as register:
        value, revision = (await register.read("a"))["a"]
    assert (value, revision) in ([(b"3", 3)] if outcome == [Swapped(3)] else [(b"2", 2), (b"3", 3)])
