"""Two controllers on one register, and three brokers, in memory: from a death to a new master, and bad peers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError
from rocketlake.controller.controller import Controller
from rocketlake.controller.registers.memory import MemoryRegister, SharedValues
from rocketlake.controller.watch.liveness import BrokerKey, Pulse
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.memory_net import MemoryHost, MemoryNet
from rocketlake.net.request import Reply, Request
from rocketlake.net.server import Server
from rocketlake.protocol.bodies.replicas import (
    ElectMasterReply,
    EpochCache,
    EpochSpan,
    GroupsView,
    GroupView,
    ReplicasTable,
    SyncStateSet,
    encode_names,
)
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.controller import (
    AlterSyncStateSetHeader,
    ApplyBrokerIdHeader,
    CleanBrokerDataHeader,
    ControllerMetadataReplyHeader,
    ElectMasterHeader,
    ElectMasterReplyHeader,
    GetReplicaInfoHeader,
    GetReplicaInfoReplyHeader,
    NextBrokerIdHeader,
    NextBrokerIdReplyHeader,
    RegisterReplicaHeader,
    RegisterReplicaReplyHeader,
    RoleChangedHeader,
)
from rocketlake.protocol.headers.namesrv import BrokerHeartbeatHeader
from rocketlake.protocol.request_code import RequestCode as Ask
from rocketlake.protocol.response_code import ResponseCode as Code

PORT = 9876


class Broker:
    """A broker as far as a controller sees it: it registers, beats, and takes notices."""

    def __init__(self, world: World, broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.host_name = f"h{broker_id}"
        self.address = f"{self.host_name}:10911"
        self.notices: list[RoleChangedHeader] = []
        self.epoch = 0
        self.end = 0
        self.silent_ms: int | None = 0
        self.beats = True
        self.is_java = False
        self.questions = 0

    async def start(self) -> None:
        self.host = self.world.net.host(self.host_name)
        rows = [
            Row(Ask.NOTIFY_BROKER_ROLE_CHANGED, self._notice, ANYBODY),
            Row(Ask.GET_BROKER_EPOCH_CACHE, self._epochs, ANYBODY),
        ]
        clock = self.world.clock
        self.server = Server(Dispatcher(rows), host=self.host_name, port=10911, clock=clock, network=self.host)
        await self.server.start()
        self.client = NetClient(clock=clock, network=self.host)
        await self.client.start()
        self.client.every("beat", 0.2, self.beat)

    def crash(self, *, silent: bool = False) -> None:
        self.beats = False
        self.host.crash(silent=silent)

    async def stop(self) -> None:
        await self.client.stop()
        await self.server.stop(0)

    async def ask(self, code: Ask, header: object = None, body: bytes | None = None, at: str = "c1") -> Command:
        command = Command.request(code, header, body)  # type: ignore[arg-type]
        answer = await self.world.run(self.client.invoke(f"{at}:{PORT}", command))
        assert isinstance(answer, Command)
        return answer

    async def beat(self) -> None:
        if not self.beats:
            return
        header = BrokerHeartbeatHeader(
            cluster_name="c",
            broker_addr=self.address,
            broker_name="b",
            broker_id=self.id,
            epoch=self.epoch,
            max_offset=self.end,
            confirm_offset=self.end,
            heartbeat_timeout_mills=1000,
            ha_silent_millis=None if self.is_java else self.silent_ms,
        )
        for controller in ("c1", "c2"):
            with contextlib.suppress(LinkError):
                await self.client.invoke_oneway(f"{controller}:{PORT}", Command.request(Ask.BROKER_HEARTBEAT, header))

    async def join(self) -> None:
        """Take an id and register."""
        answer = await self.ask(
            Ask.CONTROLLER_GET_NEXT_BROKER_ID, NextBrokerIdHeader(cluster_name="c", broker_name="b")
        )
        assert answer.header(NextBrokerIdReplyHeader).next_broker_id == self.id
        applied = ApplyBrokerIdHeader(
            cluster_name="c", broker_name="b", applied_broker_id=self.id, register_check_code=f"{self.address};17"
        )
        assert (await self.ask(Ask.CONTROLLER_APPLY_BROKER_ID, applied)).code == Code.SUCCESS
        assert (await self.ask(Ask.CONTROLLER_REGISTER_BROKER, self.registration())).code == Code.SUCCESS
        await self.world.clock.run_for(250)

    def registration(self) -> RegisterReplicaHeader:
        return RegisterReplicaHeader(
            cluster_name="c",
            broker_name="b",
            broker_id=self.id,
            broker_address=self.address,
            ha_address=f"{self.host_name}:10912",
            min_in_sync_replicas=2,
        )

    async def alter(self, members: set[int], set_epoch: int, epoch: int = 1, master: int | None = None) -> Command:
        header = AlterSyncStateSetHeader(broker_name="b", master_broker_id=master or self.id, master_epoch=epoch)
        body = SyncStateSet(members=frozenset(members), epoch=set_epoch).encode()
        return await self.ask(Ask.CONTROLLER_ALTER_SYNC_STATE_SET, header, body)

    def _notice(self, request: Request) -> Reply:
        header = request.header(RoleChangedHeader)
        self.notices.append(header)
        self.epoch = header.master_epoch or 0
        return Reply()

    def _epochs(self, _request: Request) -> Reply:
        self.questions += 1
        return Reply(
            body=EpochCache(epochs=[EpochSpan(epoch=self.epoch, start_offset=0)], max_offset=self.end).encode()
        )


class World:
    """Two controllers and three brokers on one clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(settle_turns=60)
        self.net = MemoryNet(7, clock=self.clock, delay_ms=(0.2, 0.6))
        self.shared = SharedValues()
        self.brokers = {each: Broker(self, each) for each in (1, 2, 3)}
        self.controllers: dict[str, Controller] = {}
        self.registers: dict[str, MemoryRegister] = {}
        self.hosts: dict[str, MemoryHost] = {}
        self.servers: dict[str, Server] = {}

    async def start(self) -> None:
        await self.net.start()
        for name in ("c1", "c2"):
            await self._start_controller(name)
        for broker in self.brokers.values():
            await broker.start()

    async def _start_controller(self, name: str) -> None:
        host = self.hosts[name] = self.net.host(name)
        self.registers[name] = MemoryRegister(self.shared, self.clock)
        gate = AccessGate(lambda: AdminAccess.NONE)
        controller = self.controllers[name] = Controller(
            self.registers[name],
            address=lambda: f"{name}:{PORT}",
            clock=self.clock,
            gate=gate,
            sign=lambda _command: None,
            network=host,
            name=name,
        )

        def heartbeat(request: Request) -> Reply:
            controller.heartbeat(request, request.header(BrokerHeartbeatHeader))
            return Reply()

        rows = [*controller.rows(), Row(Ask.BROKER_HEARTBEAT, heartbeat, ANYBODY)]
        server = self.servers[name] = Server(
            Dispatcher(rows, gate), host=name, port=PORT, clock=self.clock, network=host
        )
        server.on_link_lost.append(controller.link_lost)
        await controller.start()
        await server.start()

    async def stop(self) -> None:
        for broker in self.brokers.values():
            await broker.stop()
        for name, server in self.servers.items():
            await server.stop(0)
            await self.controllers[name].stop()
        await self.net.stop()

    async def run(self, work: object) -> object:
        """Let time pass until it is done."""
        task = self.net.spawn("test", work)  # type: ignore[arg-type]
        while not task.done():
            await self.clock.run_for(1)
        return task.result()

    async def with_group(self, in_sync: set[int]) -> None:
        """All brokers registered, 1 is the master, the set is as given."""
        for broker in self.brokers.values():
            await broker.join()
        first = self.brokers[1]
        elect = ElectMasterHeader(cluster_name="c", broker_name="b", broker_id=1)
        assert (await first.ask(Ask.CONTROLLER_ELECT_MASTER, elect)).code == Code.SUCCESS
        if in_sync != {1}:
            assert (await first.alter(in_sync, 1)).code == Code.SUCCESS
        await self.clock.run_for(1000)
        for broker in self.brokers.values():
            broker.end = 100

    def group(self, at: str = "c1") -> GroupView:
        view = self.controllers[at].decider.groups["b"]
        return GroupView(
            broker_name="b",
            master=view.master,
            master_epoch=view.master_epoch,
            in_sync=sorted(view.in_sync),
            in_sync_epoch=view.in_sync_epoch,
            eligible=sorted(view.eligible),
        )

    async def ms_until_master(self, master: int | None, at_most_ms: int) -> int:
        for ms in range(at_most_ms):
            if self.group().master == master:
                return ms
            await self.clock.run_for(1)
        raise AssertionError(f"the master is {self.group().master} after {at_most_ms} ms, not {master}")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def test_brokers_get_ids_a_master_and_a_set(world: World) -> None:
    await world.with_group({1, 2, 3})
    assert (world.group().master, world.group().master_epoch, world.group().in_sync) == (1, 1, [1, 2, 3])
    assert world.group("c2") == world.group("c1")
    assert {each: broker.notices[0].master_address for each, broker in world.brokers.items()} == dict.fromkeys(
        (1, 2, 3), "h1:10911"
    )
    two = world.brokers[2]
    for at in ("c1", "c2"):
        metadata = (await two.ask(Ask.CONTROLLER_GET_METADATA_INFO, at=at)).header(ControllerMetadataReplyHeader)
        assert (metadata.controller_leader_address, metadata.is_leader) == (f"{at}:{PORT}", True)
        info = await two.ask(Ask.CONTROLLER_GET_REPLICA_INFO, GetReplicaInfoHeader(broker_name="b"), at=at)
        assert info.header(GetReplicaInfoReplyHeader) == GetReplicaInfoReplyHeader(
            master_broker_id=1, master_address="h1:10911", master_epoch=1
        )
        assert SyncStateSet.decode(info.body_bytes).members == {1, 2, 3}
    again = await two.ask(Ask.CONTROLLER_REGISTER_BROKER, two.registration(), at="c2")
    assert again.header(RegisterReplicaReplyHeader).master_broker_id == 1
    table = ReplicasTable.decode(
        (await two.ask(Ask.CONTROLLER_GET_SYNC_STATE_DATA, body=encode_names(["b", "no"]))).body_bytes
    )
    assert [entry.alive for entry in table.table["b"].in_sync_replicas] == [True, True, True]
    assert list(table.table) == ["b"]


