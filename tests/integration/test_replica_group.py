"""Groups of brokers under our controller: they find their roles, change their master, lose nothing acknowledged."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError
from rocketlake.broker.membership.standing import State
from rocketlake.broker.producer_sequences import table
from rocketlake.codec.record_batch import encode_batch
from rocketlake.controller.group import from_json
from rocketlake.controller.registers.register import OutcomeUnknown, Swap
from rocketlake.controller.serving import requests
from rocketlake.model.message import Message
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.replicas import GroupsView
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.controller import CleanBrokerDataHeader
from rocketlake.protocol.headers.query import ViewMessageHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.replica_group import BOOT_ID, NAMESRV, STORE, STORE_ROOT, ReplicaGroup
from tests.requests import send_header

OK = ResponseCode.SUCCESS


@pytest.fixture
async def group() -> AsyncIterator[ReplicaGroup]:
    group = ReplicaGroup()
    await group.start()
    yield group
    await group.stop()


async def test_three_brokers_agree_on_a_master_and_all_have_what_was_acknowledged(group: ReplicaGroup) -> None:
    assert [await group.send(b"%d" % number) for number in range(5)] == [OK] * 5
    await group.clock.run_for(1000)
    assert [group.bodies(host) for host in group.hosts] == [[b"0", b"1", b"2", b"3", b"4"]] * 3


async def others(group: ReplicaGroup) -> list[str]:
    return [host for host in group.hosts if host != group.master]


async def test_a_killed_master_is_replaced_and_comes_back_as_a_slave(group: ReplicaGroup) -> None:
    old = group.master
    for number in range(5):
        assert await group.send(b"%d" % number) == OK
    group.crash(old)
    assert await group.send_until_taken(b"next") < 1000
    assert group.master != old
    await group.begin_again(old)
    await group.until(lambda: group.in_step == {1, 2, 3})
    await group.send(b"last")
    await group.clock.run_for(1000)
    assert group.master != old
    bodies = [b"0", b"1", b"2", b"3", b"4", b"next", b"last"]
    assert [group.bodies(host) for host in group.hosts] == [bodies] * 3


async def test_a_master_that_vanishes_is_replaced_when_it_was_silent(group: ReplicaGroup) -> None:
    old = group.master
    assert await group.send(b"0") == OK
    group.crash(old, silent=True)
    assert await group.send_until_taken(b"next") < 3000
    assert group.bodies(group.master) == [b"0", b"next"]


async def test_a_master_that_its_slaves_hear_and_that_does_not_hear_them_is_replaced(group: ReplicaGroup) -> None:
    old = group.master
    assert await group.send(b"0") == OK
    for slave in await others(group):
        group.net.cut_way(slave, old)
    assert await group.send_until_taken(b"next", 20_000) < 5000
    assert set(group.bodies(group.master)) == {b"0", b"next"}  # the send may have reached the old master's slaves
    group.net.heal()
    await group.until(lambda: group.in_step == {1, 2, 3} and len(group.masters) == 1)


async def test_a_master_whose_disk_is_full_gives_way(group: ReplicaGroup) -> None:
    old = group.master
    assert await group.send(b"0") == OK
    disk = group.files[old]
    disk.capacity = disk.used
    while await group.send(bytes(3000), old) == OK:
        pass  # the files that are there take some
    assert await group.send_until_taken(b"next") < 3000
    assert group.master != old
    disk.capacity = 1 << 40
    await group.until(lambda: group.in_step == {1, 2, 3}, 30_000)


async def test_a_replica_that_is_chosen_and_whose_disk_is_full_leaves_the_place_to_another_one(
    group: ReplicaGroup,
) -> None:
    """Its open log file takes records still, so it is in step."""
    old = group.master
    full, well = await others(group)
    assert await group.send(b"0") == OK
    disk = group.files[full]
    disk.capacity = disk.used
    assert (await group.send(b"1"), group.in_step) == (OK, {1, 2, 3})
    group.crash(old)
    await group.until(lambda: group.masters == [well], 5000)
    await group.begin_again(old)
    await group.send_until_taken(b"2")
    assert group.bodies(group.master) == [b"0", b"1", b"2"]
    disk.capacity = 1 << 40
    await group.until(lambda: group.in_step == {1, 2, 3}, 30_000)


async def test_a_replica_whose_unread_end_is_damaged_is_well_again_behind_the_next_master(group: ReplicaGroup) -> None:
    """It is chosen for the end that the others lack, and finds that it cannot be trusted."""
    old = group.master
    assert await group.send(b"0") == OK
    damaged, other = await others(group)
    group.net.cut_way(old, other)
    asked = asyncio.ensure_future(group.send(b"only here", old))
    log = STORE_ROOT / "commitlog" / "00000000000000000000"
    await group.until(lambda: b"only here" in group.files[damaged].read_bytes(log))
    group.crash(old)
    file = group.files[damaged].open(log, size=STORE.commit_log_file_bytes)
    file.pwrite(b"X", group.files[damaged].read_bytes(log).index(b"only here"))
    file.close()
    await group.until(lambda: group.masters == [other], 10_000)
    await group.send_until_taken(b"1")
    health, membership = group.brokers[damaged].health, group.brokers[damaged].membership
    await group.until(lambda: not health.troubles)
    assert membership is not None
    membership.member.register_again()
    await group.clock.run_for(1000)
    assert (len(group.in_step), group.bodies(damaged)) == (2, [b"0", b"1"])
    await asked


async def test_a_slave_that_is_gone_leaves_the_set_and_sends_go_on(group: ReplicaGroup) -> None:
    gone = (await others(group))[0]
    group.crash(gone)
    assert await group.send(b"0") == OK
    assert len(group.in_step) == 2
    await group.begin_again(gone)
    await group.until(lambda: group.in_step == {1, 2, 3})
    await group.clock.run_for(500)
    assert group.bodies(gone) == [b"0"]


async def test_a_master_alone_acknowledges_nothing_until_a_replica_is_back(group: ReplicaGroup) -> None:
    gone = await others(group)
    for host in gone:
        group.crash(host)
    codes = [await group.send(b"%d" % number) for number in range(2)]
    assert OK not in codes
    await group.clock.run_for(3000)
    assert await group.send(b"refused") == ResponseCode.SYSTEM_BUSY
    assert group.bodies(group.master) == []
    await group.begin_again(gone[0])
    assert await group.send_until_taken(b"taken") < 3000
    assert b"taken" in group.bodies(group.master)


async def test_a_broker_that_is_refused_for_long_is_red(group: ReplicaGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MEMBERS_MAX", 3)
    host = "10.0.0.14"
    group.files[host] = MemoryFiles(clock=group.clock)
    group.boot(group.files[host])
    fourth = group.brokers[host] = group.new_broker(host)
    await fourth.start()
    await group.until(lambda: "3 members already" in str(fourth.health.troubles.get("controller")), 15_000)
    monkeypatch.undo()
    await group.until(lambda: fourth.health.is_green and len(group.in_step) == 4)


async def test_a_master_that_stops_hands_over(group: ReplicaGroup) -> None:
    old = group.master
    assert await group.send(b"0") == OK
    stop = asyncio.ensure_future(group.brokers[old].stop())
    while old in group.masters or not group.masters:
        await group.clock.run_for(2)
    assert await group.send(b"1") == OK
    await group.run_through(stop)
    assert group.bodies(group.master) == [b"0", b"1"]


async def view(group: ReplicaGroup, host: str, place: int) -> int:
    """The code of the answer to a reader who asks for the message at this place of the log."""
    command = Command.request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=place))
    asked = asyncio.ensure_future(group.client.invoke(f"{host}:10911", command, 1000))
    while not asked.done():
        await group.clock.run_for(5)
    return asked.result().code


async def test_a_master_cut_off_acknowledges_nothing_and_loses_only_that(group: ReplicaGroup) -> None:
    old = group.master
    assert await group.send(b"0") == OK
    for host in [*await others(group), "10.0.0.1"]:
        group.net.partition(old, host)
    place = group.brokers[old].store.max_physical_offset
    lost = await group.send(b"lost", old)
    assert group.brokers[old].store.max_physical_offset > place
    assert await view(group, old, place) != OK  # a consumer must not see what is lost
    await group.until(lambda: [host for host in group.masters if host != old])
    (new,) = [host for host in group.masters if host != old]
    assert (lost, await group.send(b"1", new)) != (OK, OK)
    assert await group.send(b"lost, too", old) != OK
    group.net.heal()
    await group.until(lambda: group.masters == [new] and group.in_step == {1, 2, 3})
    await group.clock.run_for(1000)
    assert group.bodies(old) == group.bodies(new)
    assert b"lost" not in group.bodies(new)
    assert await view(group, new, place) == OK


async def test_a_joiner_counts_while_nobody_knows_whether_it_was_recorded(
    group: ReplicaGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The register does not answer the swap that adds it, and makes it later: the joiner may be elected then."""
    gone = (await others(group))[0]
    group.crash(gone)
    await group.until(lambda: len(group.in_step) == 2)
    controlling = group.namesrv._controlling
    assert controlling is not None
    register = controlling.controller.decider._register
    late: list[object] = []

    swap = register.swap

    async def unanswered(key: str, revision: int, value: bytes, *more: Any) -> Swap:
        if len(from_json(value).in_sync) < 3:
            return await swap(key, revision, value, *more)
        late.append(value)
        raise OutcomeUnknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(register, "swap", unanswered)
        await group.begin_again(gone)
        await group.until(lambda: len(late) > 1)
        membership = group.brokers[group.master].membership
        assert membership is not None and membership.in_step.replicas is not None
        assert membership.in_step.replicas.members == {1, 2, 3}
    await group.until(lambda: group.in_step == {1, 2, 3})


