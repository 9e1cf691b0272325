"""Apache's Python client for gRPC on our broker, beside our own client on the remoting port."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from interop.apache import free_ports
from rocketlake import Consumer, Message, Producer
from rocketlake.admin import Admin
from rocketlake.admin.topic_change import TopicChange
from rocketlake.model.message import StoredMessage
from tests.interop.our_cluster import our_cluster, until_open

pytest.importorskip("rocketmq.v5")
pytestmark = pytest.mark.interop


class Grpc:
    """Our cluster, and Apache's client as a process."""

    def __init__(self, namesrv: str, endpoint: str) -> None:
        self.namesrv = namesrv
        self.endpoint = endpoint

    def run(self, what: str, *words: str, user: str = "", tls: bool = False) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "interop.grpc_python", what, self.endpoint, user, "tls" if tls else "plain"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr[-3000:]
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def grpc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grpc]:
    (port,) = free_ports(1)
    settings = (f"grpcServerPort={port}", "transactionTimeOut=1000", "transactionCheckInterval=1000")
    with our_cluster(tmp_path_factory.mktemp("grpc"), *settings) as namesrv:
        until_open(port)
        yield Grpc(namesrv, f"127.0.0.1:{port}")


async def create(grpc: Grpc, topic: str) -> None:
    async with Admin(namesrv=grpc.namesrv) as admin:
        await admin.create_topic(topic, queues=4)


async def read(grpc: Grpc, topic: str, count: int) -> list[StoredMessage]:
    """So many messages, by our client on the remoting port."""
    found: list[StoredMessage] = []
    async with asyncio.timeout(60):
        async with Consumer(f"by_remoting_{topic}", topic, namesrv=grpc.namesrv, from_where="first") as consumer:
            async for message in consumer:
                found.append(message)
                if len(found) == count:
                    break
    return found


@pytest.mark.smoke
async def test_what_a_grpc_producer_sends_a_remoting_consumer_reads_and_back(grpc: Grpc) -> None:
    await create(grpc, "Both")
    given = [
        {"body": f"body {n}", "tag": "A", "keys": [f"k{n}"], "properties": {"colour": "blue", "n": str(n)}}
        for n in range(10)
    ]
    sent = [line["sent"] for line in grpc.run("send", "Both", json.dumps(given))]
    found = {message.message_id: message for message in await read(grpc, "Both", 10)}
    assert sorted(sent) == sorted(found)
    for message_id, one in zip(sent, given, strict=True):
        message = found[message_id]
        assert (message.body.decode(), message.tags, message.key_list) == (one["body"], "A", one["keys"])
        assert message.user_properties == one["properties"]
    async with Producer("remoting", namesrv=grpc.namesrv) as producer:
        back = await producer.send(Message("Both", b"back", tags="B", keys="key", properties={"x": "y"}))
    received = [line["received"] for line in grpc.run("receive", "Both", "by_grpc", "11", "ack")]
    assert sorted(each["id"] for each in received) == sorted([*sent, back.message_id])
    (answer,) = [each for each in received if each["body"] == "back"]
    assert (answer["tag"], answer["keys"], answer["properties"], answer["attempt"]) == ("B", ["key"], {"x": "y"}, 1)


async def test_what_is_acknowledged_is_gone_and_what_is_kept_comes_again(grpc: Grpc) -> None:
    await create(grpc, "Again")
    grpc.run("send", "Again", json.dumps([{"body": "one"}, {"body": "two"}]))
    kept = grpc.run("receive", "Again", "again", "2", "later")
    assert sorted(line["received"]["body"] for line in kept) == ["one", "two"]
    again = grpc.run("receive", "Again", "again", "2", "ack")
    assert sorted((line["received"]["body"], line["received"]["attempt"]) for line in again) == [("one", 2), ("two", 2)]


async def test_a_push_consumer_gets_by_tag_and_again_what_it_failed(grpc: Grpc) -> None:
    await create(grpc, "Pushed")
    grpc.run("send", "Pushed", json.dumps([{"body": str(n), "tag": "AB"[n % 2]} for n in range(20)]))
    pushed = [line["pushed"] for line in grpc.run("push", "Pushed", "pushed", "20", "A", "fails-first")]
    assert sorted((int(each["body"]), each["attempt"]) for each in pushed) == [
        (n, attempt) for n in range(0, 20, 2) for attempt in (1, 2)
    ]


async def test_a_group_of_messages_lies_in_one_queue(grpc: Grpc) -> None:
    await create(grpc, "Grouped")
    given = [{"body": str(n), "group": f"group {n % 3}"} for n in range(30)]
    assert len(grpc.run("send", "Grouped", json.dumps(given))) == 30
    queues: dict[str, set[int]] = {}
    for message in await read(grpc, "Grouped", 30):
        queues.setdefault(message.sharding_key or "", set()).add(message.queue_id)
    assert sorted(queues) == ["group 0", "group 1", "group 2"]
    assert all(len(each) == 1 for each in queues.values())


async def test_pops_get_the_highest_priority_first(grpc: Grpc) -> None:
    await create(grpc, "Urgent")
    async with Admin(namesrv=grpc.namesrv) as admin:
        await admin.alter_topic("Urgent", TopicChange(attributes="+message.type=PRIORITY"))
    given = [{"body": f"{priority} {n}", "priority": priority} for n in range(3) for priority in (0, 2, 9, 1)]
    assert len(grpc.run("send", "Urgent", json.dumps(given))) == 12
    received = [line["received"]["body"] for line in grpc.run("receive", "Urgent", "urgent", "12", "ack")]
    assert [body[0] for body in received] == ["9"] * 3 + ["2"] * 3 + ["1"] * 3 + ["0"] * 3


async def test_a_delayed_message_comes_at_its_time(grpc: Grpc) -> None:
    await create(grpc, "Delayed")
    began = time.time()
    grpc.run("send", "Delayed", json.dumps([{"body": "late", "delay": 4}]))
    (message,) = await read(grpc, "Delayed", 1)
    assert message.body == b"late"
    assert message.store_ms / 1000 - began >= 3, "the second of the time is cut off by the test"


async def test_a_recalled_message_does_not_come(grpc: Grpc) -> None:
    await create(grpc, "Recalled")
    sent, recalled = grpc.run("recall", "Recalled", "4")
    assert recalled["recalled"] == sent["sent"]
    assert [message.body for message in await read(grpc, "Recalled", 1)] == [b"kept"]


@pytest.mark.parametrize("end", ["commit", "rollback", "asked"])
async def test_transactions_end_as_their_producer_says(grpc: Grpc, end: str) -> None:
    topic = f"Ended_{end}"
    await create(grpc, topic)
    lines = grpc.run("transaction", topic, end)
    assert [line["asked"]["body"] for line in lines if "asked" in line] == (["asked"] if end == "asked" else [])
    grpc.run("send", topic, json.dumps([{"body": "behind it"}]))
    expected = [b"behind it"] if end == "rollback" else [b"behind it", end.encode()]
    assert sorted(message.body for message in await read(grpc, topic, len(expected))) == sorted(expected)


async def test_what_is_not_allowed_is_refused_with_its_reason(grpc: Grpc) -> None:
    (refused,) = grpc.run("send", "NoSuchTopic", json.dumps([{"body": "x"}]))
    assert "NoSuchTopic" in refused["refused"]
