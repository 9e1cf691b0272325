"""`rocketlake replicas` on a real controller whose brokers are played by requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rocketlake import Message, Producer
from rocketlake.admin.cluster import Cluster
from rocketlake.admin.replicas.asked import ClusterReplicas
from rocketlake.admin.replicas.state import group_of, lag_of, no_failover, refusal_of, state_of
from rocketlake.base.errors import LinkError, UsageError
from rocketlake.cli.replicas_words import losses
from rocketlake.cli.tree import app
from rocketlake.client.config import ProducerConfig
from rocketlake.namesrv.config import load_namesrv_conf
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.replicas import GroupView, MemberView
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.controller import ApplyBrokerIdHeader, ElectMasterHeader, RegisterReplicaHeader
from rocketlake.protocol.headers.namesrv import BrokerHeartbeatHeader
from rocketlake.protocol.request_code import RequestCode as Ask
from rocketlake.protocol.response_code import ResponseCode as Code
from rocketlake.standalone import Standalone


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NameServer]:
    """A controller that knows brokers 1 and 2 of group g; 1 is the master. Neither of them is heard any more."""
    settings = {"listenPort": 0, "kvConfigPath": tmp_path / "kv.json", "enableControllerInNamesrv": True}
    async with NameServer(load_namesrv_conf(None, settings)) as server, NetClient() as client:
        for number in (1, 2):
            address = f"127.0.0.1:{number}"
            for code, header in (
                (
                    Ask.CONTROLLER_APPLY_BROKER_ID,
                    ApplyBrokerIdHeader(
                        cluster_name="c", broker_name="g", applied_broker_id=number, register_check_code=f"{address};1"
                    ),
                ),
                (
                    Ask.CONTROLLER_REGISTER_BROKER,
                    RegisterReplicaHeader(cluster_name="c", broker_name="g", broker_id=number, broker_address=address),
                ),
            ):
                answer = await client.invoke(server.address, Command.request(code, header))
                assert answer.code == Code.SUCCESS, answer.remark
        elect = ElectMasterHeader(cluster_name="c", broker_name="g", broker_id=1)
        answer = await client.invoke(server.address, Command.request(Ask.CONTROLLER_ELECT_MASTER, elect))
        assert answer.code == Code.SUCCESS, answer.remark
        yield server


async def typed(server: NameServer, *words: str, given: str | None = None) -> Result:
    result = await asyncio.to_thread(
        CliRunner().invoke, app, ("replicas", *words, "-n", server.address), input=given, env={"COLUMNS": "200"}
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


async def test_groups_brokers_and_switches_are_shown(server: NameServer) -> None:
    (group,) = json.loads((await typed(server, "list", "-o", "json")).stdout)
    assert (group["group"], group["master"], group["epoch"], group["in_step"]) == ("g", 1, 1, [1])
    assert (group["not_in_step"], group["sends_refused"]) == ([2], None)
    assert group["no_failover"] == "no other living broker holds all that was acknowledged"
    shown = json.loads((await typed(server, "show", "g", "-o", "json")).stdout)
    assert [(each["id"], each["role"]) for each in shown["brokers"]] == [(1, "master"), (2, "slave")]
    assert "it has sent no heartbeat to this controller" in shown["brokers"][1]["state"]
    assert [(each["epoch"], each["log_end"], each["lag"], each["lag_seconds"]) for each in shown["brokers"]] == [
        (None, None, None, None)
    ] * 2
    assert "g of c: master 1 in epoch 1" in (await typed(server, "show", "g")).stdout
    (switch,) = json.loads((await typed(server, "history", "g", "-o", "json")).stdout)
    assert (switch["epoch"], switch["to"], switch["address"]) == (1, 1, "127.0.0.1:1")
    assert switch["why"]
    assert switch["from"] is None


async def test_only_a_broker_in_step_takes_over_and_a_dead_one_can_be_removed(server: NameServer) -> None:
    assert "already" in (await typed(server, "hand-over", "g", "1")).stdout
    with pytest.raises(UsageError, match="broker 2 of g is not in step"):
        await typed(server, "hand-over", "g", "2", "-y")
    with pytest.raises(UsageError, match="g has no broker 7"):
        await typed(server, "remove", "g", "7", "-y")
    with pytest.raises(UsageError, match="only 1 may hold all that was acknowledged") as caught:
        await typed(server, "remove", "g", "1", given="")
    assert caught.value.hint.startswith("start it")
    refused = await typed(server, "remove", "g", "2", given="n\n")
    assert refused.exit_code == 9
    assert "is forgotten" in (await typed(server, "remove", "g", "2", given="y\n")).stdout
    shown = json.loads((await typed(server, "show", "g", "-o", "json")).stdout)
    assert [each["id"] for each in shown["brokers"]] == [1]
    with pytest.raises(UsageError, match="no controller knows a group of brokers 'other'"):
        await typed(server, "show", "other")


async def test_a_name_server_without_a_controller_is_named(tmp_path: Path) -> None:
    settings = {"listenPort": 0, "kvConfigPath": tmp_path / "kv.json"}
    async with NameServer(load_namesrv_conf(None, settings)) as server:
        with pytest.raises(LinkError, match="has no controller") as caught:
            await typed(server, "list")
    assert "enableControllerInNamesrv=true" in caught.value.hint


def group(*members: MemberView, master: int | None = 1, in_sync: tuple[int, ...] = (1,), **other: object) -> GroupView:
    return GroupView(broker_name="g", master=master, in_sync=list(in_sync), members=list(members), **other)  # type: ignore[arg-type]


def member(broker_id: int, end: int, **other: object) -> MemberView:
    return MemberView(**{"broker_id": broker_id, "address": "a", "pulse": "ALIVE", "max_offset": end, **other})  # type: ignore[arg-type]


def test_lag_is_told_in_bytes_and_in_the_seconds_that_the_master_took_for_them() -> None:
    master, slave = member(1, 5000), member(2, 4000)
    assert lag_of(group(master, slave), slave, 500.0) == (1000, 2.0)
    assert lag_of(group(master, slave), slave, 0.0) == (1000, None)
    assert lag_of(group(master, slave), master, 500.0) == (None, None)
    assert lag_of(group(master, member(2, -1)), member(2, -1), 500.0) == (None, None)


@pytest.mark.parametrize(
    ("found", "refused", "stuck"),
    [
        (dict(in_sync=(1, 2), min_in_sync=2), "", ""),
        (dict(in_sync=(1,), min_in_sync=1, eligible=[2]), "", ""),
        (
            dict(in_sync=(1,), min_in_sync=2),
            "1 of 2 brokers that are needed are in step",
            "no other living broker holds all that was acknowledged",
        ),
        (
            dict(in_sync=(1, 2), min_in_sync=2, trouble="no member answers"),
            "",
            "the controller cannot decide, its register does not answer: no member answers",
        ),
        (
            dict(in_sync=(), eligible=[3], master=None),
            "there is no master",
            "no living broker holds all that was acknowledged",
        ),
    ],
)
def test_it_is_said_when_sends_are_refused_and_when_nobody_can_follow(
    found: dict[str, object], refused: str, stuck: str
) -> None:
    view = group(member(1, 5000), member(2, 4000), member(3, 5000, pulse="SILENT"), **found)  # type: ignore[arg-type]
    assert (refusal_of(view), no_failover(view)) == (refused, stuck)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"pulse": "SILENT", "silent_ms": 3200}, "no heartbeat for 3.2 s"),
        ({"ha_silent_ms": 5000}, "it has heard nothing of its master for 5.0 s"),
        ({}, "it lacks 1000 bytes"),
    ],
)
def test_why_a_replica_is_not_in_step(other: dict[str, object], said: str) -> None:
    slave = member(2, 4000, **other)
    assert state_of(group(member(1, 5000), slave), slave) == f"not in step: {said}"
    kept = state_of(group(member(1, 5000), slave, eligible=[2]), slave)
    assert kept == f"not in step: {said}; it holds all that was acknowledged"


def test_a_forced_election_says_what_may_be_lost() -> None:
    dead = member(1, 5000, confirm_offset=4900, pulse="CLOSED")
    members = dead, member(2, 4000), member(3, -1), member(4, 4950), member(5, 4000, pulse="SILENT")
    lines = [
        "broker 1 holds all that was acknowledged, but it does not live: nothing is lost if it comes back",
        "broker 2 may lack at least 900 bytes of what was acknowledged: these are lost if it is chosen",
        "broker 3 has not said where its log ends: what it lacks is not known",
        "broker 4 holds all that was acknowledged: nothing is lost if it is chosen",
        "broker 5 does not live: it cannot be chosen",
    ]
    assert losses(group_of(group(*members, master=None, eligible=[4])), None) == lines
    assert (
        losses(group_of(group(*members, master=1, eligible=[4])), None) == lines
    )  # recorded still, as nobody may follow it


def test_a_forced_election_over_a_living_master_says_what_is_lost() -> None:
    """Broker 3 lacks what the master has: 8,900 bytes and more, as its log is of an older epoch."""
    found = group(member(1, 9000, epoch=5), member(2, 9000, epoch=5), member(3, 100, epoch=3), in_sync=(1, 2))
    assert losses(group_of(found), 3, 17) == [
        "broker 1 is the master and lives: what it acknowledges until broker 3 has taken over is lost, too",
        "broker 3 may lack at least 17 messages, 8900 bytes of what was acknowledged: these are lost if it is chosen; "
        "its log is of epoch 3, not 5, so it may be more",
    ]
    assert losses(group_of(found), 2) == ["broker 2 holds all that was acknowledged: nothing is lost if it is chosen"]


async def beat(client: NetClient, server: NameServer, broker_id: int, end: int) -> None:
    header = BrokerHeartbeatHeader(
        cluster_name="c",
        broker_addr=f"127.0.0.1:{broker_id}",
        broker_name="g",
        broker_id=broker_id,
        epoch=1,
        max_offset=end,
        confirm_offset=end,
        heartbeat_timeout_mills=60_000,
        ha_silent_millis=0,
    )
    assert (await client.invoke(server.address, Command.request(Ask.BROKER_HEARTBEAT, header))).code == Code.SUCCESS


async def test_to_force_a_broker_over_a_living_master_is_asked_for_by_name(server: NameServer) -> None:
    async with NetClient() as client:
        await beat(client, server, 1, 9000)
        await beat(client, server, 2, 8000)
        with pytest.raises(UsageError, match="broker 2 of g cannot be removed: broker 2 is alive") as caught:
            await typed(server, "remove", "g", "2", given="")  # it asks nothing
        assert caught.value.hint.startswith("stop it first")
        for words in ((), ("--force",), ("--force", "--to", "1")):
            with pytest.raises(UsageError, match="g has a master that lives, broker 1"):
                await typed(server, "elect", "g", *words, "-y")
        refused = await typed(server, "elect", "g", "--force", "--to", "2", given="n\n")
        assert refused.exit_code == 9
        assert "broker 1 is the master and lives" in refused.output
        assert "at least 1000 bytes" in refused.output
        assert "make broker 2 the master of g instead of broker 1, which lives?" in refused.output
        done = await typed(server, "elect", "g", "--force", "--to", "2", "-y")
        assert "the master of g is broker 2 at 127.0.0.1:2, in epoch 2" in done.stdout


async def test_the_messages_that_a_broker_lacks_are_counted(tmp_path: Path) -> None:
    async with (
        Standalone(tmp_path / "1", namesrv_port=0, broker_port=0) as full,
        Standalone(tmp_path / "2", namesrv_port=0, broker_port=0) as empty,
    ):
        patient = ProducerConfig(send_timeout_ms=30_000)
        async with Producer("p", namesrv=full.namesrv_address, config=patient) as producer:
            for _ in range(5):
                await producer.send(Message("T", b"x"))
        addresses = [each.broker_address for each in (full, empty)]
        found = group(*[member(number, 0, address=address) for number, address in enumerate(addresses, 1)])
        async with Cluster(full.namesrv_address) as cluster:
            assert await ClusterReplicas(cluster).lacking(found, 2) == 5
            assert await ClusterReplicas(cluster).lacking(found, 1) == 0
        await empty.stop()
        async with Cluster(full.namesrv_address) as cluster:
            assert await ClusterReplicas(cluster).lacking(found, 2) is None


async def test_a_dead_broker_comes_back_at_another_address(server: NameServer) -> None:
    assert (await typed(server, "move", "g", "2", "127.0.0.1:22", given="n\n")).exit_code == 9
    moved = await typed(server, "move", "g", "2", "127.0.0.1:22", given="y\n")
    assert "broker 2 of g is expected at 127.0.0.1:22" in moved.stdout
    shown = json.loads((await typed(server, "show", "g", "-o", "json")).stdout)
    assert [each["address"] for each in shown["brokers"]] == ["127.0.0.1:1", "127.0.0.1:22"]
    async with NetClient() as client:
        await beat(client, server, 2, 0)
        with pytest.raises(UsageError, match="broker 2 of g lives at 127"):
            await typed(server, "move", "g", "2", "127.0.0.1:23", "-y")
