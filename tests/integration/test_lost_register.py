"""A group whose register is lost for good gets a new one by `rocketlake replicas rebuild`, and loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.broker.replicas.furthest_log import LogPosition, position_from_text
from rocketlake.broker.replicas.rebuild import Rebuild
from rocketlake.cli.tree import app
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.controller import ElectMasterHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.replica_group import NAMESRV, STORE_ROOT, ReplicaGroup

OK = ResponseCode.SUCCESS
TIED = ("brokerIdentity", "brokerIdentity-temp", "memberLives")


@pytest.fixture
async def group() -> AsyncIterator[ReplicaGroup]:
    group = ReplicaGroup()
    await group.start()
    yield group
    await group.stop()


def stopped(group: ReplicaGroup, host: str) -> MemoryFiles:
    """The disk of a broker that has crashed."""
    group.files[host] = group.files[host].killed()
    return group.files[host]


def position(files: MemoryFiles) -> LogPosition:
    with closing(Rebuild(STORE_ROOT, TIED, files=files)) as work:
        return work.position


def rebuild(files: MemoryFiles, furthest: LogPosition) -> None:
    with closing(Rebuild(STORE_ROOT, TIED, files=files)) as work:
        work.run(furthest)


async def lose_register(group: ReplicaGroup) -> None:
    await group.restart_namesrv(MemoryFiles(clock=group.clock))


async def split(group: ReplicaGroup) -> tuple[str, str, str]:
    """Three logs: the master's with "a", "b", "c" and a send that nobody has taken, one that lacks it, one with "a"."""
    master = group.master
    short, middle = [host for host in group.hosts if host != master]
    assert await group.send(b"a") == OK
    group.crash(short)
    await group.until(lambda: len(group.in_step) == 2)
    assert (await group.send(b"b"), await group.send(b"c")) == (OK, OK)
    group.net.partition(master, middle)
    assert await group.send(b"only here", master) != OK
    group.crash(master)
    group.crash(middle)
    group.net.heal()
    return master, middle, short


async def test_a_shorter_log_that_is_started_first_waits_for_the_furthest(group: ReplicaGroup) -> None:
    master, middle, short = await split(group)
    ends = {host: position(stopped(group, host)) for host in group.hosts}
    furthest = max(ends.values())
    assert (ends[master], ends[short] < ends[middle] < furthest) == (furthest, True)
    await lose_register(group)
    for host in group.hosts:
        rebuild(group.files[host], furthest)
    for host in (short, middle):
        await group.begin_again(host)
    await group.clock.run_for(10_000)
    assert group.masters == []
    trouble = group.brokers[short].health.troubles["first master"].reason
    assert str(furthest) in trouble and str(ends[short]) in trouble
    await group.begin_again(master)
    await group.until(lambda: group.masters == [master] and group.in_step == {1, 2, 3}, 20_000)
    assert await group.send(b"d") == OK
    await group.clock.run_for(1000)
    assert [group.bodies(host) for host in group.hosts] == [[b"a", b"b", b"c", b"only here", b"d"]] * 3
    await group.until(lambda: not any(broker.health.troubles for broker in group.brokers.values()))
    assert not any(files.exists(STORE_ROOT / "furthestLog") for files in group.files.values())
    group.crash(master)  # the group is as any other: another one follows it
    assert await group.send_until_taken(b"e") < 3000


async def test_a_broker_that_knows_of_a_newer_epoch_without_a_message_is_no_stranger(group: ReplicaGroup) -> None:
    """The furthest log never heard of the newest epoch: its broker was down when nothing was sent."""
    first = group.master
    assert await group.send(b"a") == OK
    await group.until(lambda: all(group.bodies(host) == [b"a"] for host in group.hosts))
    group.crash(first)
    await group.until(lambda: len(group.masters) == 1 and group.master != first and len(group.in_step) == 2)
    second = group.master
    group.crash(second)
    await group.until(lambda: group.masters not in ([], [second]))
    third = group.master
    assert group.epoch(third) > 2
    await group.clock.run_for(500)
    group.crash(third)
    ends = {host: position(stopped(group, host)) for host in group.hosts}
    assert set(ends.values()) == {LogPosition(1, ends[first].end)}
    await lose_register(group)
    for host in group.hosts:
        rebuild(group.files[host], ends[first])
    await group.begin_again(first)
    await group.until(lambda: group.masters == [first])
    for host in group.hosts:
        if host != first:
            await group.begin_again(host)
    await group.until(lambda: group.in_step == {1, 2, 3}, 20_000)


async def test_a_broker_that_was_not_rebuilt_is_told_the_command(group: ReplicaGroup) -> None:
    host = group.master
    for each in group.hosts:
        group.crash(each)
    await lose_register(group)
    await group.begin_again(host)
    health = group.brokers[host].health
    await group.until(lambda: "identity" in health.troubles)
    assert "no broker 1 was ever a member of this group here" in health.troubles["identity"].reason
    assert "`rocketlake replicas rebuild`" in health.troubles["identity"].reason


