"""A broker over real loopback, asked with raw protocol commands."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.errors import StoreError
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.net.client import NetClient
from rocketlake.net.network import CannotListen
from rocketlake.protocol.command import FLAG_ONEWAY, Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers import offset as offset_headers
from rocketlake.protocol.headers.query import QueryMessageHeader, ViewMessageHeader
from rocketlake.protocol.headers.send import SendBackHeader, SendHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from tests.requests import pull_header, send_header

FAR_FUTURE_MS = 2**42


def configs(folder: Path, **settings: object) -> tuple[BrokerConfig, StoreConfig]:
    broker = BrokerConfig(broker_name="b", listen_port=0, store_root=folder, **settings)  # type: ignore[arg-type]
    store = StoreConfig(
        commit_log_file_bytes=1024 * 1024, consume_queue_file_bytes=20_000, index_slots=100, index_entries=1000
    )
    return broker, store


class Asker:
    """One client of one broker."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.net = NetClient()

    async def ask(self, code: int, header: Header | None = None, body: bytes | None = None) -> Command:
        return await self.net.invoke(self.address, Command.request(code, header, body), 10_000)

    async def send(self, body: bytes = b"hello", *, topic: str = "T", properties: str = "") -> Command:
        return await self.ask(
            Code.SEND_MESSAGE_V2,
            send_header(topic, properties=properties, born_timestamp=1_700_000_000_000, flag=7),
            body,
        )

    async def pull(self, offset: int = 0, *, topic: str = "T", wait_ms: int = 0) -> Command:
        header = pull_header(topic, 0, offset, wait_ms)
        return await self.ask(Code.PULL_MESSAGE, header)

    async def messages(self, topic: str = "T") -> list[StoredMessage]:
        return decode_records((await self.pull(topic=topic)).body_bytes)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(*configs(tmp_path))
    await broker.start()
    yield broker
    await broker.stop()


@pytest.fixture
async def asker(broker: Broker) -> AsyncIterator[Asker]:
    asker = Asker(broker.address)
    yield asker
    await asker.net.close()


# -- send --------------------------------------------------------------------------------------------------------------


async def test_the_answer_says_where_the_message_is_and_what_its_id_is(asker: Asker) -> None:
    answer = await asker.send(properties="UNIQ_KEY\x01abc\x02")
    fields = answer.fields or {}
    assert answer.code == ResponseCode.SUCCESS
    assert (fields["queueId"], fields["queueOffset"], fields["transactionId"]) == ("0", "0", "abc")
    assert (fields["MSG_REGION"], fields["TRACE_ON"]) == ("DefaultRegion", "true")
    assert parse_offset_message_id(fields["msgId"]) == ("127.0.0.1", int(asker.address.split(":")[1]), 0)


async def test_the_stored_message_is_what_was_sent_plus_the_brokers_properties(asker: Asker) -> None:
    await asker.send(b"body", properties="TAGS\x01A\x02KEYS\x01k1 k2\x02mine\x01x\x02POP_CK\x01old\x02")
    (message,) = await asker.messages()
    unique_key = message.properties.pop("UNIQ_KEY")
    assert len(unique_key) == 32
    assert message.properties == {
        "TAGS": "A",
        "KEYS": "k1 k2",
        "mine": "x",
        "MSG_REGION": "DefaultRegion",
        "CLUSTER": "DefaultCluster",
        "TRACE_ON": "true",
    }
    assert (message.body, message.flag, message.born_ms) == (b"body", 7, 1_700_000_000_000)
    assert message.born_host[0] == "127.0.0.1"


async def test_the_long_header_of_old_clients_is_served(asker: Asker) -> None:
    header = SendHeader(
        producer_group="p",
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=3,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
    )
    answer = await asker.ask(Code.SEND_MESSAGE, header, b"x")
    assert (answer.fields or {})["queueId"] == "3"


async def test_a_one_way_send_is_stored_and_not_answered(asker: Asker) -> None:
    await asker.send()
    command = Command.request(Code.SEND_MESSAGE_V2, send_header(), b"quiet")
    command.flag |= FLAG_ONEWAY
    await asker.net.invoke_oneway(asker.address, command)
    answer = await asker.pull(1)  # on the same connection: served after the send
    assert [message.body for message in decode_records(answer.body_bytes)] == [b"quiet"]


