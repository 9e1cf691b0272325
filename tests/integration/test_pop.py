"""Pops at a broker over real loopback: handed out, acknowledged, handed out again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.java.json_text import parse
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.broker.pop import revive
from rocketlake.broker.pop.revive_log import REVIVE_QUEUES
from rocketlake.broker.wings import plain_runs
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.protocol.bodies.pop import BatchAckBody
from rocketlake.protocol.headers.pop import (
    ChangeInvisibleReplyHeader,
    NotificationHeader,
    NotificationReplyHeader,
    PeekHeader,
    PollingInfoHeader,
    PollingInfoReplyHeader,
    PopReplyHeader,
)
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.results import ColdPart
from tests.pops import PopClient, Popped
from tests.requests import send_header

SOON_MS = 100
"""An invisible time that is over soon."""
IN_TIME_MS = 2500
"""One in which a busy machine can acknowledge."""


def configs(folder: Path, **settings: object) -> tuple[BrokerConfig, StoreConfig]:
    broker = BrokerConfig(broker_name="b", listen_port=0, store_root=folder, revive_interval_ms=20, **settings)  # type: ignore[arg-type]
    store = StoreConfig(
        commit_log_file_bytes=1024 * 1024,
        consume_queue_file_bytes=20_000,
        index_slots=100,
        index_entries=1000,
        timer_precision_ms=100,
        timer_log_file_bytes=1024 * 1024,
    )
    return broker, store


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(*configs(tmp_path))
    await broker.start()
    yield broker
    await broker.stop()


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[PopClient]:
    client = PopClient(broker.address)
    yield client
    await client.net.close()


async def send(client: PopClient, *bodies: str, queue_id: int = 0, tag: str = "") -> None:
    for body in bodies:
        header = send_header(client.topic, queue_id, f"TAGS\x01{tag}\x02" if tag else "")
        assert (await client.ask(Code.SEND_MESSAGE_V2, header, body.encode())).code == 0


def bodies(popped: list[Popped]) -> list[str]:
    return sorted(each.body for each in popped)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - it waits for state, not for a call
            await asyncio.sleep(0.01)


async def pop_until(client: PopClient, count: int, **fields: int) -> list[Popped]:
    found: list[Popped] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += await client.pop(poll_ms=1000, **fields)
    return found


async def test_a_pop_hands_out_each_message_once(client: PopClient) -> None:
    await send(client, "a", "b")
    await send(client, "c", queue_id=1)
    assert bodies(await client.pop()) == ["a", "b", "c"]
    assert await client.pop() == []


async def test_a_pop_has_those_read_that_it_passes_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of a queue that are not in memory are read when a pop looks at it, though it finds others."""
    plan = FaultPlan()
    broker = Broker(*configs(tmp_path), files=FaultyFiles(PosixFiles(), plan))
    await broker.start()
    client = PopClient(broker.address)
    await send(client, "x" * 300_000)  # of another block of the log than what comes behind
    await send(client, "x" * 300_000, queue_id=1)
    loaded: list[ColdPart] = []
    residency, load = broker.store.residency, broker.store.residency.load

    def note(parts: Sequence[ColdPart], done: Callable[[Exception | None], None]) -> None:
        loaded.extend(parts)
        load(parts, done)

    monkeypatch.setattr(residency, "load", note)
    residency.forget()
    looks = 2 + plain_runs.are_there()  # the kernel's look, the look, and which parts it lacks
    plan.add(Fault("is_resident", "commitlog", times=looks, error=None))
    popped = await client.pop()
    assert len(popped) == 1 and len(loaded) == 1
    assert len(await pop_until(client, 1)) == 1
    await client.net.close()
    await broker.stop()


async def test_no_message_carries_the_handle_of_another_one(client: PopClient) -> None:
    """Its consumer would acknowledge that one: single sends lose it, and a batch is refused."""
    await send(client, "a")
    [popped] = await client.pop()
    header = send_header(properties=f"POP_CK\x01{popped.handle}\x02")
    assert (await client.ask(Code.SEND_MESSAGE_V2, header, b"copy")).code == 0
    batch = [Message("T", b"other"), Message("T", b"copy")]
    batch[1].properties["POP_CK"] = str(popped.handle)
    answer = await client.ask(Code.SEND_BATCH_MESSAGE, send_header(batch=True), encode_batch(batch))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL and "POP_CK" in (answer.remark or "")
    [copy] = await client.pop()
    assert copy.body == "copy" and copy.handle.offset != popped.handle.offset


