"""The master of a name changes as planned, without a controller: network and disks in memory, time moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rocketlake.admin.migration.handover import Handover, Sides
from rocketlake.admin.migration.peer import Peer
from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError, UsageError
from rocketlake.broker.broker import Broker
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.offset import UpdateOffsetHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.replica_pair import MASTER, NAMESRV, SLAVE, ReplicaPair
from tests.requests import send_header

T = TypeVar("T")
FILE = Path("/s/config/takenRole.json")


class Pair(ReplicaPair):
    """A pair whose brokers keep their files over a restart."""

    def __init__(self) -> None:
        super().__init__(admin_access=AdminAccess.ANY)
        self.said: list[str] = []
        self.faults = FaultPlan()
        self.files = {host: MemoryFiles(clock=self.clock) for host in (MASTER, SLAVE)}
        self.master = self.new_broker(MASTER, 0, self.files[MASTER])
        self.slave = self.new_broker(SLAVE, 1, FaultyFiles(self.files[SLAVE], self.faults))  # type: ignore[arg-type]

    async def start(self) -> None:
        await super().start()
        self.master.topics.put(TopicConfig("T"))
        await self.clock.run_for(2000)

    async def of(self, work: Awaitable[T], step_ms: int = 50) -> T:
        """The result; time moves in steps until it is there."""
        task = asyncio.ensure_future(work)
        for _step in range(2_000):
            await self.clock.run_for(step_ms)
            if task.done():
                break
        return await task

    async def handover(self, old: str = MASTER, new: str = SLAVE, spare_id: int = 2) -> Handover:
        sides = Sides(Peer(self.client, f"{old}:10911"), Peer(self.client, f"{new}:10911"), spare_id)
        for peer in (sides.old, sides.new):
            await self.of(peer.look())
        return Handover(sides, self.said.append, self.clock)

    async def send(self, host: str) -> int:
        return (await self.ask(host, Command.request(RequestCode.SEND_MESSAGE_V2, send_header(), b"x"))).code

    def addresses(self) -> dict[int, str]:
        (listed,) = self.namesrv.routes.brokers().values()
        return {broker_id: address.split(":")[0] for broker_id, address in listed.addresses.items()}


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = Pair()
    await pair.start()
    yield pair
    await pair.stop()


async def restarted(pair: Pair, host: str, broker_id: int) -> Broker:
    broker = pair.new_broker(host, broker_id, pair.files[host])
    await broker.start()
    await pair.clock.run_for(2000)
    return broker


async def test_a_slave_takes_over_all_that_is_there_and_hands_it_back(pair: Pair) -> None:
    assert [await pair.send(MASTER) for _message in range(3)] == [ResponseCode.SUCCESS] * 3
    header = UpdateOffsetHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=2)
    await pair.ask(MASTER, Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
    pause = await pair.of((await pair.handover()).run())
    assert 0.3 <= pause < 1
    assert pair.addresses() == {0: SLAVE, 2: MASTER}
    assert (await pair.send(SLAVE), await pair.send(MASTER)) == (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY)
    assert pair.slave.offsets.query("g", "T", 0) == 2
    await pair.clock.run_for(31_000)  # the old master hears who the new one is, and follows
    end = pair.slave.store.max_physical_offset
    assert pair.master.store.max_physical_offset == end
    await pair.of((await pair.handover(SLAVE, MASTER, 1)).run())
    assert pair.addresses() == {0: MASTER, 1: SLAVE}
    assert await pair.send(MASTER) == ResponseCode.SUCCESS
    assert pair.master.store.next_offset("T", 0) == 5


async def test_the_role_stays_over_a_restart_until_the_settings_say_something_else(pair: Pair) -> None:
    await pair.of((await pair.handover()).run())
    await pair.slave.stop()
    await pair.master.stop()
    pair.slave, pair.master = await restarted(pair, SLAVE, 1), await restarted(pair, MASTER, 0)
    assert (pair.slave.ground.role.broker_id, pair.master.ground.role.broker_id) == (0, 2)
    assert await pair.send(SLAVE) == ResponseCode.SUCCESS
    await pair.slave.stop()
    pair.slave = await restarted(pair, SLAVE, 3)
    assert pair.slave.ground.role.broker_id == 3


async def test_nobody_becomes_a_second_master(pair: Pair) -> None:
    slave = Peer(pair.client, f"{SLAVE}:10911")
    with pytest.raises(RemoteError, match="it is a master: it takes messages"):
        await pair.of(slave.change_role(0, other=f"{MASTER}:10911"))
    pair.net.partition(MASTER, SLAVE)
    with pytest.raises(RemoteError, match=MASTER):
        await pair.of(slave.change_role(0, other=f"{MASTER}:10911"))
    pair.net.heal()
    assert (pair.slave.ground.role.is_master, pair.files[SLAVE].exists(FILE)) == (False, False)
    assert await pair.send(MASTER) == ResponseCode.SUCCESS


async def test_a_master_whose_slave_lacks_something_stays_the_master(pair: Pair) -> None:
    pair.net.partition(MASTER, SLAVE)
    assert await pair.send(MASTER) == ResponseCode.SUCCESS
    handover = await pair.handover()
    with pytest.raises(RemoteError, match="slaves have it up to"):
        await pair.of(handover.run())
    assert await pair.send(MASTER) == ResponseCode.SUCCESS
    assert pair.said == [f"{MASTER}:10911 is the master again: {pair.said[0].partition(': ')[2]}"]


async def test_the_old_master_goes_on_when_the_new_one_cannot_take_over(pair: Pair) -> None:
    await pair.send(MASTER)
    pair.faults.add(Fault("write_bytes", "takenRole", error=28))
    with pytest.raises(RemoteError, match="the role is not saved"):
        await pair.of((await pair.handover()).run())
    assert await pair.send(MASTER) == ResponseCode.SUCCESS
    assert pair.addresses() == {0: MASTER, 1: SLAVE}
    pair.faults.clear()
    await pair.clock.run_for(31_000)
    assert pair.slave.store.max_physical_offset == pair.master.store.max_physical_offset
    await pair.of((await pair.handover()).run())
    assert await pair.send(SLAVE) == ResponseCode.SUCCESS


async def test_a_takeover_that_was_cut_off_goes_on(pair: Pair) -> None:
    await pair.send(MASTER)
    await pair.of(Peer(pair.client, f"{MASTER}:10911").change_role(2))
    assert await pair.send(MASTER) == ResponseCode.SYSTEM_BUSY
    await pair.of((await pair.handover()).run())
    assert await pair.send(SLAVE) == ResponseCode.SUCCESS
    assert await pair.of((await pair.handover()).run()) == 0.0


async def test_nothing_is_given_back_while_it_is_not_known_who_is_the_master(pair: Pair) -> None:
    handover = await pair.handover()
    pair.hosts[SLAVE].crash(silent=True)
    with pytest.raises(LinkError, match="it is not known whether"):
        await pair.of(handover.run(), step_ms=1000)
    assert await pair.send(MASTER) == ResponseCode.SYSTEM_BUSY


async def test_a_stop_right_behind_the_takeover_leaves_the_role(pair: Pair) -> None:
    await pair.send(MASTER)
    handover = await pair.handover()
    pair.net.partition(SLAVE, NAMESRV)  # so the new master goes on telling the name server
    running = asyncio.ensure_future(handover.run())
    while not pair.slave.ground.role.is_master:
        await pair.clock.run_for(50)
    assert await pair.send(SLAVE) == ResponseCode.SUCCESS
    assert not running.done()
    await pair.of(pair.slave.stop())
    pair.net.heal()
    pair.slave = pair.new_broker(SLAVE, 1, pair.files[SLAVE])
    await pair.of(pair.slave.start())
    await pair.of(running)
    assert pair.slave.ground.role.is_master
    assert not pair.master.ground.role.is_master


async def test_a_delayed_message_that_was_just_delivered_is_so_for_the_next_master(pair: Pair) -> None:
    """Apache's broker, unlike ours, does not look in the log for copies that the table does not tell."""
    header = send_header(properties="DELAY\x011\x02")
    await pair.clock.run_for(130)  # so that the delivery is not due together with a sync
    await pair.ask(MASTER, Command.request(RequestCode.SEND_MESSAGE_V2, header, b"x"))
    while pair.master.delay.progress.next_offset(1) == 0:
        await pair.clock.run_for(10)
    assert pair.master.delay.progress.to_text().count("1:1") == 0  # its copy is not on the disk yet
    handover, told = await pair.handover(), []
    handover._say = lambda _step: told.append(pair.master.delay.progress.to_text())
    await pair.of(handover.run())
    assert '"offsetTable":{1:1' in told[0]  # when it has just stopped