async def test_messages_of_a_batch_keep_their_own_keys(asker: Asker) -> None:
    items = [Message.with_properties("T", b"%d" % number, {"UNIQ_KEY": f"key{number}"}) for number in range(3)]
    header = send_header(properties="UNIQ_KEY\x01batch\x02WAIT\x01true\x02", batch=True)
    answer = await asker.ask(Code.SEND_BATCH_MESSAGE, header, encode_batch(items))
    assert len((answer.fields or {})["msgId"].split(",")) == 3
    stored = await asker.messages()
    assert [(message.body, message.unique_key, message.queue_offset) for message in stored] == [
        (b"0", "key0", 0),
        (b"1", "key1", 1),
        (b"2", "key2", 2),
    ]
    assert stored[0].properties["CLUSTER"] == "DefaultCluster"


async def test_pipelined_sends_of_many_clients_get_dense_offsets(broker: Broker) -> None:
    askers = [Asker(broker.address) for _ in range(4)]
    answers = await asyncio.gather(*(asker.send(b"%d" % number) for number in range(50) for asker in askers))
    offsets = sorted(int((answer.fields or {})["queueOffset"]) for answer in answers)
    assert offsets == list(range(200))
    await asyncio.gather(*(asker.net.close() for asker in askers))


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["..", "../x", "a/b", "a b", "", "x" * 128, "ü"])
async def test_bad_topic_names_are_refused_and_leave_nothing_behind(
    asker: Asker, broker: Broker, tmp_path: Path, topic: str
) -> None:
    assert (await asker.send(topic=topic)).code == ResponseCode.INVALID_PARAMETER
    assert topic not in broker.topics
    queues = tmp_path / "consumequeue"
    assert not queues.exists() or list(queues.iterdir()) == []


async def test_properties_too_long_are_refused(asker: Asker) -> None:
    answer = await asker.send(properties=f"big\x01{'x' * 32_767}\x02")
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "32767" in (answer.remark or "")