async def test_a_pop_waits_for_a_message(client: PopClient, broker: Broker) -> None:
    await send(client, "a")
    assert bodies(await client.pop()) == ["a"]
    waiting = asyncio.create_task(client.pop(poll_ms=20_000))
    await until(lambda: len(broker.popping.hold) == 1)
    await send(client, "b")
    assert bodies(await waiting) == ["b"]


async def test_a_pop_above_a_quota_gets_its_messages_later(client: PopClient, broker: Broker) -> None:
    await send(client, "a", "b", "c")
    topic = broker.topics.get(client.topic)
    assert topic is not None
    broker.topics.put(replace(topic, attributes={"quota.bytes.out": "100"}))
    assert bodies(await client.pop(max_msg_nums=1)) == ["a"]
    assert await client.pop(max_msg_nums=1) == []
    assert bodies(await client.pop(max_msg_nums=1, poll_ms=20_000)) == ["b"]


async def test_one_message_wakes_one_of_two_pops(client: PopClient, broker: Broker) -> None:
    await send(client, "a")
    assert bodies(await client.pop()) == ["a"]
    waiting = [asyncio.create_task(client.pop(poll_ms=20_000)) for _ in range(2)]
    await until(lambda: len(broker.popping.hold) == 2)
    await send(client, "b")
    done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert [bodies(each.result()) for each in done] == [["b"]]
    await send(client, "c")
    assert [bodies(await each) for each in left] == [["c"]]


async def test_what_is_not_acknowledged_comes_again_and_counts_its_tries(client: PopClient) -> None:
    await send(client, "a", "b")
    first = await client.pop(IN_TIME_MS)
    assert bodies(first) == ["a", "b"]
    assert (await client.ack(next(each for each in first if each.body == "a"))).code == 0
    again = await pop_until(client, 1, invisible_ms=SOON_MS)
    assert bodies(again) == ["b"]
    assert again[0].message.topic == "T"
    assert again[0].message.reconsume_times == 1
    assert again[0].message.properties["ORIGIN_GROUP"] == "g"
    assert int(again[0].message.properties["1ST_POP_TIME"]) == first[0].handle.pop_ms
    third = await pop_until(client, 1)
    assert [(each.body, each.message.reconsume_times) for each in third] == [("b", 2)]
    assert (await client.ack(third[0])).code == 0


async def test_acknowledged_messages_never_come_again(client: PopClient, broker: Broker) -> None:
    await send(client, *"abcdefgh")
    for each in await client.pop(IN_TIME_MS):
        assert (await client.ack(each)).code == 0
    await send(client, "last")
    last = await client.pop(IN_TIME_MS)
    again = await pop_until(client, 1)  # behind the others: their check point is dealt with
    assert bodies(last) == bodies(again) == ["last"]
    topic = "rmq_sys_REVIVE_LOG_DefaultCluster"
    broker.store.sync_soon()
    await until(lambda: bool(broker.offsets.queues("CID_RMQ_SYS_REVIVE_GROUP", topic)))


@pytest.mark.parametrize("properties", ["", "DELAY\x011\x02"])
async def test_records_of_the_revive_topic_are_the_brokers_own(
    client: PopClient, broker: Broker, properties: str
) -> None:
    topic = "rmq_sys_REVIVE_LOG_DefaultCluster"
    answer = await client.ask(Code.SEND_MESSAGE_V2, send_header(topic, 0, properties), b"{}")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert broker.store.max_offset(topic, 0) == 0