class Ahead(Peer):
    """A broker whose log has more than it has."""

    async def log_end(self) -> int:
        return await super().log_end() + 10


async def test_nothing_is_given_back_to_a_broker_that_lacks_messages(pair: Pair) -> None:
    handover = await pair.handover()
    handover.new = Ahead(pair.client, f"{SLAVE}:10911")
    await pair.of(handover.new.look())
    pair.faults.add(Fault("write_bytes", "takenRole", error=28))
    with pytest.raises(LinkError, match="has 10 bytes that"):
        await pair.of(handover.run())
    assert await pair.send(MASTER) == ResponseCode.SYSTEM_BUSY


RETRIES = "timerEnableRetryUntilSuccess"


class AsApache(Peer):
    """A broker that is asked and told its role as Apache's is, with messages in its timer wheel."""

    waiting = 0
    changes: tuple[Mapping[str, str], ...] = ()
    """All that it was told."""

    async def look(self) -> Mapping[str, str]:
        self.settings = {**await super().look(), RETRIES: "false"}
        return self.settings

    @property
    def is_ours(self) -> bool:
        return False

    async def table(self, code: RequestCode, *, may_fail: bool = False) -> dict[str, Any]:
        if code == RequestCode.GET_TIMER_METRICS:
            return {"timingCount": {"T": {"count": self.waiting}}}
        return await super().table(code, may_fail=may_fail)

    async def change(self, settings: Mapping[str, str]) -> None:
        self.changes += (settings,)
        if "brokerId" in settings:
            await self.change_role(int(settings["brokerId"]), f"{SLAVE}:10911", keeps_tables=True)