async def test_a_message_with_a_damaged_byte_in_its_properties_comes_back_as_it_is(asker: Asker) -> None:
    """A damaged byte made a second separator of names. Nobody could hand the message back: its queue stood still."""
    assert (await asker.send(properties="user\x01a\x01c\x02")).code == ResponseCode.SUCCESS
    (message,) = await asker.messages()
    back = SendBackHeader(offset=message.physical_offset, group="g", delay_level=-1)
    assert (await asker.ask(Code.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SUCCESS
    (letter,) = await asker.messages("%DLQ%g")
    assert (letter.body, letter.properties["user"], letter.reconsume_times) == (b"hello", "a\x01c", 1)


async def test_a_body_too_long_is_refused(asker: Asker) -> None:
    answer = await asker.send(b"x" * (4 * 1024 * 1024 + 1))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "maxMessageSize" in (answer.remark or "")


@pytest.mark.parametrize(
    "body", [b"", b"junk", struct.pack(">iiiii", 2**31 - 1, 0, 0, 0, 0), struct.pack(">iiiiih", 22, 0, 0, 0, -5, 0)]
)
async def test_a_broken_batch_is_refused_as_a_whole(asker: Asker, body: bytes) -> None:
    header = send_header(batch=True)
    answer = await asker.ask(Code.SEND_BATCH_MESSAGE, header, body)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert (await asker.pull()).code == ResponseCode.PULL_NOT_FOUND


async def test_a_missing_field_is_named(asker: Asker) -> None:
    answer = await asker.ask(Code.PULL_MESSAGE)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "consumerGroup" in (answer.remark or "")


async def test_unknown_codes_are_answered_and_the_link_lives(asker: Asker) -> None:
    assert (await asker.ask(31_999)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert (await asker.ask(Code.END_TRANSACTION)).code == ResponseCode.SYSTEM_ERROR
    assert (await asker.send()).code == ResponseCode.SUCCESS


async def test_garbage_on_one_connection_hurts_no_other(asker: Asker) -> None:
    host, port = asker.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    await writer.wait_closed()
    assert (await asker.send()).code == ResponseCode.SUCCESS


# -- queries -----------------------------------------------------------------------------------------------------------


async def test_messages_are_found_by_key_and_by_unique_key(asker: Asker) -> None:
    await asker.send(b"one", properties="KEYS\x01k1 k2\x02UNIQ_KEY\x01u1\x02")
    await asker.send(b"two", properties="KEYS\x01k2\x02UNIQ_KEY\x01u2\x02")

    async def find(key: str, *, unique: bool = False, count: int = 10, topic: str = "T") -> list[bytes]:
        header = QueryMessageHeader(
            topic=topic,
            key=key,
            max_num=count,
            begin_timestamp=0,
            end_timestamp=FAR_FUTURE_MS,
            unique_key=unique,
        )
        answer = await asker.ask(Code.QUERY_MESSAGE, header)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        return [message.body for message in decode_records(answer.body_bytes)]

    assert await find("k1") == [b"one"]
    assert sorted(await find("k2")) == [b"one", b"two"]
    assert await find("u2", unique=True, count=0) == [b"two"]
    assert await find("k3") == []
    assert await find("k1", topic="../T") == []
    assert await find("k1", count=-1) == []
    assert len(await find("k2", count=2**31 - 1)) == 2


async def test_a_message_is_found_by_its_offset_id(asker: Asker) -> None:
    await asker.send(b"one")
    answer = await asker.send(b"two")
    place = parse_offset_message_id((answer.fields or {})["msgId"])[2]
    found = await asker.ask(Code.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=place))
    assert [message.body for message in decode_records(found.body_bytes)] == [b"two"]
    for bad in (-1, 1, place + 1, 2**40, 2**63 - 1):
        refused = await asker.ask(Code.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=bad))
        assert refused.code == ResponseCode.SYSTEM_ERROR


# -- offsets -----------------------------------------------------------------------------------------------------------


async def test_queue_offsets_and_times(asker: Asker) -> None:
    for _ in range(3):
        await asker.send()
    (first, *_) = await asker.messages()

    async def offset(code: int, header: Header) -> int:
        return int(((await asker.ask(code, header)).fields or {})["offset"])

    assert await offset(Code.GET_MAX_OFFSET, offset_headers.MaxOffsetHeader(topic="T", queue_id=0)) == 3
    assert await offset(Code.GET_MIN_OFFSET, offset_headers.MinOffsetHeader(topic="T", queue_id=0)) == 0
    search = offset_headers.SearchOffsetHeader(topic="T", queue_id=0, timestamp=0)
    assert await offset(Code.SEARCH_OFFSET_BY_TIMESTAMP, search) == 0
    search.timestamp = FAR_FUTURE_MS
    assert await offset(Code.SEARCH_OFFSET_BY_TIMESTAMP, search) in (2, 3)
    earliest = await asker.ask(
        Code.GET_EARLIEST_MSG_STORETIME, offset_headers.EarliestTimeHeader(topic="T", queue_id=0)
    )
    assert int((earliest.fields or {})["timestamp"]) == first.store_ms


@pytest.mark.parametrize(("topic", "queue_id"), [("nothing", 0), ("../x", 0), ("TBW102", 99), ("TBW102", -1)])
async def test_asking_for_a_queue_that_is_not_there_makes_none(
    asker: Asker, tmp_path: Path, topic: str, queue_id: int
) -> None:
    answer = await asker.ask(Code.GET_MAX_OFFSET, offset_headers.MaxOffsetHeader(topic=topic, queue_id=queue_id))
    assert (answer.fields or {})["offset"] == "0"
    answer = await asker.ask(
        Code.GET_EARLIEST_MSG_STORETIME, offset_headers.EarliestTimeHeader(topic=topic, queue_id=queue_id)
    )
    assert (answer.fields or {})["timestamp"] == "-1"
    queues = tmp_path / "consumequeue"
    assert not queues.exists() or list(queues.iterdir()) == []


async def test_a_committed_offset_is_given_back(asker: Asker) -> None:
    await asker.send()
    query = offset_headers.QueryOffsetHeader(consumer_group="g", topic="T", queue_id=0)
    fresh = await asker.ask(Code.QUERY_CONSUMER_OFFSET, query)
    assert (fresh.code, (fresh.fields or {})["offset"]) == (ResponseCode.SUCCESS, "0")
    update = offset_headers.UpdateOffsetHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=1)
    assert (await asker.ask(Code.UPDATE_CONSUMER_OFFSET, update)).code == ResponseCode.SUCCESS
    known = await asker.ask(Code.QUERY_CONSUMER_OFFSET, query)
    assert (known.fields or {})["offset"] == "1"