async def test_a_batch_that_its_master_ends_after_another_one_was_chosen_is_not_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is put in turns of the loop, and the change of the master comes between two of them."""
    monkeypatch.setattr("tests.replica_group.STORE", replace(STORE, commit_log_file_bytes=1 << 20))
    group = ReplicaGroup()
    await group.start()
    old = group.master
    turns: list[Callable[[float], object]] = []
    group.brokers[old].sending._large._turns = SimpleNamespace(wait=turns.append)  # type: ignore[assignment]
    body = encode_batch([Message("T", b"x", properties={"own": str(number)}) for number in range(5000)])
    command = Command.request(RequestCode.SEND_BATCH_MESSAGE, send_header(topic="T", properties="", batch=True), body)
    asked = asyncio.ensure_future(group.client.invoke(f"{old}:10911", command, 30_000))
    await group.until(lambda: bool(turns))
    turns.pop()(-math.inf)
    assert turns and not asked.done()
    membership = group.brokers[old].membership
    assert membership is not None
    other = 2 if membership.member.standing.broker_id != 2 else 3
    await group.run_through(asyncio.ensure_future(membership._calls.elect(other, designated=True)))
    await group.until(lambda: group.masters and old not in group.masters and asked.done())
    assert asked.result().code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await group.until(lambda: group.in_step == {1, 2, 3})
    assert [group.bodies(host) for host in group.hosts] == [[]] * 3
    await group.stop()


async def test_a_name_server_believes_the_new_master_while_the_old_one_hangs(group: ReplicaGroup) -> None:
    """The old one's link is still open, and the new one has another host."""
    old = group.master
    group.crash(old, silent=True)
    await group.until(lambda: group.masters and old not in group.masters)

    def told() -> str | None:
        known = group.namesrv.routes.broker_group("C", "b")
        return None if known is None else known.addresses.get(0)

    await group.until(lambda: told() == f"{group.master}:10911", 2000)