class Shortened(Peer):
    """A slave that has deleted the first file of its log."""

    async def figures(self) -> dict[str, str]:
        return await super().figures() | {"commitLogMinOffset": "4096"}


async def from_apache(pair: Pair, new: Peer) -> tuple[Handover, AsApache]:
    handover = await pair.handover()
    old = AsApache(pair.client, f"{MASTER}:10911")
    handover.old, handover.new = old, new
    for peer in (old, new):
        await pair.of(peer.look())
    return handover, old


async def test_messages_that_wait_in_the_timer_wheel_come_along(pair: Pair) -> None:
    handover, old = await from_apache(pair, Peer(pair.client, f"{SLAVE}:10911"))
    old.waiting = 40
    assert await pair.of(handover.check()) == []
    await pair.of(handover.run())
    assert await pair.send(SLAVE) == ResponseCode.SUCCESS


async def test_messages_that_come_into_the_timer_wheel_behind_the_look_are_not_left_there(pair: Pair) -> None:
    """The new one's log may lack some; what is due until the old one is the master again is not given up there."""
    handover, old = await from_apache(pair, Shortened(pair.client, f"{SLAVE}:10911"))
    assert await pair.of(handover.check()) == []
    old.waiting = 40  # while the operator is asked, or later
    with pytest.raises(UsageError, match=r"does not deliver: 40 timer messages"):
        await pair.of(handover.run())
    assert (pair.said[-1].partition(":")[0], await pair.send(MASTER)) == (MASTER, ResponseCode.SUCCESS)
    assert [each[RETRIES] for each in old.changes if RETRIES in each] == ["true", "false"]