async def test_many_messages_are_acknowledged_together(client: PopClient) -> None:
    await send(client, *"abcd")
    popped = await client.pop(IN_TIME_MS)
    handle = popped[0].handle
    bits = sum(1 << each.handle.offset - handle.start_offset for each in popped if each.body in "abd")
    body = {
        "brokerName": "b",
        "acks": [
            {
                "b": bits.to_bytes(1, "little"), "c": "g", "it": handle.invisible_ms, "pt": handle.pop_ms,
                "q": handle.queue_id, "r": "0", "rq": handle.revive_queue, "so": handle.start_offset, "t": "T",
            }
        ],
    }  # fmt: skip
    assert (await client.ask(Code.BATCH_ACK_MESSAGE, None, msgspec.json.encode(body))).code == 0
    assert BatchAckBody.decode(msgspec.json.encode(body)).acks[0].offsets() == [
        each.handle.offset for each in popped if each.body in "abd"
    ]
    assert bodies(await pop_until(client, 1)) == ["c"]


async def test_a_consumer_that_needs_longer_keeps_its_message(client: PopClient) -> None:
    await send(client, "a", "b")
    popped = await client.pop(IN_TIME_MS)
    slow = next(each for each in popped if each.body == "a")
    answer = await client.change(slow, 60_000)
    assert answer.code == 0
    changed = answer.header(ChangeInvisibleReplyHeader)
    assert (changed.invisible_time, changed.revive_qid) == (60_000, slow.handle.revive_queue)
    assert changed.pop_time >= slow.handle.pop_ms
    assert bodies(await pop_until(client, 1)) == ["b"]


@pytest.mark.parametrize(("suspend", "tries"), [(False, 1), (True, 0)])
async def test_a_message_that_is_given_back_counts_a_try_unless_it_is_suspended(
    client: PopClient, suspend: bool, tries: int
) -> None:
    await send(client, "a")
    (popped,) = await client.pop()
    assert (await client.change(popped, SOON_MS, suspend=suspend)).code == 0
    (again,) = await pop_until(client, 1)
    assert again.message.reconsume_times == tries


async def test_tags_choose_messages(client: PopClient) -> None:
    await send(client, "a", tag="A")
    await send(client, "b", tag="B")
    assert bodies(await client.pop(exp="B")) == ["b"]
    assert await client.pop(exp="B") == []