async def test_a_killed_master_is_replaced_in_milliseconds(world: World) -> None:
    await world.with_group({1, 2, 3})
    world.brokers[3].end = 200
    await world.clock.run_for(300)
    world.brokers[1].crash()
    assert await world.ms_until_master(3, 100) < 50
    assert world.group().in_sync == [3]
    assert world.group().eligible == [1, 2]
    await world.clock.run_for(50)
    assert [each.master_broker_id for each in world.brokers[2].notices][-1] == 3
    assert world.group("c2") == world.group("c1")
    assert world.group().master_epoch == 2, "two controllers made two switches of one death"


async def test_a_vanished_machine_is_replaced_after_its_silence(world: World) -> None:
    await world.with_group({1, 2, 3})
    world.brokers[1].crash(silent=True)
    for each in (2, 3):
        world.brokers[each].silent_ms = 900
    ms = await world.ms_until_master(2, 2000)
    assert 700 < ms < 1400


async def test_a_master_that_its_replicas_hear_stays(world: World) -> None:
    """It is cut off from the controllers only."""
    await world.with_group({1, 2, 3})
    world.brokers[1].beats = False
    await world.clock.run_for(5000)
    assert world.group().master == 1
    world.brokers[2].silent_ms = world.brokers[3].silent_ms = 5000
    await world.ms_until_master(2, 1000)