async def test_a_broker_without_a_timer_wheel_leaves_behind_what_waits_in_one(pair: Pair) -> None:
    handover, old = await from_apache(pair, Peer(pair.client, f"{SLAVE}:10911"))
    old.waiting = 1
    handover.new.settings = {**handover.new.settings, "timerWheelEnable": "false"}
    (lost,) = await pair.of(handover.check())
    assert (lost.what, lost.effect) == ("1 timer messages", "timerWheelEnable=false is set at the new one")
    assert lost.holds_messages


class ApacheSlave(AsApache):
    """One that was started again behind its takeover."""

    lacks: RequestCode | None = None
    """A table that is newer than its last copy."""

    async def figures(self) -> dict[str, str]:
        return await super().figures() | {"brokerActive": "false"}

    async def table(self, code: RequestCode, *, may_fail: bool = False) -> dict[str, Any]:
        return {} if code == self.lacks else await super().table(code, may_fail=may_fail)


async def back(pair: Pair, lacks: RequestCode | None = None, restart: str = "") -> Handover:
    """From ours to Apache's; `lacks`: behind the stop of the old master."""
    new = ApacheSlave(pair.client, f"{SLAVE}:10911")

    def say(line: str) -> None:
        pair.said.append(line)
        if "takes no messages" in line:
            new.lacks = lacks

    sides = Sides(Peer(pair.client, f"{MASTER}:10911"), new, 2)
    for peer in (sides.old, sides.new):
        await pair.of(peer.look())
    return Handover(sides, say, pair.clock, restart=restart)