async def test_a_machine_without_power_loses_its_newest_messages_and_the_group_does_not(group: ReplicaGroup) -> None:
    """All machines go down; nothing was synced on one of them, which was the master and is the first that is back."""
    old = group.master
    for number in range(5):
        assert await group.send(b"%d" % number) == OK
    for host in group.hosts:
        group.crash(host, silent=True)
    await group.clock.run_for(2500)
    group.net.vanished.clear()
    await group.begin_again(old, power_cut=True)
    await group.clock.run_for(5000)
    assert (group.state(old), group.bodies(old)) == (State.FENCED, [])
    for host in group.hosts:
        if host != old:
            await group.begin_again(host)
    await group.until(lambda: group.in_step == {1, 2, 3}, 20_000)
    await group.clock.run_for(1000)
    assert group.master != old
    assert [group.bodies(host) for host in group.hosts] == [[b"0", b"1", b"2", b"3", b"4"]] * 3


@pytest.mark.parametrize("lost", [b"3", b"5"])
async def test_a_master_whose_disk_lost_a_message_is_replaced_and_gets_it_back(
    group: ReplicaGroup, lost: bytes
) -> None:
    """All brokers are killed, the log of the master is damaged in its middle or at its end, and it starts first."""
    old = group.master
    bodies = [b"body-%d" % number for number in range(6)]
    assert [await group.send(body) for body in bodies] == [OK] * 6
    await group.clock.run_for(3000)
    for host in group.hosts:
        group.crash(host)
    log = STORE_ROOT / "commitlog" / "00000000000000000000"
    data = group.files[old].read_bytes(log)
    file = group.files[old].open(log, size=len(data))
    file.pwrite(b"X", data.index(b"body-" + lost))
    file.sync()
    file.close()
    await group.begin_again(old)
    await group.clock.run_for(3000)
    assert group.masters == []
    for host in group.hosts:
        if host != old:
            await group.begin_again(host)
    await group.until(lambda: group.in_step == {1, 2, 3}, 20_000)
    await group.clock.run_for(1000)
    assert group.master != old
    assert [group.bodies(host) for host in group.hosts] == [bodies] * 3
    logs = [group.files[host].read_bytes(log) for host in group.hosts]
    assert logs[0] == logs[1] == logs[2] == data


