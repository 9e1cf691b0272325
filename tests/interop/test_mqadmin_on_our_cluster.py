"""Apache's mqadmin 5.3.3: what an operator types first. All of 5.5.0's commands: test_every_mqadmin_command.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from interop.apache import run_driver
from interop.replicas import mqadmin
from rocketlake import ConsumeResult, Message, Producer, PushConsumer, StoredMessage
from rocketlake.admin import Admin

pytestmark = pytest.mark.interop


Run = Callable[..., list[str]]


@pytest.fixture
def run(our_namesrv: str, tmp_path: Path) -> Run:
    def run(*commands: str) -> list[str]:
        return mqadmin(tmp_path, *((*command.split(), "-n", our_namesrv) for command in commands), peer="server")

    return run


@pytest.mark.smoke
async def test_three_commands(run: Run, our_namesrv: str) -> None:
    async with Admin(namesrv=our_namesrv) as admin, Producer("shop", namesrv=our_namesrv) as producer:
        await admin.create_topic("Shown", queues=4)
        for number in range(20):
            await producer.send(Message("Shown", b"%d" % number, keys=f"k{number}"))
    status, by_key, cluster = await asyncio.to_thread(
        run, "topicStatus -t Shown", "queryMsgByKey -t Shown -k k7", "clusterList"
    )
    assert stored(status) == 20, status
    assert len(found(by_key)) == 1, by_key
    assert "DefaultCluster" in cluster


def stored(status: str) -> int:
    """The sum of a table's next offsets."""
    return sum(int(line.split()[3]) for line in status.splitlines() if line.startswith("broker-a "))


def found(by_key: str) -> list[str]:
    """The rows of a table of messages."""
    return [row for row in by_key[by_key.index("#Message ID") :].splitlines()[1:] if row.strip()]


def test_an_operators_first_commands(run: Run, our_namesrv: str) -> None:
    clusters, made, topics, route, group = run(
        "clusterList",
        "updateTopic -c DefaultCluster -t Operated -r 4 -w 4",
        "topicList",
        "topicRoute -t Operated",
        "updateSubGroup -c DefaultCluster -g operators",
    )
    assert "DefaultCluster" in clusters
    assert "success" in made
    assert "Operated" in topics.split()
    assert '"readQueueNums":4' in route.replace(" ", "")
    assert "success" in group

    assert run_driver("Produce", our_namesrv, "Operated", "sync", 20, 50, "A")["sent"] == 20
    got = run_driver("Consume", our_namesrv, "Operated", "operators", "*", "concurrent", 20, 30, 0)
    assert got["distinct"] == 20

    status, progress, by_key, deleted, left = run(
        "topicStatus -t Operated",
        "consumerProgress -g operators",
        "queryMsgByKey -t Operated -k k7",
        "deleteTopic -c DefaultCluster -t Operated",
        "topicList",
    )
    assert stored(status) == 20, status
    assert "Diff Total: 0" in progress, progress
    assert len(found(by_key)) == 1, by_key
    assert "success" in deleted
    assert "Operated" not in left.split()


async def test_a_member_of_ours_tells_its_rates(run: Run, our_namesrv: str) -> None:
    """Of Apache's section "Consumer RT&TPS" each figure has a value."""
    seen = asyncio.Event()

    async def listen(messages: list[StoredMessage]) -> ConsumeResult:
        await asyncio.sleep(0.001)
        if any(message.body == b"bad" for message in messages):
            seen.set()
            return ConsumeResult.LATER
        return ConsumeResult.SUCCESS

    consumer = PushConsumer("rated", listener=listen, namesrv=our_namesrv, from_where="first")
    consumer.subscribe("Rated")
    async with Producer("shop", namesrv=our_namesrv) as producer:
        for body in (b"good", b"good", b"bad"):
            await producer.send(Message("Rated", body), key=1)
        async with consumer, asyncio.timeout(60):
            await seen.wait()
            (status,) = await asyncio.to_thread(run, f"consumerStatus -g rated -i {consumer.instance.client_id}")
    rows = [line.split() for line in status[status.index("#Consumer RT&TPS#") :].splitlines()]
    (row,) = [row for row in rows if row[:1] == ["Rated"]]
    pull_ms, pulled, consume_ms, done, failed, failed_in_hour = map(float, row[1:7])
    assert min(pull_ms, pulled, consume_ms, done, failed) > 0, row
    assert failed_in_hour == 1, row