async def test_back_to_apache_the_slave_gets_the_offsets_of_groups_and_is_started_as_the_master(pair: Pair) -> None:
    handover = await back(pair, RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert [each.what for each in await pair.of(handover.check())] == ["marks of producer sequences"]
    await pair.send(MASTER)
    header = UpdateOffsetHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=1)
    await pair.ask(MASTER, Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
    await pair.clock.run_for(2000)
    running = asyncio.ensure_future(handover.run())
    while "now start" not in "".join(pair.said):
        await pair.clock.run_for(200)
    assert pair.said[-2].endswith("has all of the log; 1 offset of groups were brought to it")
    assert await pair.send(MASTER) == ResponseCode.SYSTEM_BUSY
    await pair.of(pair.slave.become_master())  # its operator starts it
    await pair.of(running)
    assert pair.said[-1] == f"{SLAVE}:10911 is the master"
    assert await pair.send(SLAVE) == ResponseCode.SUCCESS
    assert pair.slave.offsets.query("g", "T", 0) == 1


async def test_the_role_is_given_back_if_apaches_slave_lacks_a_topic(pair: Pair) -> None:
    handover = await back(pair, RequestCode.GET_ALL_TOPIC_CONFIG)
    with pytest.raises(RocketLakeError, match="has not copied topics"):
        await pair.of(handover.run())
    assert await pair.send(MASTER) == ResponseCode.SUCCESS


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "member", "settings", "named"),
    [
        (RequestCode.GET_ALL_TOPIC_CONFIG, "topicConfigTable", {"writeQueueNums": 99}, "settings of topics"),
        (
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            "subscriptionGroupTable",
            {"retryMaxTimes": 99},
            "settings of groups",
        ),
    ],
)
async def test_apaches_slave_with_other_settings_is_waited_for_and_then_refused(
    pair: Pair, code: RequestCode, member: str, settings: dict[str, int], named: str
) -> None:
    handover = await back(pair)
    await pair.create_topic(MASTER, "T")
    header = UpdateOffsetHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=0)
    await pair.ask(MASTER, Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
    table = handover.new.table

    async def other(asked: RequestCode, *, may_fail: bool = False) -> dict[str, Any]:
        found = await table(asked, may_fail=may_fail)
        return {member: {name: each | settings for name, each in found[member].items()}} if asked == code else found

    handover.new.table = other  # type: ignore[method-assign]
    with pytest.raises(RocketLakeError, match=named):
        await pair.of(handover.run(), step_ms=500)
    assert pair.said == [pair.said[0]]  # nobody has stepped down
    assert await pair.send(MASTER) == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("restart", "reason"), [("no-such-command x", "no command 'no-such"), ("sh 'x", "is no command")]
)
async def test_a_restart_that_cannot_be_run_is_refused_while_all_is_well(pair: Pair, restart: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        await pair.of((await back(pair, restart=restart)).check())


async def test_a_restart_that_fails_leaves_it_to_the_operator(pair: Pair) -> None:
    running = asyncio.ensure_future((await back(pair, restart="false")).run())
    while "now start" not in "".join(pair.said):
        await pair.clock.run_for(200)
        await asyncio.sleep(0.001)  # a process runs in real time
    assert pair.said[-3:-1] == ["running: false", "that ended with 1"]
    await pair.of(pair.slave.become_master())
    await pair.of(running)


async def test_apaches_broker_is_no_master_before_it_has_the_whole_log_and_follows(pair: Pair) -> None:
    handover = await back(pair)
    handover.new.__class__ = AsApache  # still the process that handed over
    with pytest.raises(UsageError, match="has not been started again"):
        await pair.of(handover.check())


async def test_a_living_master_that_is_not_listed_stops_the_takeover(pair: Pair) -> None:
    third = pair.new_broker("10.0.0.4", 2)
    await third.start()
    await pair.clock.run_for(2000)
    slave = Peer(pair.client, f"{SLAVE}:10911")
    with pytest.raises(RemoteError, match="follows another master: it takes messages"):
        await pair.of(slave.change_role(0, other="10.0.0.4:10911"))
    assert (pair.slave.ground.role.is_master, pair.files[SLAVE].exists(FILE)) == (False, False)
    await third.stop()


@pytest.mark.parametrize("port", [10911, 10921])
async def test_a_living_master_that_nobody_names_is_not_taken_for_another_broker_of_its_host(
    pair: Pair, port: int
) -> None:
    """The slave knows only from where its log comes; a slave at the same host hands over."""
    lonely = {"namesrv_addresses": (), "ha_master_address": f"{MASTER}:10912"}
    beside = pair.new_broker(MASTER, 2, listen_port=10921, **lonely)
    heir = pair.new_broker("10.0.0.5", 3, **lonely)
    for broker in (beside, heir):
        await broker.start()
    assert await pair.send(MASTER) == ResponseCode.SUCCESS
    await pair.clock.run_for(2000)
    assert heir.store.max_physical_offset == beside.store.max_physical_offset > 0
    reason = "it is a master: it takes messages" if port == 10911 else "no name server tells which broker that is"
    with pytest.raises(RemoteError, match=reason):
        await pair.of(Peer(pair.client, "10.0.0.5:10911").change_role(0, other=f"{MASTER}:{port}"))
    assert not heir.ground.role.is_master
    for broker in (heir, beside):
        await broker.stop()


async def test_a_broken_link_while_the_role_changes_gives_nothing_back(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    handover = await pair.handover()
    lead, calls = pair.slave.become_master, 0

    async def slowly(*args: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        await pair.clock.sleep(2)
        await lead(*args, **options)

    monkeypatch.setattr(pair.slave, "become_master", slowly)
    running = asyncio.ensure_future(handover.run())
    while not calls:
        await pair.clock.run_for(50)
    pair.client.give_up(f"{SLAVE}:10911", "a test")
    await pair.of(running)
    assert calls == 1
    assert pair.said[-1] == f"{SLAVE}:10911 is the master"
    assert (pair.master.ground.role.is_master, pair.slave.ground.role.is_master) == (False, True)
