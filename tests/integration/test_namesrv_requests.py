"""A name server over real loopback, asked as brokers, clients and mqadmin ask it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.model.topic import DataVersion, TopicConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.register import RegisterBrokerBody, register_crc
from rocketlake.protocol.bodies.route import RouteBody
from rocketlake.protocol.bodies.stats import KVTable, TopicList
from rocketlake.protocol.bodies.topic import TopicTable
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers import namesrv as headers
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode

CLUSTER = "DefaultCluster"
BROKER = "127.0.0.1:10911"
V4_9_3, V5_3_3 = 399, 479


class Asker:
    """One connection to a name server."""

    def __init__(self, server: NameServer) -> None:
        self.address = server.address
        self.net = NetClient()

    async def ask(
        self, code: int, header: Header | None = None, body: bytes | None = None, *, version: int = V5_3_3,
        fields: dict[str, str] | None = None,
    ) -> Command:  # fmt: skip
        command = Command.request(code, header, body, fields=fields)
        command.version = version
        return await self.net.invoke(self.address, command)

    async def register(
        self, *topics: str, broker_id: int = 0, address: str = BROKER, counter: int = 1, compressed: bool = False,
        old: bool = False, crc: int | None = None, name: str = "b", zone: str | None = None,
        sys_flags: tuple[int, ...] = (0,) * 9,
    ) -> Command:  # fmt: skip
        version = DataVersion(counter=counter, timestamp=1)
        configs = [TopicConfig(topic, 4, 8, sys_flag=flag) for topic, flag in zip(topics, sys_flags, strict=False)]
        table = TopicTable.from_model(version, configs)
        register = RegisterBrokerBody(topics=table)
        body = table.encode() if old else register.encode_compressed() if compressed else register.encode()
        header = headers.RegisterBrokerHeader(
            broker_name=name, broker_addr=address, cluster_name=CLUSTER, ha_server_addr=address + "2",
            broker_id=broker_id, compressed=compressed, body_crc32=register_crc(body) if crc is None else crc,
            zone_name=zone,
        )  # fmt: skip
        return await self.ask(Code.REGISTER_BROKER, header, body, version=30 if old else V5_3_3)

    async def route(self, topic: str, *, version: int = V5_3_3, **fields: str) -> Command:
        return await self.ask(
            Code.GET_ROUTEINFO_BY_TOPIC, headers.GetRouteHeader(topic=topic), version=version, fields=fields
        )


@pytest.fixture
def config(tmp_path: Path) -> NameServerConfig:
    return NameServerConfig(listen_port=0, kv_config_path=tmp_path / "kvConfig.json")


@pytest.fixture
async def server(config: NameServerConfig) -> AsyncIterator[NameServer]:
    server = NameServer(config)
    await server.start()
    yield server
    await server.stop(0)


@pytest.fixture
async def asker(server: NameServer) -> AsyncIterator[Asker]:
    asker = Asker(server)
    yield asker
    await asker.net.close()


async def test_clients_find_what_a_broker_registered(asker: Asker) -> None:
    assert (await asker.register("T", "U")).code == ResponseCode.SUCCESS
    route = RouteBody.decode((await asker.route("T")).body_bytes).to_model()
    assert [(q.broker_name, q.read_queues, q.write_queues, q.perm) for q in route.queues] == [("b", 4, 8, 6)]
    assert [(b.cluster, b.name, b.addresses) for b in route.brokers] == [(CLUSTER, "b", {0: BROKER})]


async def test_new_clients_get_standard_json_and_old_ones_unquoted_numbers(asker: Asker) -> None:
    await asker.register("T", "U")
    standard = (await asker.route("T")).body_bytes
    assert json.loads(standard)["brokerDatas"][0]["brokerAddrs"] == {"0": BROKER}
    old = (await asker.route("T", version=V4_9_3)).body_bytes
    assert b'"brokerAddrs":{0:"127.0.0.1:10911"}' in old
    asked_for = (await asker.route("T", version=V4_9_3, acceptStandardJsonOnly="true")).body_bytes
    assert asked_for == standard


async def test_an_unknown_topic_has_no_route(asker: Asker) -> None:
    answer = await asker.route("nothing")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark is not None
    assert answer.remark.startswith("No topic route info in name server for the topic: nothing")


@pytest.mark.parametrize("form", ["compressed", "old"])
async def test_other_forms_of_the_registration_say_the_same(asker: Asker, form: str) -> None:
    answer = await asker.register("T", "U", compressed=form == "compressed", old=form == "old")
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert (await asker.route("U")).code == ResponseCode.SUCCESS


async def test_a_damaged_registration_is_refused(asker: Asker) -> None:
    answer = await asker.register("T", "U", crc=12345)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
    assert (await asker.route("T")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_slave_learns_where_its_master_is(asker: Asker) -> None:
    await asker.register("T", "U")
    answer = await asker.register("T", "U", broker_id=1, address="127.0.0.1:20911")
    told = answer.header(headers.RegisterBrokerReplyHeader)
    assert (told.master_addr, told.ha_server_addr) == (BROKER, BROKER + "2")


async def test_a_broker_whose_link_closes_is_gone_at_once(server: NameServer, asker: Asker) -> None:
    broker = Asker(server)
    await broker.register("T", "U")
    assert (await asker.route("T")).code == ResponseCode.SUCCESS
    await broker.net.close()
    while (await asker.route("T")).code == ResponseCode.SUCCESS:
        pass
    assert server.routes.brokers() == {}


async def test_a_broker_that_says_goodbye_is_gone(asker: Asker) -> None:
    await asker.register("T", "U")
    header = headers.UnregisterBrokerHeader(broker_name="b", broker_addr=BROKER, cluster_name=CLUSTER, broker_id=0)
    assert (await asker.ask(Code.UNREGISTER_BROKER, header)).code == ResponseCode.SUCCESS
    assert (await asker.route("T")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_the_data_version_tells_a_broker_whether_to_register_again(asker: Asker) -> None:
    await asker.register("T", "U", counter=5)
    header = headers.QueryDataVersionHeader(broker_name="b", broker_addr=BROKER, cluster_name=CLUSTER, broker_id=0)
    same = await asker.ask(Code.QUERY_DATA_VERSION, header, DataVersionBody(counter=5, timestamp=1).encode())
    assert same.fields == {"changed": "false"}
    newer = await asker.ask(Code.QUERY_DATA_VERSION, header, DataVersionBody(counter=6, timestamp=1).encode())
    assert newer.fields == {"changed": "true"}
    assert DataVersionBody.decode(newer.body_bytes).counter == 5


async def test_the_cluster_picture_and_the_members_of_a_broker_name(asker: Asker) -> None:
    await asker.register("T", "U")
    await asker.register("T", "U", broker_id=1, address="127.0.0.1:20911")
    cluster = (await asker.ask(Code.GET_BROKER_CLUSTER_INFO)).body_bytes
    assert b'"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:20911"}' in cluster
    assert b'"clusterAddrTable":{"DefaultCluster":["b"]}' in cluster
    header = headers.BrokerMemberGroupHeader(cluster_name=CLUSTER, broker_name="b")
    members = (await asker.ask(Code.GET_BROKER_MEMBER_GROUP, header)).body_bytes
    assert b'"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:20911"}' in members


async def test_topic_lists(asker: Asker) -> None:
    await asker.register("T", "U")
    every = TopicList.decode((await asker.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body_bytes)
    assert every.topics == ["T", "U"]
    header = headers.TopicsByClusterHeader(cluster=CLUSTER)
    of_cluster = TopicList.decode((await asker.ask(Code.GET_TOPICS_BY_CLUSTER, header)).body_bytes)
    assert of_cluster.topics == ["T", "U"]
    system = TopicList.decode((await asker.ask(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS)).body_bytes)
    assert (system.topics, system.broker_addr) == ([CLUSTER, "b"], BROKER)


async def test_unit_topic_lists(asker: Asker) -> None:
    async def listed(code: int) -> list[str]:
        return TopicList.decode((await asker.ask(code)).body_bytes).topics

    await asker.register("plain", "unit", "sub", "both", sys_flags=(0, 1, 2, 3))
    assert await listed(Code.GET_UNIT_TOPIC_LIST) == ["unit", "both"]
    assert await listed(Code.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["sub", "both"]
    assert await listed(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]


async def test_a_client_that_stays_in_its_zone_sees_the_brokers_there(asker: Asker) -> None:
    async def seen(**fields: str) -> list[str]:
        route = RouteBody.decode((await asker.route("T", **fields)).body_bytes)
        assert {queues.broker_name for queues in route.queue_datas} == {b.broker_name for b in route.broker_datas}
        return sorted(broker.broker_name for broker in route.broker_datas)

    await asker.register("T", "U", name="here", zone="East", address="127.0.0.1:1")
    await asker.register("T", "U", name="there", zone="West", address="127.0.0.1:2")
    assert await seen() == ["here", "there"]
    assert await seen(__ZONE_MODE="true", __ZONE_NAME="east") == ["here"]
    assert await seen(__ZONE_MODE="false", __ZONE_NAME="east") == ["here", "there"]


async def test_a_wiped_write_permission_shows_in_routes_until_it_is_added_again(asker: Asker) -> None:
    async def perm() -> int:
        return RouteBody.decode((await asker.route("T")).body_bytes).queue_datas[0].perm

    await asker.register("T", "U")
    assert await perm() == 6
    header = headers.WritePermHeader(broker_name="b")
    assert (await asker.ask(Code.WIPE_WRITE_PERM_OF_BROKER, header)).fields == {"wipeTopicCount": "2"}
    assert await perm() == 4
    assert (await asker.ask(Code.ADD_WRITE_PERM_OF_BROKER, header)).fields == {"addTopicCount": "2"}
    assert await perm() == 6


async def test_a_deleted_topic_is_gone_and_an_added_one_there(asker: Asker) -> None:
    await asker.register("T", "U")
    assert (await asker.ask(Code.DELETE_TOPIC_IN_NAMESRV, headers.DeleteTopicInNamesrvHeader(topic="T"))).code == 0
    assert (await asker.route("T")).code == ResponseCode.TOPIC_NOT_EXIST
    body = RouteBody.decode((await asker.route("U")).body_bytes).encode()
    assert (await asker.ask(Code.REGISTER_TOPIC_IN_NAMESRV, headers.RegisterTopicHeader(topic="V"), body)).code == 0
    assert (await asker.route("V")).code == ResponseCode.SUCCESS


async def test_kv_settings_are_kept_over_a_restart(config: NameServerConfig, asker: Asker) -> None:
    put = headers.PutKvHeader(kv_namespace="ns", key="k", value="Wert ü")
    assert (await asker.ask(Code.PUT_KV_CONFIG, put)).code == ResponseCode.SUCCESS
    get = headers.GetKvHeader(kv_namespace="ns", key="k")
    assert (await asker.ask(Code.GET_KV_CONFIG, get)).fields == {"value": "Wert ü"}
    again = NameServer(config)
    await again.start()
    other = Asker(again)
    listed = await other.ask(Code.GET_KVLIST_BY_NAMESPACE, headers.KvListHeader(kv_namespace="ns"))
    assert KVTable.decode(listed.body_bytes).table == {"k": "Wert ü"}
    await other.net.close()
    await again.stop(0)
    assert (await asker.ask(Code.DELETE_KV_CONFIG, headers.DeleteKvHeader(kv_namespace="ns", key="k"))).code == 0
    assert (await asker.ask(Code.GET_KV_CONFIG, get)).code == ResponseCode.QUERY_NOT_FOUND


async def test_ordered_topics_reach_brokers_and_routes(asker: Asker) -> None:
    put = headers.PutKvHeader(kv_namespace="ORDER_TOPIC_CONFIG", key="T", value="b:4")
    await asker.ask(Code.PUT_KV_CONFIG, put)
    answer = await asker.register("T", "U")
    assert KVTable.decode(answer.body_bytes).table == {"T": "b:4"}
    assert RouteBody.decode((await asker.route("T")).body_bytes).order_topic_conf is None
    await asker.ask(Code.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
    assert RouteBody.decode((await asker.route("T")).body_bytes).order_topic_conf == "b:4"


async def test_a_setting_changes_only_when_it_is_on_the_list(asker: Asker) -> None:
    async def settings() -> list[str]:
        return (await asker.ask(Code.GET_NAMESRV_CONFIG)).body_bytes.decode().splitlines()

    before = await settings()
    assert "enableTopicList=true" in before
    refused = await asker.ask(Code.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=false\nkvConfigPath=/etc/passwd\n")
    assert refused.code == ResponseCode.NO_PERMISSION
    assert "kvConfigPath" in (refused.remark or "")
    assert await settings() == before
    assert (await asker.ask(Code.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=maybe\n")).code != 0
    assert (await asker.ask(Code.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=false\n")).code == 0
    assert "enableTopicList=false" in await settings()
    header = headers.TopicsByClusterHeader(cluster=CLUSTER)
    assert (await asker.ask(Code.GET_TOPICS_BY_CLUSTER, header)).code == ResponseCode.SYSTEM_ERROR


async def test_guarded_requests_are_refused_when_nobody_may_send_them(config: NameServerConfig) -> None:
    server = NameServer(replace(config, admin_access=AdminAccess.NONE))
    await server.start()
    asker = Asker(server)
    await asker.register("T", "U")
    answer = await asker.ask(Code.DELETE_TOPIC_IN_NAMESRV, headers.DeleteTopicInNamesrvHeader(topic="T"))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "adminAccess" in (answer.remark or "")
    assert (await asker.route("T")).code == ResponseCode.SUCCESS
    await asker.net.close()
    await server.stop(0)


@pytest.mark.parametrize(
    ("code", "fields", "body"),
    [
        (9999, {}, b""),
        (Code.GET_ROUTEINFO_BY_TOPIC, {}, b""),
        (Code.REGISTER_BROKER, {"brokerName": "b"}, b""),
        (Code.QUERY_DATA_VERSION, {"brokerName": "b", "brokerAddr": "a", "clusterName": "c", "brokerId": "x"}, b"{"),
        (Code.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T"}, b"\xff\xfe not json"),
        (Code.UPDATE_NAMESRV_CONFIG, {}, b"\xff\x00=\x01"),
    ],
)
async def test_a_bad_request_is_answered_and_the_next_one_served(
    asker: Asker, code: int, fields: dict[str, Any], body: bytes
) -> None:
    answer = await asker.ask(code, body=body, fields=fields)
    assert answer.code != ResponseCode.SUCCESS
    assert answer.remark
    assert (await asker.register("T", "U")).code == ResponseCode.SUCCESS