async def test_java_candidates_that_beat_rarely_are_asked_for_their_logs(world: World) -> None:
    await world.with_group({1, 2, 3})
    for each in (2, 3):
        world.brokers[each].is_java = True
    await world.clock.run_for(300)
    for each in (2, 3):
        world.brokers[each].beats = False
    await world.clock.run_for(600)
    world.brokers[3].end = 500  # newer than its last heartbeat says
    world.brokers[1].crash()
    await world.ms_until_master(3, 100)
    assert world.brokers[2].questions > 0


async def test_only_replicas_that_hold_everything_follow(world: World) -> None:
    await world.with_group({1, 2})
    world.brokers[2].crash()
    world.brokers[1].crash()
    await world.clock.run_for(5000)
    assert world.group().master == 1, "broker 3 may lack messages"
    assert world.group().master_epoch == 1


async def test_a_planned_hand_over_comes_from_the_master_itself(world: World) -> None:
    await world.with_group({1, 2, 3})
    hand_over = ElectMasterHeader(cluster_name="c", broker_name="b", broker_id=3, designate_elect=True)
    refused = await world.brokers[2].ask(Ask.CONTROLLER_ELECT_MASTER, hand_over)
    assert refused.code == Code.NO_PERMISSION
    answer = await world.brokers[1].ask(Ask.CONTROLLER_ELECT_MASTER, hand_over)
    assert answer.header(ElectMasterReplyHeader) == ElectMasterReplyHeader(
        master_broker_id=3, master_address="h3:10911", master_epoch=2, sync_state_set_epoch=3
    )
    body = ElectMasterReply.decode(answer.body_bytes)
    assert body.group is not None
    assert body.group.broker_addrs == {1: "h1:10911", 2: "h2:10911", 3: "h3:10911"}


