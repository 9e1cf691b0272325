"""`rocketlake replicas` on a real controller whose brokers are played by requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rocketlake.base.errors import LinkError, UsageError
from rocketlake.cli.replicas import lag_of, losses, state_of
from rocketlake.cli.tree import app
from rocketlake.namesrv.config import load_namesrv_conf
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.replicas import GroupView, MemberView
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.controller import ApplyBrokerIdHeader, ElectMasterHeader, RegisterReplicaHeader
from rocketlake.protocol.request_code import RequestCode as Ask
from rocketlake.protocol.response_code import ResponseCode as Code


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
    assert (group["group"], group["master"], group["epoch"], group["in_step"]) == ("g", 1, 1, ["1"])
    shown = json.loads((await typed(server, "show", "g", "-o", "json")).stdout)
    assert [(each["id"], each["role"]) for each in shown["brokers"]] == [(1, "master"), (2, "slave")]
    assert "it has sent no heartbeat to this controller" in shown["brokers"][1]["state"]
    assert "g of c: master 1 in epoch 1" in (await typed(server, "show", "g")).stdout
    (switch,) = json.loads((await typed(server, "history", "g", "-o", "json")).stdout)
    assert (switch["epoch"], switch["to"], switch["address"]) == (1, 1, "127.0.0.1:1")
    assert switch["why"]


async def test_only_a_broker_in_step_takes_over_and_a_dead_one_can_be_removed(server: NameServer) -> None:
    assert "already" in (await typed(server, "hand-over", "g", "1")).stdout
    with pytest.raises(UsageError, match="broker 2 of g is not in step"):
        await typed(server, "hand-over", "g", "2", "-y")
    with pytest.raises(UsageError, match="g has no broker 7"):
        await typed(server, "remove", "g", "7", "-y")
    refused = await typed(server, "remove", "g", "2", given="n\n")
    assert refused.exit_code == 1
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
    assert lag_of(group(master, slave), slave, 0.0) == (1000, "?")
    assert lag_of(group(master, slave), master, 500.0) == ("-", "-")
    assert lag_of(group(master, member(2, -1)), member(2, -1), 500.0) == ("?", "?")


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
    members = member(1, 5000, confirm_offset=4900, pulse="CLOSED"), member(2, 4000), member(3, -1), member(4, 4950)
    lines = losses(group(*members, master=None, eligible=[4]), None)
    assert lines == [
        "broker 1 holds all that was acknowledged: nothing is lost if it is chosen",
        "broker 2 may lack at least 900 bytes of acknowledged messages: these are lost if it is chosen",
        "broker 3 has not said where its log ends: what it lacks is not known",
        "broker 4 holds all that was acknowledged: nothing is lost if it is chosen",
    ]
    assert losses(group(*members), None) == ["g has a master, broker 1: nothing needs to be forced"]
