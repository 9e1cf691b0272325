"""Our proxy in a process of its own in front of Apache's broker, and Apache's Python client before it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from interop.apache import ApacheCluster, free_ports, wait_for_port
from rocketlake.admin import Admin
from tests.interop.test_grpc_python import Grpc

pytest.importorskip("rocketmq.v5")
pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def before_apache(apache: ApacheCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grpc]:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "rocketlake", "run", "proxy", "-n", apache.namesrv, "--port", str(port)]
    log = tmp_path_factory.mktemp("proxy") / "proxy.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_for_port(port, process)
        yield Grpc(apache.namesrv, f"127.0.0.1:{port}")
    finally:
        process.terminate()
        assert process.wait(30) == 0, log.read_text()[-3000:]


async def create(grpc: Grpc, topic: str) -> None:
    async with Admin(namesrv=grpc.namesrv) as admin:
        await admin.create_topic(topic, queues=4)


async def test_messages_pass_our_proxy_and_apaches_broker(before_apache: Grpc) -> None:
    await create(before_apache, "GrpcBefore")
    given = [{"body": f"body {n}", "tag": "A", "keys": [f"k{n}"], "properties": {"n": str(n)}} for n in range(20)]
    sent = [line["sent"] for line in before_apache.run("send", "GrpcBefore", json.dumps(given))]
    received = [line["received"] for line in before_apache.run("receive", "GrpcBefore", "grpc_before", "20", "ack")]
    assert {each["id"]: (each["body"], each["keys"], each["properties"]) for each in received} == {
        message_id: (one["body"], one["keys"], one["properties"]) for message_id, one in zip(sent, given, strict=True)
    }


async def test_what_is_kept_comes_again_from_apaches_broker(before_apache: Grpc) -> None:
    await create(before_apache, "GrpcAgain")
    before_apache.run("send", "GrpcAgain", json.dumps([{"body": "one"}]))
    assert [
        line["received"]["attempt"] for line in before_apache.run("receive", "GrpcAgain", "again", "1", "later")
    ] == [1]
    again = before_apache.run("receive", "GrpcAgain", "again", "1", "ack")
    assert [line["received"]["body"] for line in again] == ["one"]
    assert again[0]["received"]["attempt"] >= 2  # on a busy machine its client may have been too late once


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_transactions_end_at_apaches_broker(before_apache: Grpc, end: str) -> None:
    topic = f"GrpcEnded_{end}"
    await create(before_apache, topic)
    before_apache.run("transaction", topic, end)
    before_apache.run("send", topic, json.dumps([{"body": "behind it"}]))
    expected = ["behind it"] if end == "rollback" else ["behind it", end]
    received = before_apache.run("receive", topic, f"g_{topic}", str(len(expected)), "ack")
    assert sorted(line["received"]["body"] for line in received) == expected