async def test_a_controller_that_does_not_hear_the_new_master_leaves_it(world: World) -> None:
    """The other controller was quicker, and chose a broker that this one is cut off from."""
    await world.with_group({1, 2, 3})
    world.brokers[3].end = 200
    world.net.partition("c1", "h3")
    await world.clock.run_for(2000)
    world.registers["c1"].delay_seconds = 0.02
    world.brokers[1].crash()
    await world.ms_until_master(3, 200)
    await world.clock.run_for(5000)
    assert (world.group("c1").master, world.group("c1").master_epoch) == (3, 2)
    assert world.group("c2") == world.group("c1")


async def test_a_lost_controller_and_a_register_out_of_reach_cost_no_master(world: World) -> None:
    await world.with_group({1, 2, 3})
    world.hosts["c1"].crash(silent=True)
    world.registers["c2"].is_cut = True
    await world.clock.run_for(8000)
    assert not world.controllers["c2"].health.is_green
    answer = await world.brokers[2].ask(Ask.CONTROLLER_GET_GROUPS, at="c2")
    (told,) = GroupsView.decode(answer.body_bytes).groups
    assert "the register is out of reach" in told.trouble
    world.brokers[1].crash()
    await world.clock.run_for(3000)
    assert world.group("c2").master == 1
    world.registers["c2"].is_cut = False
    await world.clock.run_for(1000)
    assert world.group("c2").master == 2
    assert world.brokers[3].notices[-1].master_broker_id == 2
    await world.clock.run_for(2000)
    answer = await world.brokers[2].ask(Ask.CONTROLLER_GET_GROUPS, at="c2")
    assert [each.trouble for each in GroupsView.decode(answer.body_bytes).groups] == [""]


# -- bad peers ---------------------------------------------------------------------------------------------------------


async def test_forged_requests_change_nothing(world: World) -> None:
    await world.with_group({1, 2, 3})
    before = world.controllers["c1"].decider.groups["b"]
    stranger = Broker(world, 9)
    await stranger.start()
    forged = await stranger.alter({1}, 2, master=1)
    assert (forged.code, world.controllers["c1"].decider.groups["b"]) == (Code.NO_PERMISSION, before)
    assert (await world.brokers[2].alter({2}, 2, master=1)).code == Code.NO_PERMISSION
    moved = RegisterReplicaHeader(cluster_name="c", broker_name="b", broker_id=1, broker_address="h9:1")
    assert (await stranger.ask(Ask.CONTROLLER_REGISTER_BROKER, moved)).code == Code.NO_PERMISSION
    clean = CleanBrokerDataHeader(broker_name="b", is_clean_living_broker=True)
    assert (await world.brokers[1].ask(Ask.CLEAN_BROKER_DATA, clean)).code == Code.NO_PERMISSION
    unclean = ElectMasterHeader(cluster_name="c", broker_name="b", broker_id=2, unclean=True)
    assert (await world.brokers[2].ask(Ask.CONTROLLER_ELECT_MASTER, unclean)).code == Code.NO_PERMISSION
    stranger.id = 1  # its heartbeats say that it is the master
    world.brokers[1].beats = False
    await world.clock.run_for(900)
    last = world.controllers["c1"].liveness.last(("b", 1))  # type: ignore[arg-type]
    assert last is not None
    assert last.link is not None
    assert last.link.remote[0] == "h1"
    await stranger.stop()
    assert world.controllers["c1"].decider.groups["b"] == before


