"""A name server and a broker over real loopback, asked as clients and mqadmin ask them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import RemoteError
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.broker.processors.admin_offset import AdminOffset
from rocketlake.client.producer.producer import Producer
from rocketlake.codec.record import decode_record
from rocketlake.model.message import Message
from rocketlake.model.message_id import offset_message_id
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.positions import QueueOffset
from rocketlake.model.subscription import Subscription
from rocketlake.model.topic import TopicConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.net.request import Handler, Reply, Request
from rocketlake.protocol.bodies import assignment, client, group, heartbeat, lock, stats, topic
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.offset import ConsumerStatus, CorrectionOffsets, ResetOffsets
from rocketlake.protocol.bodies.queue_contents import QueueContents
from rocketlake.protocol.bodies.queue_map import QueueEntry
from rocketlake.protocol.bodies.route import RouteBody
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers import admin_broker, admin_group, admin_topic, namesrv, offset, query
from rocketlake.protocol.headers import client as client_headers
from rocketlake.protocol.headers.pull import PULL_SUSPEND, PullHeader, PullReplyHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.results import PutMessage

NAME = "broker-a"


class Asker:
    """A client with a connection of its own to the broker."""

    def __init__(self, address: str, handlers: dict[int, Handler] | None = None) -> None:
        self.address = address
        self.net = NetClient(handlers=handlers)

    async def ask(
        self, code: int, header: Header | None = None, body: bytes | None = None, *, address: str | None = None
    ) -> Command:
        return await self.net.invoke(address or self.address, Command.request(code, header, body))

    async def good(self, code: int, header: Header | None = None, body: bytes | None = None) -> Command:
        answer = await self.ask(code, header, body)
        assert answer.code == ResponseCode.SUCCESS, answer
        return answer

    async def beat(
        self, client_id: str, group_name: str, topics: tuple[str, ...] = ("T",), *, fingerprint: int = 0,
        without_sub: bool = False, producer: str | None = None,
    ) -> dict[str, str]:  # fmt: skip
        subscriptions = [] if without_sub else [
            heartbeat.SubscriptionEntry.from_model(Subscription(name, version=1)) for name in topics
        ]  # fmt: skip
        body = heartbeat.Heartbeat(
            client_id=client_id,
            consumers=[heartbeat.ConsumerEntry(group_name=group_name, subscriptions=subscriptions)],
            producers=[] if producer is None else [heartbeat.ProducerEntry(group_name=producer)],
            fingerprint=fingerprint,
            without_sub=without_sub,
        )
        return (await self.good(Code.HEART_BEAT, body=body.encode())).fields or {}

    async def members(self, group_name: str) -> list[str] | None:
        header = client_headers.GroupMembersHeader(consumer_group=group_name)
        answer = await self.ask(Code.GET_CONSUMER_LIST_BY_GROUP, header)
        return None if answer.code else client.GroupMembers.decode(answer.body_bytes).client_ids

    async def create_topic(self, name: str, queues: int = 4, **changes: Any) -> Command:
        header = admin_topic.CreateTopicHeader(
            **{
                "topic": name, "default_topic": "TBW102", "read_queue_nums": queues, "write_queue_nums": queues,
                "perm": 6, "topic_filter_type": "SINGLE_TAG", **changes,
            }
        )  # fmt: skip
        return await self.ask(Code.UPDATE_AND_CREATE_TOPIC, header)

    async def committed(self, group_name: str, topic_name: str, queue_id: int) -> int:
        header = offset.QueryOffsetHeader(consumer_group=group_name, topic=topic_name, queue_id=queue_id)
        return (await self.good(Code.QUERY_CONSUMER_OFFSET, header)).header(offset.OffsetReplyHeader).offset

    async def commit(self, group_name: str, topic_name: str, queue_id: int, value: int) -> None:
        header = offset.UpdateOffsetHeader(
            consumer_group=group_name, topic=topic_name, queue_id=queue_id, commit_offset=value
        )
        await self.good(Code.UPDATE_CONSUMER_OFFSET, header)


class World:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.name_server = NameServer(NameServerConfig(listen_port=0, kv_config_path=root / "kvConfig.json"))
        self.broker = self.make_broker()
        self.askers: list[Asker] = []

    def make_broker(self) -> Broker:
        config = BrokerConfig(
            broker_name=NAME, listen_port=0, fast_listen_port=0, store_root=self.root,
            namesrv_addresses=(self.name_server.address,),
        )  # fmt: skip
        store = StoreConfig(
            commit_log_file_bytes=1 << 20,
            consume_queue_file_bytes=20_000,
            index_slots=1000,
            index_entries=4000,
            clean_interval_ms=200,
        )
        return Broker(config, store)

    async def start(self) -> None:
        await self.name_server.start()
        self.broker = self.make_broker()
        await self.broker.start()

    def asker(self, handlers: dict[int, Handler] | None = None) -> Asker:
        self.askers.append(Asker(self.broker.address, handlers))
        return self.askers[-1]

    async def send(self, topic_name: str, queue_id: int, *bodies: bytes) -> None:
        async with Producer("p", namesrv=self.name_server.address) as producer:
            for body in bodies:
                await producer.send(Message(topic_name, body), queue=MessageQueue(topic_name, NAME, queue_id))

    def saved(self, name: str) -> str:
        return (self.root / "config" / name).read_text()

    async def stop(self) -> None:
        for asker in self.askers:
            await asker.net.close()
        await self.broker.stop()
        await self.name_server.stop(0)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.start()
    yield world
    await world.stop()


async def test_members_hear_of_each_other_and_of_who_leaves(world: World) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    def notice(request: Request) -> Reply:
        heard.put_nowait(request.header(client_headers.NotifyConsumersChangedHeader).consumer_group)
        return Reply()

    first = world.asker({Code.NOTIFY_CONSUMER_IDS_CHANGED: notice})
    second = world.asker()
    assert await first.beat("c1", "g") == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert await asyncio.wait_for(heard.get(), 5) == "g"
    await second.beat("c2", "g")
    assert await asyncio.wait_for(heard.get(), 5) == "g"
    assert await first.members("g") == ["c1", "c2"]
    await second.net.close()
    assert await asyncio.wait_for(heard.get(), 5) == "g"
    assert await first.members("g") == ["c1"]
    header = client_headers.UnregisterClientHeader(client_id="c1", consumer_group="g")
    await first.good(Code.UNREGISTER_CLIENT, header)
    assert await first.members("g") is None


async def test_a_short_heartbeat_keeps_the_subscriptions_and_asks_for_them_when_others_were_known(world: World) -> None:
    asker = world.asker()
    assert (await asker.beat("c1", "g", fingerprint=7, without_sub=True))["IS_SUB_CHANGE"] == "true"
    assert (await asker.beat("c1", "g", fingerprint=7))["IS_SUB_CHANGE"] == "false"
    assert (await asker.beat("c1", "g", fingerprint=7, without_sub=True))["IS_SUB_CHANGE"] == "false"
    assert (await asker.beat("c1", "g", fingerprint=8, without_sub=True))["IS_SUB_CHANGE"] == "true"
    answer = await asker.good(
        Code.GET_CONSUMER_CONNECTION_LIST, admin_group.ConsumerConnectionsHeader(consumer_group="g")
    )
    connection = client.ConsumerConnection.decode(answer.body_bytes)
    assert list(connection.subscriptions) == ["T"]
    assert [(entry.client_id, entry.language) for entry in connection.connections] == [("c1", "PYTHON")]


async def test_a_heartbeat_makes_the_group_and_its_retry_topic(world: World) -> None:
    await world.asker().beat("c1", "orders")
    assert world.broker.groups.find("orders") is not None
    retry = world.broker.topics.get("%RETRY%orders")
    assert retry is not None
    assert (retry.read_queues, retry.write_queues, retry.perm) == (1, 1, 6)


async def test_a_heartbeat_with_a_bad_group_name_registers_nobody(world: World) -> None:
    asker = world.asker()
    await asker.beat("c1", "../../etc")
    assert await asker.members("../../etc") is None
    assert world.broker.topics.get("%RETRY%../../etc") is None


async def test_two_clients_never_own_the_same_queue(world: World) -> None:
    async def locked(asker: Asker, client_id: str, code: int = Code.LOCK_BATCH_MQ) -> list[int]:
        queues = [QueueEntry(topic="T", broker_name=NAME, queue_id=queue_id) for queue_id in range(3)]
        body = lock.LockBody(client_id=client_id, consumer_group="g", queues=queues).encode()
        answer = await asker.good(code, body=body)
        return [queue.queue_id for queue in lock.LockReply.decode(answer.body_bytes).queues] if answer.body else []

    first, second = world.asker(), world.asker()
    assert await locked(first, "c1") == [0, 1, 2]
    assert await locked(second, "c2") == []
    await locked(first, "c1", Code.UNLOCK_BATCH_MQ)
    assert await locked(second, "c2") == [0, 1, 2]


async def test_a_topic_is_routed_and_on_disk_when_its_creation_is_answered(world: World) -> None:
    asker = world.asker()
    assert (await asker.create_topic("orders", 3, order=True, attributes="+message.type=FIFO")).code == 0
    assert json.loads(world.saved("topics.json"))["topicConfigTable"]["orders"]["readQueueNums"] == 3
    route = await asker.ask(
        Code.GET_ROUTEINFO_BY_TOPIC, namesrv.GetRouteHeader(topic="orders"), address=world.name_server.address
    )
    assert [queue.read_queue_nums for queue in RouteBody.decode(route.body_bytes).queue_datas] == [3]
    answer = await asker.good(Code.GET_TOPIC_CONFIG, admin_topic.GetTopicConfigHeader(topic="orders"))
    entry = topic.TopicEntry.decode(answer.body_bytes)
    assert (entry.topic_name, entry.order, entry.attributes) == ("orders", True, {"message.type": "FIFO"})


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("../../etc", {}),
        ("a/b", {}),
        ("", {}),
        ("x" * 128, {}),
        ("TBW102", {}),
        ("orders", {"perm": 9}),
        ("orders", {"read_queue_nums": -1}),
        ("orders", {"write_queue_nums": 100_000_000}),
        ("orders", {"topic_filter_type": "NONE"}),
        ("orders", {"attributes": "+queue.type=BatchCQ"}),
    ],
)
async def test_a_topic_that_cannot_be_is_refused(world: World, name: str, changes: dict[str, Any]) -> None:
    answer = await world.asker().create_topic(name, **changes)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark
    assert world.broker.topics.get("orders") is None


async def test_a_deleted_topic_takes_its_messages_and_offsets_along(world: World) -> None:
    asker = world.asker()
    await asker.create_topic("orders", 1)
    await world.send("orders", 0, b"a", b"b")
    await asker.commit("g", "orders", 0, 1)
    await asker.good(Code.DELETE_TOPIC_IN_BROKER, admin_topic.DeleteTopicHeader(topic="orders"))
    assert (await asker.ask(Code.GET_TOPIC_STATS_INFO, admin_topic.TopicStatsHeader(topic="orders"))).code == (
        ResponseCode.TOPIC_NOT_EXIST
    )
    assert world.broker.offsets.query("g", "orders", 0) == -1
    assert "orders" not in json.loads(world.saved("topics.json"))["topicConfigTable"]
    await asker.create_topic("orders", 1)
    answer = await asker.good(Code.GET_TOPIC_STATS_INFO, admin_topic.TopicStatsHeader(topic="orders"))
    assert [entry.max_offset for entry in stats.TopicStats.decode(answer.body_bytes).offsets.values()] == [0]


async def test_topic_tables_lists_and_readers(world: World) -> None:
    asker = world.asker()
    body = topic.TopicConfigList(topics=[topic.TopicEntry(topic_name="A"), topic.TopicEntry(topic_name="B")])
    await asker.good(Code.UPDATE_AND_CREATE_TOPIC_LIST, body=body.encode())
    answer = await asker.good(Code.GET_ALL_TOPIC_CONFIG)
    table = topic.TopicTable.decode(answer.body_bytes)
    assert {"A", "B", "TBW102"} <= set(table.topics)
    assert answer.fields == {"totalTopicNum": str(len(table.topics))}
    page = await asker.good(Code.GET_ALL_TOPIC_CONFIG, admin_topic.AllTopicsHeader(topic_seq=1, max_topic_num=2))
    assert list(topic.TopicTable.decode(page.body_bytes).topics) == list(table.topics)[1:3]
    system = stats.TopicList.decode((await asker.good(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).body_bytes)
    assert "SCHEDULE_TOPIC_XXXX" in system.topics and "A" not in system.topics
    await asker.beat("c1", "online", ("A",))
    await asker.commit("offline", "A", 0, 1)
    readers = await asker.good(Code.QUERY_TOPIC_CONSUME_BY_WHO, admin_topic.TopicConsumersHeader(topic="A"))
    assert stats.GroupList.decode(readers.body_bytes).groups == ["offline", "online"]


async def test_what_is_forbidden_to_groups_has_a_limit(world: World) -> None:
    asker = world.asker()
    await asker.good(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.GroupEntry(group_name="orders").encode())
    for name, of, code in (
        ("nobody", "T", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("orders", "T" * 300, ResponseCode.INVALID_PARAMETER),
    ):
        header = admin_group.GroupForbiddenHeader(group=name, topic=of, readable=False)
        assert (await asker.ask(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, header)).code == code
    assert world.broker.groups.forbidden_table() == {}
    header = admin_group.GroupForbiddenHeader(group="nobody", topic="T", readable=True)
    allowed = await asker.good(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, header)
    assert group.GroupForbidden.decode(allowed.body_bytes).readable


async def test_a_group_is_made_changed_forbidden_and_deleted(world: World) -> None:
    asker = world.asker()
    entry = group.GroupEntry(group_name="orders", retry_max_times=3, consume_broadcast_enable=False)
    await asker.good(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=entry.encode())
    saved = json.loads(world.saved("subscriptionGroup.json"))["subscriptionGroupTable"]["orders"]
    assert (saved["retryMaxTimes"], saved["consumeBroadcastEnable"]) == (3, False)
    answer = await asker.good(Code.GET_SUBSCRIPTIONGROUP_CONFIG, admin_group.GetGroupConfigHeader(group="orders"))
    assert group.GroupEntry.decode(answer.body_bytes).retry_max_times == 3
    header = admin_group.GroupForbiddenHeader(group="orders", topic="T", readable=False)
    forbidden = await asker.good(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, header)
    assert not group.GroupForbidden.decode(forbidden.body_bytes).readable
    table = group.GroupTable.decode((await asker.good(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body_bytes)
    assert table.groups["orders"].retry_max_times == 3
    assert table.forbidden == {"orders": {"T": 4}}
    await asker.commit("orders", "TBW102", 0, 5)
    delete = admin_group.DeleteGroupHeader(group_name="orders", clean_offset=True)
    await asker.good(Code.DELETE_SUBSCRIPTIONGROUP, delete)
    gone = await asker.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, admin_group.GetGroupConfigHeader(group="orders"))
    assert gone.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert world.broker.offsets.query("orders", "TBW102", 0) == -1


async def test_attributes_of_a_group_are_changed_one_by_one(world: World) -> None:
    asker = world.asker()

    async def put(attributes: dict[str, str]) -> Command:
        entry = group.GroupEntry(group_name="orders", attributes=attributes)
        return await asker.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=entry.encode())

    refused = await put({"+no.such": "1"})
    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert "group orders: unknown attribute 'no.such'" in (refused.remark or "")
    assert world.broker.groups.find("orders") is None
    for changes in ({"+priority.factor": "7"}, {}):
        assert (await put(changes)).code == ResponseCode.SUCCESS
        saved = json.loads(world.saved("subscriptionGroup.json"))["subscriptionGroupTable"]["orders"]
        assert saved["attributes"] == {"priority.factor": "7"}


async def test_a_group_with_a_bad_name_is_refused(world: World) -> None:
    body = group.GroupConfigList(groups=[group.GroupEntry(group_name="fine"), group.GroupEntry(group_name="a/b")])
    answer = await world.asker().ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body.encode())
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert world.broker.groups.find("fine") is None


async def test_lag_is_what_was_sent_minus_what_was_consumed(world: World) -> None:
    asker = world.asker()
    await asker.create_topic("orders", 2)
    await world.send("orders", 0, b"a", b"b", b"c")
    await asker.commit("g", "orders", 0, 2)
    header = admin_group.ConsumeStatsHeader(consumer_group="g")
    answer = await asker.good(Code.GET_CONSUME_STATS, header)
    offsets = stats.ConsumeStats.decode(answer.body_bytes).offsets
    first = offsets[MessageQueue("orders", NAME, 0)]
    assert (first.broker_offset, first.consumer_offset, first.pull_offset) == (3, 2, 2)
    assert first.last_timestamp > 1_600_000_000_000
    second = offsets[MessageQueue("orders", NAME, 1)]
    assert (second.broker_offset, second.consumer_offset, second.last_timestamp) == (0, 0, 0)
    span = await asker.good(Code.QUERY_CONSUME_TIME_SPAN, admin_group.ConsumeTimeSpanHeader(topic="orders", group="g"))
    assert stats.ConsumeTimeSpans.decode(span.body_bytes).spans[0].delay_time >= 0
    all_groups = await asker.good(Code.GET_BROKER_CONSUME_STATS, admin_group.BrokerConsumeStatsHeader(is_order=False))
    assert b'"totalDiff":1' in all_groups.body_bytes
    topics = await asker.good(Code.QUERY_TOPICS_BY_CONSUMER, admin_group.TopicsOfConsumerHeader(group="g"))
    assert stats.TopicList.decode(topics.body_bytes).topics == ["orders"]


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (Code.QUERY_CONSUME_TIME_SPAN, admin_group.ConsumeTimeSpanHeader(topic="WIDE-a", group="g")),
        (Code.GET_CONSUME_STATS, admin_group.ConsumeStatsHeader(consumer_group="g")),
    ],
)
async def test_an_answer_that_no_frame_holds_is_refused_before_a_queue_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch, code: Code, header: Header
) -> None:
    for wide in ("WIDE-a", "WIDE-b"):
        world.broker.topics.put(TopicConfig(wide, read_queues=65_536, write_queues=65_536))
        world.broker.offsets.commit("g", wide, 0, 0)
    reads, read = list[int](), world.broker.store.max_offset

    def counted(topic: str, queue_id: int) -> QueueOffset:
        reads.append(queue_id)
        return read(topic, queue_id)

    monkeypatch.setattr(world.broker.store, "max_offset", counted)
    answer = await world.asker().ask(code, header)
    assert "no frame holds it" in (answer.remark or "")
    assert reads == []


async def test_a_reset_moves_the_group_and_keeps_older_commits_out(world: World) -> None:
    asker = world.asker()
    await asker.create_topic("orders", 2)
    await world.send("orders", 0, b"a", b"b", b"c")
    await asker.beat("c1", "g", ("orders",))
    await asker.commit("g", "orders", 0, 3)
    to_begin = client_headers.ResetOffsetHeader(topic="orders", group="g", timestamp=0, is_force=True)
    answer = await asker.good(Code.INVOKE_BROKER_TO_RESET_OFFSET, to_begin)
    assert ResetOffsets.decode(answer.body_bytes).offsets == {
        MessageQueue("orders", NAME, 0): 0,
        MessageQueue("orders", NAME, 1): 0,
    }
    await asker.commit("g", "orders", 0, 3)
    assert await asker.committed("g", "orders", 0) == 0
    one = client_headers.ResetOffsetHeader(topic="orders", group="g", timestamp=-1, is_force=True, queue_id=0, offset=2)
    await asker.good(Code.INVOKE_BROKER_TO_RESET_OFFSET, one)
    assert await asker.committed("g", "orders", 0) == 2
    far = client_headers.ResetOffsetHeader(topic="orders", group="g", timestamp=-1, is_force=True, queue_id=0, offset=9)
    refused = await asker.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, far)
    assert "not in consume queue range [0-4]" in (refused.remark or "")


async def test_a_topic_that_is_made_anew_while_a_reset_is_served_hides_nothing(world: World) -> None:
    asker, broker = world.asker(), world.broker
    await asker.create_topic("orders", 2)
    await world.send("orders", 0, b"a", b"b", b"c")
    await asker.beat("c1", "g", ("orders",))
    admin = AdminOffset(
        topics=broker.topics, groups=broker.groups, offsets=broker.offsets, consumers=broker.clients.consumers,
        store=broker.store, cold_requests=broker.ground.cold_requests, hold=broker.reading.hold, stats=broker.stats,
        identity=broker.ground.role.identity, pops=broker.popping.progress, clock=SystemClock(),
    )  # fmt: skip
    to_end = client_headers.ResetOffsetHeader(topic="orders", group="g", timestamp=-1, is_force=True)
    steps = admin.reset(Request(Command.request(Code.INVOKE_BROKER_TO_RESET_OFFSET, to_end), Any, 0.0))  # type: ignore[arg-type]
    next(steps)
    next(steps)  # where to is known now
    await asker.good(Code.DELETE_TOPIC_IN_BROKER, admin_topic.DeleteTopicHeader(topic="orders"))
    await asker.create_topic("orders", 2)
    await world.send("orders", 0, b"new")
    with pytest.raises(RemoteError, match="made anew"):
        next(steps)
    assert broker.offsets.query("g", "orders", 0) < 1


async def test_one_group_can_go_on_where_another_is(world: World) -> None:
    asker = world.asker()
    await asker.commit("old", "TBW102", 3, 77)
    header = admin_group.CloneGroupOffsetHeader(src_group="old", dest_group="new", topic="TBW102", offline=True)
    await asker.good(Code.CLONE_GROUP_OFFSET, header)
    assert await asker.committed("new", "TBW102", 3) == 77


async def test_offsets_survive_a_restart_of_the_broker(world: World) -> None:
    asker = world.asker()
    await asker.create_topic("T")
    await world.send("T", 0, b"one", b"two", b"three")
    await asker.commit("g", "T", 0, 2)
    await world.broker.stop()
    assert '"T@g":{0:2' in world.saved("consumerOffset.json")
    world.broker = world.make_broker()
    await world.broker.start()
    assert await world.asker().committed("g", "T", 0) == 2


async def test_running_info_is_asked_of_the_client_itself(world: World) -> None:
    def answer(request: Request) -> Reply:
        header = request.header(client_headers.RunningInfoHeader)
        return Reply(body=client.ConsumerRunningInfo(properties={"asked": header.client_id}).encode())

    consumer = world.asker({Code.GET_CONSUMER_RUNNING_INFO: answer})
    await consumer.beat("c1", "g")
    header = client_headers.RunningInfoHeader(consumer_group="g", client_id="c1")
    info = await world.asker().good(Code.GET_CONSUMER_RUNNING_INFO, header)
    assert client.ConsumerRunningInfo.decode(info.body_bytes).properties == {"asked": "c1"}
    nobody = client_headers.RunningInfoHeader(consumer_group="g", client_id="c2")
    assert "not online" in ((await world.asker().ask(Code.GET_CONSUMER_RUNNING_INFO, nobody)).remark or "")


async def test_members_of_a_group_are_asked_for_their_offsets(world: World) -> None:
    def answer(request: Request) -> Reply:
        header = request.header(client_headers.ConsumerStatusHeader)
        return Reply(body=ConsumerStatus({MessageQueue(header.topic, NAME, 0): len(header.group)}).encode())

    await world.asker({Code.GET_CONSUMER_STATUS_FROM_CLIENT: answer}).beat("c1", "orders")
    silent = {Code.GET_CONSUMER_STATUS_FROM_CLIENT: lambda _request: Reply(1, remark="not mine")}
    await world.asker(silent).beat("c2", "orders")

    async def ask(group: str, client_id: str | None = None) -> Command:
        header = client_headers.ConsumerStatusHeader(topic="T", group=group, client_addr=client_id)
        return await world.asker().ask(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)

    every = await ask("orders")
    assert ConsumerStatus.decode(every.body_bytes).clients == {"c1": {MessageQueue("T", NAME, 0): 6}}
    assert every.remark == "no answer from 1 of 2 clients: c2: not mine"
    one = await ask("orders", "c1")
    assert (one.code, one.remark) == (ResponseCode.SUCCESS, None)
    assert ConsumerStatus.decode(one.body_bytes).clients == {"c1": {MessageQueue("T", NAME, 0): 6}}
    assert "not online" in ((await ask("orders", "c3")).remark or "")
    assert "No Any Consumer online" in ((await ask("nobody")).remark or "")


async def test_a_correction_tells_the_least_offset_and_forgets_none(world: World) -> None:
    asker = world.asker()
    await asker.create_topic("orders", 2)
    for group_name, offsets in {"slow": (3, 9), "fast": (7, 8), "other": (5, 5)}.items():
        for queue_id, value in enumerate(offsets):
            await asker.commit(group_name, "orders", queue_id, value)

    async def ask(compare: str, left_out: str | None = None) -> dict[int, int]:
        header = admin_group.CorrectionOffsetHeader(compare_group=compare, topic="orders", filter_groups=left_out)
        answer = await asker.good(Code.QUERY_CORRECTION_OFFSET, header)
        return CorrectionOffsets.decode(answer.body_bytes).correction_offsets

    assert await ask("fast") == {0: 3, 1: 5}
    assert await ask("fast", "other, slow") == {0: 7, 1: 8}
    assert await ask("slow", "slow") == {0: 2**63 - 1, 1: 5}
    assert await asker.committed("slow", "orders", 0) == 3
    assert await asker.committed("other", "orders", 1) == 5


async def test_producers_are_listed(world: World) -> None:
    asker = world.asker()
    await asker.beat("c1", "g", producer="p")
    answer = await asker.good(
        Code.GET_PRODUCER_CONNECTION_LIST, admin_group.ProducerConnectionsHeader(producer_group="p")
    )
    assert [entry.client_id for entry in client.ProducerConnection.decode(answer.body_bytes).connections] == ["c1"]
    every = client.AllProducers.decode((await asker.good(Code.GET_ALL_PRODUCER_INFO)).body_bytes)
    assert [entry.client_id for entry in every.groups["p"]] == ["c1"]


async def test_the_broker_shares_queues_out(world: World) -> None:
    async def share(client_id: str, strategy: str = "AVG") -> list[int] | None:
        body = assignment.AssignmentRequest(
            topic="orders", consumer_group="g", client_id=client_id, strategy_name=strategy
        )
        answer = await first.good(Code.QUERY_ASSIGNMENT, body=body.encode())
        entries = assignment.AssignmentReply.decode(answer.body_bytes).assignments
        return None if entries is None else [entry.message_queue.queue_id for entry in entries]

    first, second = world.asker(), world.asker()
    await first.create_topic("orders", 3)
    await first.beat("c1", "g", ("orders",))
    await second.beat("c2", "g", ("orders",))
    assert await share("c1") == [0, 1]
    assert await share("c2") == [2]
    assert await share("c2", "AVG_BY_CIRCLE") == [1]
    assert await share("stranger") is None
    assert await share("c1", "MINE") is None


async def test_settings_are_shown_and_only_listed_ones_change(world: World) -> None:
    asker = world.asker()
    answer = await asker.good(Code.GET_BROKER_CONFIG)
    lines = answer.body_bytes.decode().splitlines()
    assert f"brokerName={NAME}" in lines
    assert "flushDiskType=ASYNC_FLUSH" in lines
    assert DataVersionBody.decode((answer.fields or {})["version"].encode())
    refused = await asker.ask(Code.UPDATE_BROKER_CONFIG, body=b"longPollingEnable=false\nstorePathRootDir=/\n")
    assert refused.code == ResponseCode.NO_PERMISSION
    assert "storePathRootDir" in (refused.remark or "")
    assert world.broker.config.now.long_polling_enabled
    await asker.good(Code.UPDATE_BROKER_CONFIG, body=b"longPollingEnable=false\n")
    assert not world.broker.config.now.long_polling_enabled


async def test_the_level_of_the_log_is_changed_while_the_broker_runs(world: World) -> None:
    logger = logging.getLogger("rocketlake")
    before = logger.level
    try:
        await world.asker().good(Code.UPDATE_BROKER_CONFIG, body=b"logLevel=debug\n")
        assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(before)


async def test_a_broker_without_write_permission_shows_read_only_routes(world: World) -> None:
    asker = world.asker()
    await asker.good(Code.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4\n")
    header = namesrv.GetRouteHeader(topic="TBW102")
    async with asyncio.timeout(10):
        while True:
            route = await asker.ask(Code.GET_ROUTEINFO_BY_TOPIC, header, address=world.name_server.address)
            if RouteBody.decode(route.body_bytes).queue_datas[0].perm == 4:
                break


async def test_runtime_figures_have_the_names_tools_read(world: World) -> None:
    await world.asker().create_topic("orders", 1)
    await world.send("orders", 0, b"a", b"b")
    answer = await world.asker().good(Code.GET_BROKER_RUNTIME_INFO)
    table = stats.KVTable.decode(answer.body_bytes).table
    assert table["putMessageTimesTotal"] == "2"
    assert table["msgPutTotalTodayNow"] == "2"
    assert table["brokerVersionDesc"] == "V5_3_3"
    assert len(table["putTps"].split()) == 3
    assert int(table["earliestMessageTimeStamp"]) > 1_600_000_000_000
    assert float(table["commitLogDiskRatio"]) > 0
    missing = admin_broker.BrokerStatsHeader(stats_name="TOPIC_PUT_NUMS", stats_key="nothing")
    assert "not exist" in ((await world.asker().ask(Code.VIEW_BROKER_STATS_DATA, missing)).remark or "")
    found = admin_broker.BrokerStatsHeader(stats_name="TOPIC_PUT_NUMS", stats_key="orders")
    assert stats.BrokerStats.decode((await world.asker().good(Code.VIEW_BROKER_STATS_DATA, found)).body_bytes)


async def test_metadata_for_slaves_is_served(world: World) -> None:
    asker = world.asker()
    await asker.commit("g", "TBW102", 0, 42)
    offsets = (await asker.good(Code.GET_ALL_CONSUMER_OFFSET)).body_bytes
    assert b'"TBW102@g":{0:42' in offsets
    assert b"offsetTable" in (await asker.good(Code.GET_ALL_DELAY_OFFSET)).body_bytes
    assert b"messageRequestModeMap" in (await asker.good(Code.GET_ALL_MESSAGE_REQUEST_MODE)).body_bytes


async def test_a_filter_by_tags_is_fine_and_another_is_refused_clearly(world: World) -> None:
    async def check(expression_type: str | None) -> Command:
        entry = heartbeat.SubscriptionEntry(topic="T", sub_string="a > 1", expression_type=expression_type)
        return await asker.ask(Code.CHECK_CLIENT_CONFIG, body=heartbeat.ClientConfigCheck(subscription=entry).encode())

    asker = world.asker()
    assert (await check("TAG")).code == ResponseCode.SUCCESS
    assert (await check(None)).code == ResponseCode.SUCCESS
    assert (await check("SQL92")).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    "code",
    [
        Code.HEART_BEAT, Code.UNREGISTER_CLIENT, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.CHECK_CLIENT_CONFIG,
        Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.QUERY_ASSIGNMENT, Code.DELETE_TOPIC_IN_BROKER,
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", [b"", b"\xff\x00garbage", b"[1,2,3]", b'{"a":' * 5000])
async def test_a_broken_request_is_answered_and_the_next_one_served(world: World, code: int, body: bytes) -> None:
    asker = world.asker()
    answer = await asker.ask(code, body=body)
    assert answer.code != ResponseCode.SUCCESS
    assert answer.remark
    await asker.good(Code.GET_BROKER_RUNTIME_INFO)


async def test_a_reset_reaches_a_pull_that_waits(world: World) -> None:
    asker = world.asker()
    await asker.create_topic("orders", 1)
    await world.send("orders", 0, b"a", b"b", b"c")
    await asker.beat("c1", "g", ("orders",))
    header = PullHeader(
        consumer_group="g", topic="orders", queue_id=0, queue_offset=3, max_msg_nums=32, sys_flag=PULL_SUSPEND,
        commit_offset=0, suspend_timeout_millis=60_000, subscription="*", sub_version=1,
    )  # fmt: skip
    pull = Command.request(Code.PULL_MESSAGE, header)
    waiting = asyncio.create_task(world.asker().net.invoke(asker.address, pull, 9000))
    while not len(world.broker.reading.hold):
        await asker.good(Code.GET_BROKER_RUNTIME_INFO)
    reset = client_headers.ResetOffsetHeader(topic="orders", group="g", timestamp=0, is_force=True)
    await asker.good(Code.INVOKE_BROKER_TO_RESET_OFFSET, reset)
    answer = await waiting
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED
    assert answer.header(PullReplyHeader).next_begin_offset == 0


async def test_a_client_that_writes_enums_by_ordinal_is_a_member(world: World) -> None:
    asker = world.asker()
    body = (
        b'{"clientID":"cpp@1","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"cpp",'
        b'"messageModel":1,"subscriptionDataSet":[{"subString":"*","subVersion":"1795400000000","topic":"T"}]}],'
        b'"producerDataSet":[]}'
    )
    await asker.good(Code.HEART_BEAT, body=body)
    assert await asker.members("cpp") == ["cpp@1"]


async def test_a_heartbeat_that_cannot_be_read_is_said_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    asker = world.asker()
    body = b'{"clientID":"odd@1","consumerDataSet":[{"groupName":"g","consumeType":99}]}'
    for _ in range(3):
        assert (await asker.ask(Code.HEART_BEAT, body=body)).code == ResponseCode.SYSTEM_ERROR
    (line,) = [text for text in caplog.messages if "cannot be read" in text]
    assert "heartbeat of a client in PYTHON from 127.0.0.1:" in line
    assert "$.consumerDataSet[0].consumeType" in line


async def test_administrators_see_what_each_member_of_an_unequal_group_wants(world: World) -> None:
    one, other = world.asker(), world.asker()
    await one.beat("one", "g", ("A", "B"))
    header = admin_group.ConsumerConnectionsHeader(consumer_group="g")
    told = client.ConsumerConnection.decode((await one.good(Code.GET_CONSUMER_CONNECTION_LIST, header)).body_bytes)
    assert [connection.subscription_set for connection in told.connections] == [None]
    await other.beat("other", "g", ("A",))
    told = client.ConsumerConnection.decode((await one.good(Code.GET_CONSUMER_CONNECTION_LIST, header)).body_bytes)
    wanted = {
        connection.client_id: [entry.topic for entry in connection.subscription_set or ()]
        for connection in told.connections
    }
    assert wanted == {"one": ["A", "B"], "other": ["A"]}


async def test_delayed_messages_count_for_the_delay_topic_and_again_when_they_are_delivered(world: World) -> None:
    asker = world.asker()
    await asker.create_topic("T")
    async with Producer("p", namesrv=world.name_server.address) as producer:
        await producer.send(Message("T", b"x", delay_level=1))

    async def counted(name: str) -> int:
        header = admin_broker.BrokerStatsHeader(stats_name="TOPIC_PUT_NUMS", stats_key=name)
        answer = await asker.ask(Code.VIEW_BROKER_STATS_DATA, header)
        return 0 if answer.code else stats.BrokerStats.decode(answer.body_bytes).stats_minute.sum

    world.broker.stats.take_samples()
    assert await counted("SCHEDULE_TOPIC_XXXX") == 1
    async with asyncio.timeout(10):
        while await counted("T") == 0:
            await asyncio.sleep(0.05)
            world.broker.stats.take_samples()


async def test_entries_of_a_queue_are_shown(world: World) -> None:
    asker = world.asker()
    await asker.create_topic("T")
    await world.send("T", 1, b"one", b"two", b"three")
    header = query.QueryConsumeQueueHeader(topic="T", queue_id=1, index=1, count=5, consumer_group="g")
    told = QueueContents.decode((await asker.good(Code.QUERY_CONSUME_QUEUE, header)).body_bytes)
    assert (told.min_queue_index, told.max_queue_index, len(told.queue_data)) == (0, 3, 2)
    assert told.filter_data == "g@T is not online!"
    assert all(entry.physic_size > 0 for entry in told.queue_data)
    header.index = 3
    assert "Index 3" in ((await asker.good(Code.QUERY_CONSUME_QUEUE, header)).remark or "")
    header.queue_id = 77
    assert (await asker.ask(Code.QUERY_CONSUME_QUEUE, header)).code == ResponseCode.SYSTEM_ERROR


async def test_unused_topics_are_cleaned_and_those_in_use_stay(world: World) -> None:
    asker = world.asker()
    await asker.create_topic("T")
    await world.send("T", 0, b"one")
    world.broker.store.put(PutMessage("Left", 0, b"over"))
    assert {"T", "Left"} <= set(world.broker.store.queues.topics())
    await asker.good(Code.CLEAN_UNUSED_TOPIC)
    assert "Left" not in world.broker.store.queues.topics()
    assert world.broker.store.max_offset("T", 0) == 1


async def test_expired_files_go_when_an_administrator_asks(world: World) -> None:
    store = world.broker.store
    for _ in range(24):
        store.put(PutMessage("T", 0, b"x" * 100_000))
    assert len(store.log.list.files) > 2
    oldest = store.log.list.files[0].path
    await world.broker.stop()
    os.utime(oldest, (1, 1))  # older than fileReservedTime
    world.broker = world.make_broker()
    await world.broker.start()
    asker, store = world.asker(), world.broker.store
    await asker.good(Code.DELETE_EXPIRED_COMMITLOG)
    async with asyncio.timeout(10):
        while oldest.exists():  # noqa: ASYNC110 - a worker deletes it
            await asyncio.sleep(0.02)
    assert store.min_physical_offset > 0
    await asker.good(Code.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert store.max_offset("T", 0) == 24


async def test_a_stored_message_is_handed_to_a_consumer_and_its_result_comes_back(world: World) -> None:
    await world.send("TBW102", 0, b"again")
    got: list[bytes] = []

    def consume(request: Request) -> Reply:
        got.append(decode_record(memoryview(bytes(request.body))).body)
        return Reply(body=client.ConsumeDirectlyResult(consume_result="CR_SUCCESS").encode())

    consumer = world.asker({Code.CONSUME_MESSAGE_DIRECTLY: consume})
    await consumer.beat("c1", "g")
    host, _, port = world.broker.address.partition(":")
    message_id = offset_message_id(host, int(port), world.broker.store.min_physical_offset)
    header = client_headers.ConsumeDirectlyHeader(consumer_group="g", client_id="c1", msg_id=message_id)
    answer = await world.asker().good(Code.CONSUME_MESSAGE_DIRECTLY, header)
    assert client.ConsumeDirectlyResult.decode(answer.body_bytes).consume_result == "CR_SUCCESS"
    assert got == [b"again"]
    header.client_id = "nobody"
    assert "not online" in ((await world.asker().ask(Code.CONSUME_MESSAGE_DIRECTLY, header)).remark or "")