async def test_a_new_group_on_an_empty_queue_has_no_offset(asker: Asker) -> None:
    query = offset_headers.QueryOffsetHeader(consumer_group="g", topic="TBW102", queue_id=0)
    assert (await asker.ask(Code.QUERY_CONSUMER_OFFSET, query)).code == ResponseCode.QUERY_NOT_FOUND
    await asker.send()
    query = offset_headers.QueryOffsetHeader(consumer_group="g", topic="T", queue_id=0, set_zero_if_not_found=False)
    assert (await asker.ask(Code.QUERY_CONSUMER_OFFSET, query)).code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    ("group", "topic", "queue_id", "offset", "code"),
    [
        ("g", "nothing", 0, 1, ResponseCode.TOPIC_NOT_EXIST),
        ("a/b", "TBW102", 0, 1, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("g", "TBW102", 8, 1, ResponseCode.INVALID_PARAMETER),
        ("g", "TBW102", -1, 1, ResponseCode.INVALID_PARAMETER),
        ("g", "TBW102", 0, -1, ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_offsets_that_make_no_sense_are_refused(
    asker: Asker, broker: Broker, group: str, topic: str, queue_id: int, offset: int, code: int
) -> None:
    header = offset_headers.UpdateOffsetHeader(
        consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
    )
    assert (await asker.ask(Code.UPDATE_CONSUMER_OFFSET, header)).code == code
    assert list(broker.offsets.all()) == []


async def test_a_waiting_reset_is_not_overwritten_by_a_commit(asker: Asker, broker: Broker) -> None:
    await asker.send()
    broker.offsets.assign_reset("g", "T", 0, 0)
    update = offset_headers.UpdateOffsetHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=1)
    answer = await asker.ask(Code.UPDATE_CONSUMER_OFFSET, update)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "Offset has been previously reset")
    assert broker.offsets.query("g", "T", 0) == 0


# -- the broker as a whole ---------------------------------------------------------------------------------------------


async def test_a_held_pull_is_answered_when_a_message_comes(asker: Asker) -> None:
    await asker.send()
    waiting = asyncio.create_task(asker.pull(1, wait_ms=8000))
    other = Asker(asker.address)
    while not (await other.ask(Code.GET_BROKER_RUNTIME_INFO)).body_bytes:
        pass
    await other.send(b"late")
    assert [message.body for message in decode_records((await waiting).body_bytes)] == [b"late"]
    await other.net.close()


async def test_the_fast_listener_serves_the_same(tmp_path: Path, unused_tcp_port: int) -> None:
    broker = Broker(*configs(tmp_path, fast_listen_port=unused_tcp_port))
    await broker.start()
    assert broker.fast_address == f"127.0.0.1:{unused_tcp_port}"
    asker = Asker(broker.fast_address)
    assert (await asker.send()).code == ResponseCode.SUCCESS
    assert (await asker.pull()).code == ResponseCode.SUCCESS
    await asker.net.close()
    await broker.stop()


async def test_topics_messages_and_offsets_survive_a_restart(tmp_path: Path) -> None:
    first = Broker(*configs(tmp_path))
    await first.start()
    asker = Asker(first.address)
    await asker.send(b"kept", topic="orders")
    update = offset_headers.UpdateOffsetHeader(consumer_group="g", topic="orders", queue_id=0, commit_offset=1)
    await asker.ask(Code.UPDATE_CONSUMER_OFFSET, update)
    await asker.net.close()
    await first.stop()
    second = Broker(*configs(tmp_path))
    await second.start()
    asker = Asker(second.address)
    assert [message.body for message in await asker.messages("orders")] == [b"kept"]
    assert second.offsets.query("g", "orders", 0) == 1
    assert second.groups.find("g") is not None
    await asker.net.close()
    await second.stop()


async def test_a_second_broker_on_the_same_store_is_refused_and_the_first_serves_on(
    broker: Broker, asker: Asker, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="lock"):
        await Broker(*configs(tmp_path)).start()
    assert (await asker.send()).code == ResponseCode.SUCCESS


async def test_a_taken_port_stops_the_start_and_leaves_the_store_free(broker: Broker, tmp_path: Path) -> None:
    port = int(broker.address.split(":")[1])
    folder = tmp_path / "other"
    config, store = configs(folder)
    taken = BrokerConfig(broker_name="b", listen_port=port, fast_listen_port=0, ha_listen_port=-1, store_root=folder)
    with pytest.raises(CannotListen, match=str(port)):
        await Broker(taken, store).start()
    again = Broker(config, store)
    await again.start()
    await again.stop()


async def test_a_topic_table_that_is_garbage_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text("not json")
    with pytest.raises(StoreError, match=r"topics\.json"):
        await Broker(*configs(tmp_path)).start()