async def test_a_controller_that_hears_nobody_yet_believes_no_stranger(world: World) -> None:
    """A member that holds records moves to another host only when nothing listens at its old address."""
    await world.with_group({1, 2})
    await world._start_controller("c3")
    decider, liveness = world.controllers["c3"].decider, world.controllers["c3"].liveness
    await world.run(decider.fresh("b"))
    before = decider.groups["b"]
    stranger = Broker(world, 1)
    stranger.host_name, stranger.address = "h9", "h9:10911"
    await stranger.start()

    async def forge(broker_id: int) -> Code:
        stranger.id = broker_id
        header = stranger.registration()
        header.log_kept = "DAMAGED"
        return Code((await stranger.ask(Ask.CONTROLLER_REGISTER_BROKER, header, at="c3")).code)

    assert [await forge(1), await forge(2)] == [Code.NO_PERMISSION] * 2
    beat = BrokerHeartbeatHeader(cluster_name="c", broker_addr="h9:10911", broker_name="b", broker_id=1)
    await stranger.ask(Ask.BROKER_HEARTBEAT, beat, at="c3")
    assert liveness.pulse(BrokerKey("b", 1)) is Pulse.UNHEARD
    assert decider.groups["b"] == before

    world.brokers[2].crash(silent=True)  # it may be cut off only
    assert await forge(2) == Code.NO_PERMISSION
    world.brokers[1].crash()
    assert [await forge(1), await forge(3)] == [Code.SUCCESS] * 2  # 3 holds nothing that could be lost
    assert [decider.groups["b"].members[each].address for each in (1, 2, 3)] == ["h9:10911", "h2:10911", "h9:10911"]
    await stranger.stop()


async def test_a_member_comes_back_from_another_host_by_the_word_that_only_its_store_knows(world: World) -> None:
    """Its old machine does not answer. What a controller tells to those who ask is no such word."""
    await world.with_group({1, 2})
    member = world.brokers[2]
    known = member.registration()
    known.life = "word"
    assert (await member.ask(Ask.CONTROLLER_REGISTER_BROKER, known)).code == Code.SUCCESS
    member.crash(silent=True)
    await world.clock.run_for(2000)
    other = Broker(world, 2)
    other.host_name, other.address, other.beats = "h9", "h9:10911", False
    await other.start()
    asked = GetReplicaInfoHeader(broker_name="b", broker_id=2)
    told = (await other.ask(Ask.CONTROLLER_GET_REPLICA_INFO, asked)).header(GetReplicaInfoReplyHeader).asker_mark
    assert told

    async def comes_back(before: str) -> Code:
        header = other.registration()
        header.life, header.lives_before = "new", before
        return Code((await other.ask(Ask.CONTROLLER_REGISTER_BROKER, header)).code)

    refused = [await comes_back(before) for before in ("", told, f"a;{told};b")]
    assert (refused, await comes_back("a;word")) == ([Code.NO_PERMISSION] * 3, Code.SUCCESS)
    recorded = world.controllers["c1"].decider.groups["b"].members[2]
    assert (recorded.address, recorded.life) == ("h9:10911", "new")
    await other.stop()


async def test_a_broker_registers_from_another_address_of_its_machine(world: World) -> None:
    await world.with_group({1, 2})
    outside = Broker(world, 3)  # the same broker, by the address of the other side of its machine
    outside.host_name, outside.beats = "h33", False
    await outside.start()
    world.brokers[3].beats = False
    await world.clock.run_for(2000)
    assert (await outside.ask(Ask.CONTROLLER_REGISTER_BROKER, outside.registration())).code == Code.SUCCESS
    assert (await world.brokers[1].alter({1, 2, 3}, 2)).code == Code.CONTROLLER_BROKER_NOT_ALIVE
    outside.beats = True
    await world.clock.run_for(300)
    assert (await world.brokers[1].alter({1, 2, 3}, 2)).code == Code.SUCCESS
    assert world.controllers["c1"].decider.groups["b"].members[3].host == "h33"
    again = outside.registration()
    again.boot_id = "another"
    assert (await outside.ask(Ask.CONTROLLER_REGISTER_BROKER, again)).code == Code.SUCCESS
    await outside.stop()


