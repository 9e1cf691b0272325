"""Which controller is asked, and the way of a broker to its id, with controllers played by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import RemoteError
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.cluster.role import Role
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.membership.boot import Boot
from rocketlake.broker.membership.calls import Calls
from rocketlake.broker.membership.controllers import Controllers, ControllerSilent
from rocketlake.broker.membership.group_view import GroupView
from rocketlake.broker.membership.identity import Application, IdentityFiles
from rocketlake.broker.membership.joining import Joining
from rocketlake.broker.membership.lives import Lives
from rocketlake.broker.replicas.furthest_log import FurthestLog
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.request import Reply, Request
from rocketlake.net.server import Server
from rocketlake.protocol.bodies.replicas import ElectMasterReply, SyncStateSet
from rocketlake.protocol.headers.controller import (
    ControllerMetadataReplyHeader,
    ElectMasterReplyHeader,
    NextBrokerIdReplyHeader,
    RegisterReplicaReplyHeader,
)
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode

ONE, TWO = "c1:9878", "c2:9878"


class World:
    """Up to two controllers that answer from a script, and the questions of one broker."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.net = MemoryNet(clock=self.clock)
        self.client = NetClient(clock=self.clock, network=self.net.host("10.0.0.2"))
        self.files = MemoryFiles()
        self.servers: list[Server] = []
        self.asked: list[tuple[str, int]] = []
        self.addresses = [ONE, TWO]
        config = LiveConfig(replace(BrokerConfig(), broker_name="b", cluster_name="C"))
        role = Role(config, "10.0.0.2", lambda: 10911)
        self.controllers = Controllers(self.client, lambda: self.addresses, 500)
        self.calls = Calls(self.controllers, role, self.clock.now_ms)
        identity = IdentityFiles(Path("/s"), self.files, "C", "b")
        s = Path("/s")
        boot = Boot(s / "bootId", self.files, s / "abort", identity=s / "brokerIdentity", checkpoint=s / "checkpoint")
        boot.load()
        self.identity = identity
        lives = Lives(Path("/s/memberLives"), self.files)
        lives.load()
        self.joining = Joining(
            identity,
            boot,
            lives,
            self.calls,
            FurthestLog(s, self.files),
            role=role,
            worker=InlineWorker("files"),
            now_ms=self.clock.now_ms,
            log_is_sound=lambda: True,
        )

    async def controller(self, address: str, **answers: Callable[[Request], Reply]) -> Server:
        """Answers by the names of the codes without CONTROLLER_."""
        host, _, port = address.partition(":")

        def noted(code: int, answer: Callable[[Request], Reply]) -> Row:
            def handler(request: Request) -> Reply:
                self.asked.append((address, code))
                return answer(request)

            return Row(code, handler, ANYBODY)

        rows = [noted(Code[f"CONTROLLER_{name}"], answer) for name, answer in answers.items()]
        network = self.net.host(host)
        server = Server(Dispatcher(rows), host=host, port=int(port), clock=self.clock, network=network)
        await server.start()
        self.servers.append(server)
        return server


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.client.close()
    for server in world.servers:
        await server.stop()


def set_of(*members: int, epoch: int) -> bytes:
    return SyncStateSet(members=frozenset(members), epoch=epoch).encode()


async def test_the_next_controller_is_asked_when_one_is_out_of_reach_and_stays_the_first(world: World) -> None:
    await world.controller(TWO, GET_REPLICA_INFO=lambda _request: Reply(body=set_of(1, epoch=2)))
    assert (await world.calls.group(2, world.joining.lives)).members == {1}
    await world.calls.group(2, world.joining.lives)
    assert world.controllers.chosen == TWO
    assert world.asked == [(TWO, Code.CONTROLLER_GET_REPLICA_INFO)] * 2


async def test_a_silent_controller_is_not_waited_for_while_another_answers(world: World) -> None:
    for address in (ONE, TWO):
        await world.controller(address, GET_REPLICA_INFO=lambda _request: Reply(body=set_of(1, epoch=2)))
    world.net.partition("10.0.0.2", "c1")
    question = asyncio.ensure_future(world.calls.group(2, world.joining.lives))
    await world.clock.run_for(310)
    assert question.done()
    assert (await question).members == {1}
    assert world.controllers.chosen == TWO