async def test_sql_chooses_messages(client: PopClient) -> None:
    await send(client, "a", tag="A")
    await send(client, "b", tag="B")
    assert bodies(await client.pop(exp="TAGS = 'B'", exp_type="SQL92")) == ["b"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "Missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 99}, ResponseCode.INVALID_PARAMETER),
        ({"max_msg_nums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"exp": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"exp": "a >", "exp_type": "SQL92"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"consumer_group": "no such name!"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"born_time": 1}, ResponseCode.POLLING_TIMEOUT),
    ],
)
async def test_pops_that_cannot_be_served_are_refused(
    client: PopClient, fields: dict[str, object], code: ResponseCode
) -> None:
    await send(client, "a")
    answer = await client.ask(Code.POP_MESSAGE, client.pop_header(**fields))
    assert answer.code == code, answer.remark


async def test_acknowledgements_outside_of_the_queue_are_refused(client: PopClient) -> None:
    await send(client, "a")
    (popped,) = await client.pop()
    header = client.ack_header(popped)
    header.offset = 99
    assert (await client.ask(Code.ACK_MESSAGE, header)).code == ResponseCode.NO_MESSAGE
    header.offset, header.queue_id = 0, 99
    assert (await client.ask(Code.ACK_MESSAGE, header)).code == ResponseCode.MESSAGE_ILLEGAL
    header.queue_id, header.extra_info = popped.handle.queue_id, "nonsense"
    answer = await client.ask(Code.ACK_MESSAGE, header)
    assert answer.code != 0 and "handle" in (answer.remark or "")


async def test_what_is_in_flight_comes_again_after_a_restart(tmp_path: Path) -> None:
    broker = Broker(*configs(tmp_path))
    await broker.start()
    client = PopClient(broker.address)
    await send(client, "a", "b")
    popped = await client.pop(IN_TIME_MS)
    assert (await client.ack(next(each for each in popped if each.body == "a"))).code == 0
    await broker.stop()
    broker = Broker(*configs(tmp_path))
    await broker.start()
    try:
        client.address = broker.address
        assert bodies(await pop_until(client, 1)) == ["b"]
    finally:
        await client.net.close()
        await broker.stop()


async def test_more_check_points_than_are_kept_open_come_again_too(
    client: PopClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revive, "_OPEN_MAX", 2)
    monkeypatch.setattr(revive, "_READ_COUNT", 1)
    names = [f"m{number}" for number in range(40)]
    await send(client, *names)
    for _ in names:  # five check points in each queue of the revive topic
        assert len(await client.pop(IN_TIME_MS, max_msg_nums=1)) == 1
    assert bodies(await pop_until(client, len(names))) == sorted(names)


async def test_a_message_that_the_disk_does_not_give_holds_up_no_other(tmp_path: Path) -> None:
    plan = FaultPlan()
    broker = Broker(*configs(tmp_path), files=FaultyFiles(PosixFiles(), plan))
    await broker.start()
    client = PopClient(broker.address)
    await send(client, "bad")
    for _ in range(4):  # what follows lies in the next file of the log
        assert (await client.ask(Code.SEND_MESSAGE_V2, send_header("FULL", 0), b"x" * 300_000)).code == 0
    good = [f"good {number}" for number in range(REVIVE_QUEUES)]  # one of them behind the bad one in its queue
    await send(client, *good)
    for _ in range(1 + len(good)):
        assert len(await client.pop(IN_TIME_MS, max_msg_nums=1)) == 1
    first_file = f"commitlog/{0:020d}"
    plan.add(Fault("is_resident", first_file, error=None)).add(Fault("pread", first_file))
    broker.store.residency.forget()
    assert bodies(await pop_until(client, len(good))) == good
    plan.clear()
    assert bodies(await pop_until(client, 1)) == ["bad"]
    await client.net.close()
    await broker.stop()


# -- in order ----------------------------------------------------------------------------------------------------------


async def test_a_queue_hands_out_no_more_in_order_until_all_is_acknowledged(client: PopClient) -> None:
    await send(client, "a", "b", "c")
    first = await client.pop(order=True, max_msg_nums=2, attempt_id="1")
    assert [each.body for each in first] == ["a", "b"]
    assert await client.pop(order=True, attempt_id="2") == []
    assert [each.body for each in await client.pop(order=True, max_msg_nums=2, attempt_id="1")] == ["a", "b"]
    again = await client.pop(order=True, max_msg_nums=2, attempt_id="1")
    assert (await client.ack(again[0])).code == 0
    assert await client.pop(order=True, attempt_id="2") == []
    waiting = asyncio.create_task(client.pop(poll_ms=20_000, order=True, attempt_id="2"))
    assert (await client.ack(again[1])).code == 0
    assert [each.body for each in await waiting] == ["c"]


async def test_ordered_messages_whose_time_is_over_come_again_in_order(client: PopClient) -> None:
    await send(client, "a", "b", "c")
    assert len(await client.pop(SOON_MS, order=True, max_msg_nums=2)) == 2
    answer = await client.ask(Code.POP_MESSAGE, client.pop_header(poll_ms=20_000, order=True))
    again = client.popped(answer)
    assert [each.body for each in again] == ["a", "b", "c"]
    assert answer.fields is not None
    assert answer.fields["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1;0 0 0"
    assert (await client.ack(again[2])).code == 0
    assert (await client.change(again[0], SOON_MS)).code == 0
    assert (await client.change(again[1], SOON_MS)).code == 0
    third = await client.pop(poll_ms=20_000, order=True)
    assert [each.body for each in third] == ["a", "b", "c"], "from the first that is not acknowledged"


async def test_an_ordered_acknowledgement_of_an_earlier_pop_changes_nothing(client: PopClient, broker: Broker) -> None:
    await send(client, "a", "b")
    (early,) = await client.pop(SOON_MS, order=True, max_msg_nums=1)
    (later,) = await client.pop(poll_ms=20_000, order=True, max_msg_nums=1)
    assert later.handle.pop_ms > early.handle.pop_ms
    assert (await client.ack(early)).code == 0
    assert broker.offsets.query("g", "T", 0) == 0
    assert (await client.ack(later)).code == 0
    assert broker.offsets.query("g", "T", 0) == 1


# -- looking -----------------------------------------------------------------------------------------------------------


def notification(client: PopClient, poll_ms: int = 0, exp: str = "*") -> NotificationHeader:
    return NotificationHeader(
        consumer_group="g", topic="T", queue_id=-1, poll_time=poll_ms, born_time=client.clock.now_ms(), exp=exp
    )


async def has_message(client: PopClient, poll_ms: int = 0, exp: str = "*") -> bool:
    answer = await client.ask(Code.NOTIFICATION, notification(client, poll_ms, exp))
    assert answer.code == 0, answer.remark
    return answer.header(NotificationReplyHeader).has_msg


async def test_a_notification_says_whether_a_pop_would_get_something(client: PopClient, broker: Broker) -> None:
    await send(client, "a", tag="A")
    assert await has_message(client)
    assert not await has_message(client, exp="B")
    assert bodies(await client.pop()) == ["a"]
    assert not await has_message(client)
    waiting = asyncio.create_task(has_message(client, 20_000))
    await until(lambda: len(broker.popping.notifications) == 1)
    await send(client, "b")
    assert await waiting
    assert bodies(await client.pop()) == ["b"]


async def test_a_notification_in_order_comes_when_the_queue_is_free(client: PopClient, broker: Broker) -> None:
    await send(client, "a", "b")
    (first,) = await client.pop(order=True, max_msg_nums=1)
    header = notification(client, 50_000)
    header.order = True
    waiting = asyncio.create_task(client.ask(Code.NOTIFICATION, header))
    await until(lambda: len(broker.popping.notifications) == 1)
    assert (await client.ack(first)).code == 0
    async with asyncio.timeout(20):  # the poll lasts longer
        assert (await waiting).header(NotificationReplyHeader).has_msg


async def test_a_peek_leaves_the_messages_there(client: PopClient) -> None:
    header = PeekHeader(consumer_group="g", topic="T", queue_id=-1, max_msg_nums=2)
    await send(client, "a", "b", "c")
    for _ in range(2):
        answer = await client.ask(Code.PEEK_MESSAGE, header)
        assert answer.code == 0
        assert [each.body for each in decode_records(answer.body_bytes)] == [b"a", b"b"]
        assert answer.header(PopReplyHeader).rest_num == 1
    assert bodies(await client.pop()) == ["a", "b", "c"]
    assert (await client.ask(Code.PEEK_MESSAGE, header)).code == ResponseCode.PULL_NOT_FOUND


async def test_the_pops_that_wait_are_counted(client: PopClient, broker: Broker) -> None:
    await send(client, "a")
    await client.pop()
    waiting = asyncio.create_task(client.pop(poll_ms=20_000))
    await until(lambda: len(broker.popping.hold) == 1)
    answer = await client.ask(Code.POLLING_INFO, PollingInfoHeader(consumer_group="g", topic="T", queue_id=-1))
    assert answer.header(PollingInfoReplyHeader).polling_num == 1
    await send(client, "b")
    assert bodies(await waiting) == ["b"]


# -- who pops what -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, 0),
        ({"topic": "%RETRY%g"}, ResponseCode.NO_PERMISSION),
        ({"topic": "Missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"consumerGroup": "missing"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
async def test_an_administrator_has_a_group_pop_a_topic(
    client: PopClient, broker: Broker, change: dict[str, str], code: int
) -> None:
    await send(client, "a")
    await client.pop()
    mode = {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 2, "topic": "T", **change}
    assert (await client.ask(Code.SET_MESSAGE_REQUEST_MODE, None, msgspec.json.encode(mode))).code == code
    table = (await client.ask(Code.GET_ALL_MESSAGE_REQUEST_MODE)).body_bytes
    expected = {} if code else {"T": {"g": mode}}
    assert msgspec.json.decode(table) == {"messageRequestModeMap": expected}
    file = broker.ground.table_path("messageRequestMode.json")
    assert code or parse(file.read_bytes()) == {"messageRequestModeMap": expected}