async def test_wrong_epochs_and_unknown_members_have_javas_codes(world: World) -> None:
    await world.with_group({1, 2})
    first = world.brokers[1]
    group = world.group()
    codes = [
        (await first.alter({1, 2}, group.in_sync_epoch)).code,
        (await first.alter({1}, group.in_sync_epoch, epoch=7)).code,
        (await first.alter({1}, group.in_sync_epoch + 5)).code,
        (await first.alter({1, 2, 8}, group.in_sync_epoch)).code,
        (await first.alter({2}, group.in_sync_epoch)).code,
        (await world.brokers[2].alter({1}, group.in_sync_epoch)).code,
    ]
    assert codes == [
        Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
        Code.CONTROLLER_FENCED_MASTER_EPOCH,
        Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        Code.CONTROLLER_INVALID_REPLICAS,
        Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
        Code.CONTROLLER_INVALID_MASTER,
    ]
    assert world.group() == group


async def test_random_bodies_and_fields_are_refused_and_the_controller_goes_on(world: World) -> None:
    await world.with_group({1, 2})
    group = world.group()
    draw = random.Random(3)
    codes = [row.code for row in world.controllers["c1"].rows()]
    names = ["brokerName", "clusterName", "brokerId", "masterEpoch", "masterBrokerId", "appliedBrokerId", "x"]
    values = ["", "b", "-1", "99999999999999999999", "a/b", "\x00", "NaN", "é" * 300]
    stranger = Broker(world, 9)
    await stranger.start()
    for _ in range(150):
        fields = {name: draw.choice(values) for name in names if draw.random() < 0.7}
        body = draw.choice(
            [b"", b"{", b"[1]", draw.randbytes(40), b"[" * 500, b'{"syncStateSet":[99],"syncStateSetEpoch":2}']
        )
        command = Command.request(draw.choice(codes), body=body, fields=fields)
        await world.run(stranger.client.invoke(f"c1:{PORT}", command))
    await stranger.stop()
    assert world.group() == group
    assert world.controllers["c1"].health.is_green
    assert set(world.controllers["c1"].decider.groups) == {"b"}


async def test_a_flood_of_registrations_meets_a_limit(world: World) -> None:
    await world.with_group({1, 2})
    stranger = Broker(world, 9)
    await stranger.start()
    refused = 0
    for broker_id in range(4, 80):
        applied = ApplyBrokerIdHeader(
            cluster_name="c", broker_name="b", applied_broker_id=broker_id, register_check_code="h9:1;5"
        )
        refused += (await stranger.ask(Ask.CONTROLLER_APPLY_BROKER_ID, applied)).code != Code.SUCCESS
    assert refused == 15
    assert len(world.controllers["c1"].decider.groups["b"].members) == 64
    large = Command.request(Ask.CONTROLLER_ALTER_SYNC_STATE_SET, body=b"x" * 100_000)
    answer = await world.run(stranger.client.invoke(f"c1:{PORT}", large))
    assert isinstance(answer, Command)
    assert "body" in (answer.remark or "")
    view = GroupsView.decode((await stranger.ask(Ask.CONTROLLER_GET_GROUPS, at="c2")).body_bytes)
    assert [group.broker_name for group in view.groups] == ["b"]
    await stranger.stop()


async def test_long_texts_do_not_get_into_the_register(world: World) -> None:
    """The value of a group goes into the register whole: etcd refuses 1.5 MB, and with it each later election."""
    await world.with_group({1, 2})
    group = world.group()
    long = "x" * 5000
    stranger = Broker(world, 4)
    await stranger.start()
    named = {"broker_name": "b", "applied_broker_id": 4}
    for cluster, check in ((long, "h4:1;5"), ("c", f"h4:1;{long}"), ("c", f"{long}:1;5")):
        applied = ApplyBrokerIdHeader(cluster_name=cluster, register_check_code=check, **named)  # type: ignore[arg-type]
        answer = await stranger.ask(Ask.CONTROLLER_APPLY_BROKER_ID, applied)
        assert answer.code != Code.SUCCESS and "keeps up to 512" in (answer.remark or "")
    first = world.brokers[1]
    for change in ({"broker_address": f"h1{long}:1"}, {"ha_address": long}, {"boot_id": long}):
        registration = replace(first.registration(), **change)
        answer = await first.ask(Ask.CONTROLLER_REGISTER_BROKER, registration)
        assert answer.code != Code.SUCCESS and "keeps up to 512" in (answer.remark or "")
    assert world.group() == group
    await stranger.stop()