async def test_a_replica_whose_log_somebody_has_removed_is_not_elected(group: ReplicaGroup) -> None:
    old = group.master
    emptied = next(host for host in group.hosts if host != old)
    assert await group.send(b"kept") == OK
    for host in group.hosts:
        group.crash(host)
    fresh = MemoryFiles(clock=group.clock)
    for path in (BOOT_ID, STORE_ROOT / "bootId", STORE_ROOT / "brokerIdentity"):
        fresh.make_dirs(path.parent)
        fresh.write_bytes(path, group.files[emptied].read_bytes(path))
    group.files[emptied] = fresh
    await group.begin_again(emptied)
    await group.clock.run_for(3000)
    assert group.masters == []
    for host in group.hosts:
        if host != emptied:
            await group.begin_again(host)
    await group.until(lambda: group.in_step == {1, 2, 3}, 20_000)
    await group.clock.run_for(1000)
    assert [group.bodies(host) for host in group.hosts] == [[b"kept"]] * 3


async def test_a_slave_knows_up_to_where_the_log_has_no_mark_and_reads_only_the_rest_as_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "_SAVE_EVERY_BYTES", 4000)
    group = ReplicaGroup()
    await group.start()
    for _ in range(10):
        assert await group.send(bytes(1000)) == OK
    slave = (await others(group))[0]
    await group.until(lambda: (group.brokers[slave].sending.sequences.log_offset or 0) > 4000, 20_000)
    await group.stop()


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_whole_group_that_is_started_again_goes_on(group: ReplicaGroup, is_first: bool) -> None:
    """Nobody has to join or leave when its master is the first that is back."""
    old = group.master
    assert await group.send(b"0") == OK
    for host in group.hosts:
        group.crash(host)
    others = [host for host in group.hosts if host != old]
    for host in [old, *others] if is_first else [*others, old]:
        await group.begin_again(host)
    await group.until(lambda: len(group.masters) == 1)
    assert await group.send_until_taken(b"1") < 3000
    await group.until(lambda: group.in_step == {1, 2, 3})
    await group.clock.run_for(500)
    assert [group.bodies(host) for host in group.hosts] == [[b"0", b"1"]] * 3