async def test_a_slow_controller_is_waited_for_when_no_other_answers(world: World) -> None:
    await world.controller(TWO, GET_REPLICA_INFO=lambda _request: Reply(body=set_of(1, epoch=2)))
    world.net.delay_ms = (200, 200)  # an answer takes 400
    question = asyncio.ensure_future(world.calls.group(2, world.joining.lives))
    await world.clock.run_for(2000)
    assert question.done()
    assert (await question).members == {1}


async def test_a_controller_that_does_not_reach_its_register_is_left(world: World) -> None:
    await world.controller(ONE, GET_REPLICA_INFO=lambda _request: Reply(ResponseCode.SYSTEM_BUSY, remark="no register"))
    await world.controller(TWO, GET_REPLICA_INFO=lambda _request: Reply(body=set_of(1, epoch=2)))
    assert (await world.calls.group(2, world.joining.lives)).members == {1}
    assert world.controllers.chosen == TWO
    world.controllers.ask_another()
    assert world.controllers.chosen == ONE


async def test_the_leader_that_is_named_is_asked(world: World) -> None:
    world.addresses = [ONE]
    await world.controller(
        ONE,
        GET_REPLICA_INFO=lambda _request: Reply(ResponseCode.CONTROLLER_NOT_LEADER),
        GET_METADATA_INFO=lambda _request: Reply(header=ControllerMetadataReplyHeader(controller_leader_address=TWO)),
    )
    await world.controller(TWO, GET_REPLICA_INFO=lambda _request: Reply(body=set_of(1, epoch=2)))
    assert (await world.calls.group(2, world.joining.lives)).set_epoch == 2
    assert world.controllers.chosen == TWO


@pytest.mark.parametrize("addresses", [[ONE], [ONE, TWO]])
async def test_without_a_controller_the_question_fails(world: World, addresses: list[str]) -> None:
    world.addresses = addresses
    with pytest.raises(ControllerSilent):
        await world.calls.group(2, world.joining.lives)


async def test_a_refusal_is_told_with_its_code(world: World) -> None:
    await world.controller(ONE, ALTER_SYNC_STATE_SET=lambda _request: Reply(2000, remark="old"))
    with pytest.raises(RemoteError, match="old") as refused:
        await world.calls.alter_set(1, 2, frozenset({1}), 3)
    assert refused.value.code == ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH


async def test_an_id_that_was_taken_meanwhile_is_not_applied_for_again(world: World) -> None:
    free = iter([1, 2])

    def apply(request: Request) -> Reply:
        fields = request.command.fields or {}
        assert world.identity.application() == Application(int(fields["appliedBrokerId"]), fields["registerCheckCode"])
        return Reply(0 if fields["appliedBrokerId"] == "2" else ResponseCode.CONTROLLER_BROKER_ID_INVALID)

    await world.controller(
        ONE,
        GET_NEXT_BROKER_ID=lambda _request: Reply(header=NextBrokerIdReplyHeader(next_broker_id=next(free))),
        APPLY_BROKER_ID=apply,
    )
    assert await world.joining.take_id() == 2
    assert (world.identity.broker_id(), world.identity.application()) == (2, None)
    assert await world.joining.take_id() == 2  # from the file


async def test_an_application_of_before_a_crash_is_made_again(world: World) -> None:
    world.identity.apply(Application(7, "10.0.0.2:10911;5"))
    codes: list[str] = []

    def apply(request: Request) -> Reply:
        codes.append((request.command.fields or {})["registerCheckCode"])
        return Reply()

    await world.controller(ONE, APPLY_BROKER_ID=apply)
    assert await world.joining.take_id() == 7
    assert codes == ["10.0.0.2:10911;5"]


async def test_a_broker_registers_says_that_it_lives_and_asks_for_a_master(world: World) -> None:
    world.identity.applied(2)
    await world.joining.take_id()
    elected = ElectMasterReplyHeader(
        master_broker_id=2, master_address="10.0.0.2:10911", master_epoch=1, sync_state_set_epoch=1
    )
    beats: list[int] = []

    async def heartbeat() -> None:
        beats.append(len(world.asked))

    await world.controller(
        ONE,
        REGISTER_BROKER=lambda _request: Reply(header=RegisterReplicaReplyHeader(), body=set_of(epoch=0)),
        ELECT_MASTER=lambda _request: Reply(2011, elected, ElectMasterReply(members=[2]).encode()),
    )
    assert (await world.joining.register(2, heartbeat), beats) == (GroupView(), [1])
    assert await world.calls.elect(2) == GroupView(
        master_id=2, master_address="10.0.0.2:10911", master_epoch=1, members=frozenset({2}), set_epoch=1
    )
