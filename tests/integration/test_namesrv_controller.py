"""The controller inside a name server: its switch, its file, its settings, its health."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.controller.watch.timing import Profile
from rocketlake.namesrv.config import NameServerConfig, load_namesrv_conf
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.controller import (
    ApplyBrokerIdHeader,
    ControllerMetadataReplyHeader,
    NextBrokerIdHeader,
    NextBrokerIdReplyHeader,
)
from rocketlake.protocol.request_code import RequestCode as Ask
from rocketlake.protocol.response_code import ResponseCode as Code


def config(folder: Path, **settings: object) -> NameServerConfig:
    values = {"listenPort": 0, "kvConfigPath": folder / "kvConfig.json", "enableControllerInNamesrv": True, **settings}
    return load_namesrv_conf(None, values)


async def ask(server: NameServer, code: Ask, header: object = None, body: bytes | None = None) -> Command:
    async with NetClient() as client:
        return await client.invoke(server.address, Command.request(code, header, body))  # type: ignore[arg-type]


async def test_it_is_off_unless_it_is_asked_for(tmp_path: Path) -> None:
    async with NameServer(config(tmp_path, enableControllerInNamesrv=False)) as server:
        assert (await ask(server, Ask.CONTROLLER_GET_METADATA_INFO)).code == Code.REQUEST_CODE_NOT_SUPPORTED
    assert not (tmp_path / "controller").exists()


async def test_what_it_decided_is_there_after_a_restart(tmp_path: Path) -> None:
    async with NameServer(config(tmp_path)) as server:
        metadata = (await ask(server, Ask.CONTROLLER_GET_METADATA_INFO)).header(ControllerMetadataReplyHeader)
        assert metadata.controller_leader_address == server.address
        applied = ApplyBrokerIdHeader(
            cluster_name="c", broker_name="b", applied_broker_id=1, register_check_code="127.0.0.1:10911;5"
        )
        assert (await ask(server, Ask.CONTROLLER_APPLY_BROKER_ID, applied)).code == Code.SUCCESS
        assert server.health.is_green
    async with NameServer(config(tmp_path)) as server:
        next_id = await ask(
            server, Ask.CONTROLLER_GET_NEXT_BROKER_ID, NextBrokerIdHeader(cluster_name="c", broker_name="b")
        )
        assert next_id.header(NextBrokerIdReplyHeader).next_broker_id == 2


async def test_a_second_controller_on_the_same_file_is_refused(tmp_path: Path) -> None:
    async with NameServer(config(tmp_path)) as server:
        second = NameServer(config(tmp_path))
        with pytest.raises(StoreError, match="register"):
            await second.start()
        assert (await ask(server, Ask.CONTROLLER_GET_METADATA_INFO)).code == Code.SUCCESS


async def test_its_settings_are_those_of_the_name_server(tmp_path: Path) -> None:
    async with NameServer(config(tmp_path, controllerProfile="CALM")) as server:
        shown = (await ask(server, Ask.GET_CONTROLLER_CONFIG)).body_bytes.decode()
        assert "controllerProfile=CALM" in shown
        assert "enableElectUncleanMaster=false" in shown
        changed = await ask(server, Ask.UPDATE_CONTROLLER_CONFIG, body=b"enableElectUncleanMaster=true")
        assert changed.code == Code.SUCCESS
        assert "enableElectUncleanMaster=true" in (await ask(server, Ask.GET_CONTROLLER_CONFIG)).body_bytes.decode()
        refused = await ask(server, Ask.UPDATE_CONTROLLER_CONFIG, body=b"controllerStorePath=/tmp/other")
        assert refused.code == Code.NO_PERMISSION


def test_its_settings_are_read_and_a_refused_notice_is_named(tmp_path: Path) -> None:
    assert config(tmp_path, controllerProfile="CALM").controller_profile is Profile.CALM
    with pytest.raises(UsageError, match="notifyBrokerRoleChanged"):
        config(tmp_path, notifyBrokerRoleChanged="false")


async def test_without_its_register_health_is_red_and_routes_are_served(tmp_path: Path) -> None:
    """Nothing listens at the address of etcd."""
    settings = {"controllerEtcdAddresses": "http://127.0.0.1:1"}
    async with NameServer(config(tmp_path, **settings)) as server:
        answer = await ask(
            server, Ask.CONTROLLER_GET_NEXT_BROKER_ID, NextBrokerIdHeader(cluster_name="c", broker_name="b")
        )
        assert answer.code == Code.SYSTEM_BUSY
        assert "register does not answer" in (answer.remark or "")
        start = time.monotonic()
        while server.health.is_green:  # the read beside the question gives up at about the same time
            assert time.monotonic() - start < 10
            await asyncio.sleep(0.01)
        assert "register" in " ".join(server.health.troubles)
        assert (await ask(server, Ask.GET_BROKER_CLUSTER_INFO)).code == Code.SUCCESS
