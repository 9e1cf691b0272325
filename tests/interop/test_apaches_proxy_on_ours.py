"""Apache's proxy 5.5.0 in front of our name server and broker, with Apache's Node and Java clients before it.

A group is made before its consumer comes: without one this proxy has no settings for the consumer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from interop.apache import PeerMissing, run_driver
from interop.apache_proxy import ApacheProxy
from interop.grpc_clients import GrpcProgram, node
from rocketlake.admin import Admin
from rocketlake.client.calls.answer import ask
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.request_code import RequestCode
from tests.interop.our_cluster import our_cluster

pytestmark = pytest.mark.interop


@dataclass(frozen=True)
class Behind:
    """Our cluster behind Apache's proxy, and the client for Node."""

    namesrv: str
    endpoint: str
    program: GrpcProgram

    def run(self, what: str, *words: str) -> list[dict[str, Any]]:
        return self.program.run(what, self.endpoint, *words)


@pytest.fixture(scope="module")
def behind(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    try:
        program = node()
    except PeerMissing as reason:
        pytest.skip(str(reason))
    root = tmp_path_factory.mktemp("behind")
    # The proxy tells a broker of its producers each 20 s only: by then 15 questions would have been asked in vain.
    soon = ("transactionTimeOut=1000", "transactionCheckInterval=1000", "transactionCheckMax=100")
    cluster = our_cluster(root, *soon)
    with cluster as namesrv, ApacheProxy(root / "proxy", namesrv, "proxy550") as proxy:
        yield Behind(namesrv, proxy.endpoint, program)


async def tell(behind: Behind, command: Command) -> None:
    async with Admin(namesrv=behind.namesrv) as admin:
        (broker,) = await admin.brokers()
    async with NetClient() as net:
        await ask(net, broker.address, command)


async def create(behind: Behind, topic: str, kind: str = "NORMAL") -> None:
    """A topic for one type of messages, without which Apache's proxy takes normal ones only."""
    header = CreateTopicHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=4,
        write_queue_nums=4,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        attributes=f"+message.type={kind}",
    )
    await tell(behind, Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))
    await create_group(behind, f"group_{topic}")


async def create_group(behind: Behind, group: str, *, in_order: bool = False) -> None:
    entry = GroupEntry(group_name=group, consume_message_orderly=in_order)
    await tell(behind, Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=entry.encode()))


def bodies(behind: Behind, topic: str, count: int, what: str = "ack") -> list[tuple[str, int]]:
    """What a simple consumer receives, and for which time."""
    lines = behind.run("receive", topic, f"group_{topic}", str(count), what)
    return sorted((line["received"]["body"], line["received"]["attempt"]) for line in lines)


async def test_messages_pass_whole_and_what_is_acknowledged_is_gone(behind: Behind) -> None:
    await create(behind, "Passed")
    given = [{"body": f"body {n}", "tag": "A", "keys": [f"k{n}"], "properties": {"n": str(n)}} for n in range(20)]
    sent = [line["sent"] for line in behind.run("send", "Passed", json.dumps(given))]
    received = [line["received"] for line in behind.run("receive", "Passed", "group_Passed", "20", "ack")]
    assert {each["id"]: (each["body"], each["tag"], each["keys"], each["properties"]) for each in received} == {
        message_id: (one["body"], "A", one["keys"], one["properties"])
        for message_id, one in zip(sent, given, strict=True)
    }
    behind.run("send", "Passed", json.dumps([{"body": "behind them"}]))
    again = behind.run("receive", "Passed", "group_Passed", "1", "ack")
    assert [line["received"]["body"] for line in again] == ["behind them"]


async def test_what_is_put_off_comes_then(behind: Behind) -> None:
    await create(behind, "PutOff")
    behind.run("send", "PutOff", json.dumps([{"body": "one"}, {"body": "two"}]))
    assert bodies(behind, "PutOff", 2, "later") == [("one", 1), ("two", 1)]
    assert bodies(behind, "PutOff", 2) == [("one", 2), ("two", 2)]


async def test_a_group_in_order_gets_each_message_group_in_order(behind: Behind) -> None:
    await create(behind, "Ordered", "FIFO")
    await create_group(behind, "ordered", in_order=True)
    sent = run_driver("Grpc", "send", behind.endpoint, "Ordered", 60, 10, 1, 3, peer="grpc")
    assert sent == {"sent": 60, "failed": 0}
    got = run_driver("Grpc", "push", behind.endpoint, "Ordered", "ordered", "*", 60, 0, 60, peer="grpc")
    assert (got["distinct"], got["disorder"], got["duplicates"]) == (60, 0, 0)


async def test_a_push_consumer_gets_again_what_it_failed(behind: Behind) -> None:
    await create(behind, "Pushed")
    behind.run("send", "Pushed", json.dumps([{"body": str(n), "tag": "AB"[n % 2]} for n in range(10)]))
    pushed = [line["pushed"] for line in behind.run("push", "Pushed", "group_Pushed", "10", "A", "fails-first")]
    assert sorted((int(each["body"]), each["attempt"]) for each in pushed) == [
        (n, attempt) for n in range(0, 10, 2) for attempt in (1, 2)
    ]


async def test_a_delayed_message_comes_at_its_time(behind: Behind) -> None:
    await create(behind, "Delayed", "DELAY")
    began = time.time()
    behind.run("send", "Delayed", json.dumps([{"body": "late", "delay": 4}]))
    assert bodies(behind, "Delayed", 1) == [("late", 1)]
    assert time.time() - began >= 3, "the second of the time is cut off by the test"


@pytest.mark.parametrize("end", ["commit", "rollback", "asked"])
async def test_transactions_end_as_their_producer_says(behind: Behind, end: str) -> None:
    topic = f"Ended_{end}"
    await create(behind, topic, "TRANSACTION")
    lines = behind.run("transaction", topic, end)
    assert [line["asked"]["body"] for line in lines if "asked" in line] == (["asked"] if end == "asked" else [])
    behind.run("transaction", topic, "commit")
    expected = {"commit": ["commit", "commit"], "rollback": ["commit"], "asked": ["asked", "commit"]}[end]
    assert [body for body, _ in bodies(behind, topic, len(expected))] == expected


async def test_a_recalled_message_does_not_come(behind: Behind) -> None:
    await create(behind, "Recalled", "DELAY")
    sent, recalled = behind.run("recall", "Recalled", "5")
    assert recalled["recalled"] == sent["sent"]
    assert bodies(behind, "Recalled", 1) == [("kept", 1)]