async def test_a_joiner_that_dies_while_nobody_knows_whether_it_joined_stops_nobody(
    group: ReplicaGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = (await others(group))[0]
    group.crash(gone)
    await group.until(lambda: len(group.in_step) == 2)
    controlling = group.namesrv._controlling
    assert controlling is not None
    register = controlling.controller.decider._register
    asked: list[object] = []
    swap = register.swap

    async def unanswered(key: str, revision: int, value: bytes, *more: Any) -> Swap:
        if len(from_json(value).in_sync) < 3:
            return await swap(key, revision, value, *more)
        asked.append(value)
        raise OutcomeUnknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(register, "swap", unanswered)
        await group.begin_again(gone)
        await group.until(lambda: bool(asked))
        group.crash(gone)
        await group.clock.run_for(50)
    assert await group.send_until_taken(b"0") < 3000
    assert len(group.in_step) == 2


async def test_a_follower_that_the_controller_does_not_hear_stops_no_other_one(group: ReplicaGroup) -> None:
    controlling = group.namesrv._controlling
    assert controlling is not None
    liveness = controlling.controller.liveness
    old = group.master
    deaf = (await others(group))[-1]
    membership = group.brokers[deaf].membership
    assert membership is not None
    deaf_id, hear = membership.member.standing.broker_id, liveness.hear
    liveness.hear = lambda key, *beat: None if key.broker_id == deaf_id else hear(key, *beat)  # type: ignore[method-assign]
    await group.clock.run_for(2000)
    group.crash(old)
    await group.until(lambda: old not in group.masters and len(group.masters) == 1)
    await group.begin_again(old)
    assert await group.send_until_taken(b"0") < 5000
    assert group.in_step == {1, 2, 3} - {deaf_id}


async def test_a_master_that_stays_without_enough_replicas_is_red(group: ReplicaGroup) -> None:
    master, gone = group.master, await others(group)
    health = group.brokers[master].health
    for host in gone:
        group.crash(host)
    await group.clock.run_for(9_000)
    assert "in step" not in health.troubles
    await group.clock.run_for(4_000)
    assert "1 of 2 replicas" in health.troubles["in step"].reason
    await group.begin_again(gone[0])
    await group.until(lambda: "in step" not in health.troubles)


async def test_a_register_from_an_older_backup_gives_no_epoch_twice(group: ReplicaGroup) -> None:
    """The newest master had one more message, which nobody else has, and comes back last."""
    first = group.master
    assert await group.send(b"a") == OK
    backup = await group.restart_namesrv()
    await group.clock.run_for(1500)
    group.crash(first)
    await group.send_until_taken(b"b")
    second = group.master
    (other,) = [host for host in group.hosts if host not in (first, second)]
    group.net.partition(second, other)
    assert await group.send(b"x", second) != OK
    for host in (second, other):
        group.crash(host)
    group.net.heal()
    await group.restart_namesrv(backup)
    for host in (other, first):
        await group.begin_again(host)
        await group.clock.run_for(5000)
    assert group.masters == []  # the second one may have acknowledged more
    await group.begin_again(second)
    await group.until(lambda: len(group.masters) == 1 and group.in_step == {1, 2, 3}, 20_000)
    assert await group.send(b"c") == OK
    await group.clock.run_for(1000)
    told = group.bodies(group.master)
    assert [each for each in told if each != b"x"] == [b"a", b"b", b"c"]
    assert [group.bodies(host) for host in group.hosts] == [told] * 3


async def log_epochs(group: ReplicaGroup) -> list[int]:
    """Of each member, as the controller heard last."""
    command = Command.request(RequestCode.CONTROLLER_GET_GROUPS)
    asked = asyncio.ensure_future(group.client.invoke(f"{NAMESRV}:9876", command, 3000))
    await group.run_through(asked)
    return [member.epoch for member in GroupsView.decode(asked.result().body_bytes).groups[0].members]


async def test_an_epoch_without_a_message_does_not_pass_for_a_newer_log(group: ReplicaGroup) -> None:
    """Of doubtful replicas the newest epoch wins, then the longest log: the epoch of the last record counts."""
    assert await group.send(b"a") == OK
    for host in group.hosts:
        group.crash(host)
    for host in group.hosts:
        await group.begin_again(host)
    await group.until(lambda: len(group.masters) == 1 and group.in_step == {1, 2, 3}, 20_000)
    await group.clock.run_for(500)
    assert await log_epochs(group) == [1, 1, 1]
    assert await group.send(b"b") == OK
    await group.clock.run_for(500)
    assert min(await log_epochs(group)) > 1


async def test_two_logs_of_an_epoch_that_was_given_twice_do_not_stand_side_by_side(group: ReplicaGroup) -> None:
    """Both masters of the epoch wrote at the same place. That of the older copy, alone, has the longer log."""
    first = group.master
    assert await group.send(b"a") == OK
    backup = await group.restart_namesrv()
    await group.clock.run_for(1500)
    group.crash(first)
    await group.until(lambda: bool(group.masters) and len(group.in_step) == 2)
    second = group.master
    group.crash(second)
    await group.until(lambda: group.masters not in ([], [second]))
    third = group.master
    await group.begin_again(second)
    await group.until(lambda: len(group.in_step) == 2)
    for body in (b"0", b"1"):
        assert await group.send(body) == OK
    for host in (second, third):
        group.crash(host)
    await group.restart_namesrv(backup)
    await group.begin_again(first)
    await group.until(lambda: group.masters == [first])
    assert await group.send(b"x" * 999, first) != OK  # in the same epoch as "0"
    for host in (second, third):
        await group.begin_again(host)
    await group.until(lambda: len(group.masters) == 1 and group.in_step == {1, 2, 3}, 20_000)
    await group.clock.run_for(1000)
    assert [group.bodies(host) for host in group.hosts] == [[b"a", b"0", b"1"]] * 3


async def test_running_brokers_find_out_that_the_register_was_put_back(group: ReplicaGroup) -> None:
    first = group.master
    assert await group.send(b"a") == OK
    backup = await group.restart_namesrv()
    await group.clock.run_for(1500)
    group.crash(first)
    await group.send_until_taken(b"b")
    await group.begin_again(first)
    await group.until(lambda: group.in_step == {1, 2, 3})
    await group.restart_namesrv(backup)
    await group.until(lambda: bool(group.masters) and group.picture()[0][2] > 3, 20_000)
    assert await group.send_until_taken(b"c") < 5000
    await group.until(lambda: group.in_step == {1, 2, 3}, 20_000)
    await group.clock.run_for(1000)
    assert [group.bodies(host) for host in group.hosts] == [[b"a", b"b", b"c"]] * 3


async def test_a_store_that_runs_twice_has_one_master_in_each_epoch() -> None:
    """The disk of a member is put into another machine, while the member is only cut off."""
    group = ReplicaGroup(2, min_in_sync_replicas=1)
    await group.start()
    first, second = group.hosts
    new = "10.0.0.14"
    assert await group.send(b"a") == OK
    for host in (second, "10.0.0.1", new):
        group.net.partition(first, host)
    await group.until(lambda: second in group.masters)
    group.hosts.append(new)
    group.files[new] = group.files[first].killed()
    group.brokers[new] = group.new_broker(new)
    await group.brokers[new].start()
    await group.until(lambda: group.in_step == {1, 2})
    membership = group.brokers[new].membership
    assert membership is not None
    group.crash(second)
    await group.until(lambda: new in group.masters)
    group.net.heal()
    await group.clock.run_for(3000)
    assert group.masters == [new]
    assert await group.send(b"lost", first) != OK
    assert await group.send(b"b", new) == OK
    assert "another broker has our id 1" in group.brokers[first].health.troubles["identity"].reason
    await group.begin_again(second)
    await group.until(lambda: group.in_step == {1, 2})
    await group.clock.run_for(1000)
    assert group.bodies(second) == group.bodies(new) == [b"a", b"b"]
    await group.stop()


async def test_a_second_start_of_a_running_broker_changes_nothing_in_its_store(group: ReplicaGroup) -> None:
    """By hand, or by systemd. A word for each such start would crowd out the one that the controller knows."""
    host = group.master
    names = ("memberLives", "bootId", "brokerIdentity", "epochFileCheckpoint")
    before = [group.files[host].read_bytes(STORE_ROOT / name) for name in names]
    with pytest.raises(StoreError):
        await group.new_broker(host).start()
    assert [group.files[host].read_bytes(STORE_ROOT / name) for name in names] == before


async def test_a_slave_whose_disk_is_full_leaves_once_and_comes_back_when_there_is_room() -> None:
    group = ReplicaGroup(2)
    await group.start()
    assert await group.send(b"0") == OK
    (full,) = await others(group)
    disk, membership = group.files[full], group.brokers[group.master].membership
    disk.capacity = disk.used
    assert membership is not None and membership.in_step.replicas is not None
    before = membership.in_step.replicas.set_epoch
    for _ in range(10):
        await group.send(bytes(2000))
        await group.clock.run_for(200)
    assert membership.in_step.replicas.set_epoch <= before + 3
    disk.capacity = 1 << 40
    await group.send_until_taken(b"1", 20_000)
    await group.stop()


async def remove(group: ReplicaGroup, broker_id: int) -> None:
    """As `rocketlake replicas remove b ID` does."""
    header = CleanBrokerDataHeader(
        cluster_name="C", broker_name="b", broker_controller_ids_to_clean=str(broker_id), is_clean_living_broker=False
    )
    command = Command.request(RequestCode.CLEAN_BROKER_DATA, header)
    async with NetClient(clock=group.clock, network=group.net.host("127.0.0.1")) as operator:
        asked = asyncio.ensure_future(operator.invoke(f"{NAMESRV}:9876", command, 3000))
        await group.run_through(asked)
    assert asked.result().code == OK, asked.result().remark


@pytest.mark.parametrize("is_running", [False, True], ids=["dead", "cut off from its controllers"])
async def test_a_broker_that_was_removed_is_told_so_and_that_its_store_must_be_emptied(
    group: ReplicaGroup, is_running: bool
) -> None:
    gone = (await others(group))[0]
    broker_id = group.brokers[gone].membership.member.standing.broker_id  # type: ignore[union-attr]
    if is_running:
        group.net.partition(gone, NAMESRV)
    else:
        group.crash(gone)
    await group.clock.run_for(3000)
    await remove(group, broker_id)
    if is_running:
        health = group.brokers[gone].health
        await group.until(lambda: "replication/follower" in health.troubles, 20_000)
        assert f"this group has no broker {broker_id}" in health.troubles["replication/follower"].reason
        group.net.heal()
    else:
        await group.begin_again(gone)
    health = group.brokers[gone].health
    await group.until(lambda: "identity" in health.troubles, 20_000)
    reason = health.troubles["identity"].reason
    assert f"broker {broker_id} was removed from this group" in reason
    assert "empty it" in reason
    await group.clock.run_for(12_000)
    assert "another process has" not in str(health.troubles)
    assert group.in_step == {1, 2, 3} - {broker_id}


async def test_a_slave_that_was_away_for_the_whole_retention_is_told_why_it_cannot_follow(group: ReplicaGroup) -> None:
    away = (await others(group))[0]
    assert await group.send(b"0") == OK
    await group.clock.run_for(500)
    group.crash(away)
    for _ in range(4):
        await group.send_until_taken(bytes(30_000))
    log = group.brokers[group.master].store.log
    assert len(log.list.files) > 1
    end = group.brokers[away].store.max_physical_offset
    del log.list.files[0]  # as if it had expired
    await group.begin_again(away)
    health = group.brokers[away].health
    await group.until(lambda: "replication/follower" in health.troubles, 20_000)
    reason = health.troubles["replication/follower"].reason
    assert f"the log of the master begins at {log.min_offset}, and this replica has it up to {end}" in reason
    assert "empty the store of this replica" in reason
    assert group.brokers[away].store.max_physical_offset == end


async def test_a_replica_with_log_files_of_another_length_is_never_in_step(group: ReplicaGroup) -> None:
    """The group is empty: nothing would be wrong before the first file is full."""
    other = (await others(group))[0]
    await group.run_through(asyncio.ensure_future(group.brokers[other].stop()))
    await group.until(lambda: len(group.in_step) == 2)
    group.files[other] = MemoryFiles(clock=group.clock)
    group.boot(group.files[other])
    broker = group.brokers[other] = group.new_broker(other, replace(STORE, commit_log_file_bytes=128 * 1024))
    await broker.start()
    await group.until(lambda: "replication/follower" in broker.health.troubles, 20_000)
    reason = broker.health.troubles["replication/follower"].reason
    assert "the files of the master's log have 65536 bytes, those of this replica 131072" in reason
    assert "set mappedFileSizeCommitLog=65536 here" in reason
    assert len(group.in_step) == 2


async def test_members_that_come_back_from_other_addresses_are_known_by_their_stores(group: ReplicaGroup) -> None:
    """As pods do, whose volumes stay: the old machines do not answer, and nobody says `replicas move`."""
    old = group.master
    assert await group.send(b"0") == OK
    group.crash(old, silent=True)
    await group.begin_elsewhere(old, "10.0.0.91")
    await group.until(lambda: group.in_step == {1, 2, 3} and len(group.masters) == 1)
    assert await group.send(b"1") == OK
    moved = {host: f"10.0.1.{number}" for number, host in enumerate(group.hosts)}
    for host in moved:
        group.crash(host, silent=True)
    for host, new in moved.items():
        await group.begin_elsewhere(host, new)
    await group.until(lambda: group.in_step == {1, 2, 3} and len(group.masters) == 1, 20_000)
    assert (await group.send(b"2"), group.bodies(group.master)) == (OK, [b"0", b"1", b"2"])

    def routed() -> list[str]:
        known = group.namesrv.routes.broker_group("C", "b")
        return [] if known is None else sorted(address.partition(":")[0] for address in known.addresses.values())

    await group.until(lambda: routed() == sorted(moved.values()))