async def test_a_store_whose_log_goes_further_is_not_rebuilt(group: ReplicaGroup) -> None:
    assert await group.send(b"a") == OK
    for host in group.hosts:
        group.crash(host)
    files = stopped(group, group.hosts[0])
    own = position(files)
    with pytest.raises(UsageError, match=f"goes to {own}, further than"):
        rebuild(files, LogPosition(own.epoch, own.end - 1))
    assert files.exists(STORE_ROOT / "brokerIdentity")
    assert own < LogPosition(own.epoch + 1, 0)
    rebuild(files, own)
    rebuild(files, own)  # again, as after a crash
    kept = [name for name in files.list_dir(STORE_ROOT) if ".old" in name]
    assert kept == ["brokerIdentity.old", "memberLives.old"]


async def test_an_operator_may_take_a_log_that_does_not_go_furthest(group: ReplicaGroup) -> None:
    """The furthest one turns out to be lost, too: the brokers that wait say how it goes on."""
    for host in group.hosts:
        group.crash(host)
    own = position(stopped(group, group.hosts[0]))
    await lose_register(group)
    rebuild(group.files[group.hosts[0]], LogPosition(own.epoch + 1, own.end))
    await group.begin_again(group.hosts[0])
    await group.clock.run_for(3000)
    assert group.masters == []
    assert "replicas elect b --to ID" in group.brokers[group.hosts[0]].health.troubles["first master"].reason
    header = ElectMasterHeader(cluster_name="C", broker_name="b", broker_id=1, designate_elect=True)
    command = Command.request(RequestCode.CONTROLLER_ELECT_MASTER, header)  # as `replicas elect b --to 1` sends it
    async with NetClient(clock=group.clock, network=group.net.host("127.0.0.1")) as operator:
        asked = asyncio.ensure_future(operator.invoke(f"{NAMESRV}:9876", command, 3000))
        await group.run_through(asked)
    assert asked.result().code == OK
    await group.until(lambda: group.masters == [group.hosts[0]])


def test_a_position_is_written_as_it_is_printed() -> None:
    assert position_from_text(str(LogPosition(7, 123456))) == LogPosition(7, 123456)
    assert position_from_text("-1:0") == LogPosition(-1, 0)
    for text in ("", "7", "7:", "7:-1", "7:1:2", "seven:1"):
        with pytest.raises(UsageError, match="is no position of a log"):
            position_from_text(text)


# -- the command -------------------------------------------------------------------------------------------------------


def on_disk(files: MemoryFiles, folder: Path, target: Path) -> None:
    """The files of a memory disk below `folder` as real ones."""
    target.mkdir(parents=True, exist_ok=True)
    for name in files.list_dir(folder):
        if files.is_dir(folder / name):
            on_disk(files, folder / name, target / name)
        else:
            (target / name).write_bytes(files.read_bytes(folder / name))


def typed(*words: str, given: str | None = None) -> Result:
    result = CliRunner().invoke(app, ("replicas", "rebuild", *words), input=given, env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


async def test_the_command_says_how_far_a_log_goes_and_asks_before_it_puts_files_aside(
    group: ReplicaGroup, tmp_path: Path
) -> None:
    master, *_ = await split(group)
    own = position(stopped(group, master))
    on_disk(group.files[master], STORE_ROOT, tmp_path)
    store = str(tmp_path)
    assert f"goes to {own} (epoch, end in bytes)" in typed(store, "--dry-run").stdout
    with pytest.raises(UsageError, match="how far does the furthest log of this group go"):
        typed(store, "--yes")
    log = tmp_path / "commitlog" / f"{0:020d}"
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b"only here", b"only hers"))  # the last record
    damaged = typed(store, "--dry-run")
    assert "bytes that are no sound record lie behind it" in damaged.output
    assert str(own) not in damaged.stdout
    log.write_bytes(whole)
    further = f"{own.epoch}:{own.end + 5}"
    looked = typed(store, "--furthest", further, "--dry-run").stdout
    assert "brokerIdentity -> brokerIdentity.old" in looked
    assert "start the broker with the furthest log first" in looked
    assert typed(store, "--furthest", further, given="n\n").exit_code == 9
    assert not (tmp_path / "furthestLog").exists()
    assert (tmp_path / "brokerIdentity").exists()
    done = typed(store, "--furthest", str(own), given="y\n").stdout
    assert "start this broker first, it becomes the master" in done
    assert (tmp_path / "brokerIdentity.old").read_text() == "C#b#1"
    assert not (tmp_path / "brokerIdentity").exists()
    assert (tmp_path / "furthestLog").read_text() == str(own)


def test_a_store_in_use_and_a_store_of_no_group_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no broker under a controller has used this store"):
        typed(str(tmp_path), "--dry-run")
    (tmp_path / "brokerIdentity").write_text("C#b#1")
    with closing(PosixFiles().lock(tmp_path / "lock")), pytest.raises(StoreError, match="in use by another process"):
        typed(str(tmp_path), "--dry-run")
