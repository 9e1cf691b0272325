"""Apache's Java client for gRPC on our broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.apache import free_ports, run_driver
from rocketlake.admin import Admin
from rocketlake.client.calls.answer import ask
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from tests.interop.our_cluster import our_cluster, until_open

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def ours(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The name server of our cluster, and the endpoint of gRPC."""
    (port,) = free_ports(1)
    settings = (f"grpcServerPort={port}", "transactionTimeOut=2000", "transactionCheckInterval=1000")
    with our_cluster(tmp_path_factory.mktemp("grpc"), *settings) as namesrv:
        until_open(port)
        yield namesrv, f"127.0.0.1:{port}"


async def create(namesrv: str, topic: str) -> None:
    async with Admin(namesrv=namesrv) as admin:
        await admin.create_topic(topic, queues=4)


async def create_in_order(namesrv: str, group: str) -> None:
    """A group whose consumers get the messages of a queue in order."""
    async with Admin(namesrv=namesrv) as admin:
        (broker,) = await admin.brokers()
    entry = GroupEntry(group_name=group, consume_message_orderly=True)
    async with NetClient() as net:
        command = Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=entry.encode())
        await ask(net, broker.address, command)


def grpc(what: str, *words: object) -> dict[str, int]:
    return run_driver("Grpc", what, *words, peer="grpc", timeout=150)


async def test_what_64_threads_send_a_push_consumer_gets_once(ours: tuple[str, str]) -> None:
    namesrv, endpoint = ours
    await create(namesrv, "Pushed")
    count = 2000
    assert grpc("send", endpoint, "Pushed", count, 1000, 64, 0) == {"sent": count, "failed": 0}
    got = grpc("push", endpoint, "Pushed", "pushed", "*", count, 0, 60)
    assert got == {"distinct": count, "sum": count * (count - 1) // 2, "duplicates": 0, "retried": 0, "disorder": 0}


async def test_tags_and_sql_choose_and_what_fails_comes_again(ours: tuple[str, str]) -> None:
    namesrv, endpoint = ours
    await create(namesrv, "Chosen")
    assert grpc("send", endpoint, "Chosen", 100, 10, 4, 0)["sent"] == 100
    got = grpc("push", endpoint, "Chosen", "chosen", "A", 50, 20, 60)
    assert (got["distinct"], got["sum"], got["retried"]) == (50, sum(range(0, 100, 2)), 10)
    got = grpc("push", endpoint, "Chosen", "chosen_by_sql", "n = 7 OR n = 8", 2, 0, 30)
    assert (got["distinct"], got["sum"]) == (2, 15)


async def test_a_simple_consumer_acknowledges_and_changes_the_invisible_time(ours: tuple[str, str]) -> None:
    namesrv, endpoint = ours
    await create(namesrv, "Simple")
    assert grpc("send", endpoint, "Simple", 200, 100, 8, 0)["sent"] == 200
    got = grpc("simple", endpoint, "Simple", "simple", 200, 5)
    assert (got["distinct"], got["duplicates"], got["retried"]) == (200, 5, 5)


async def test_large_bodies_pass_and_larger_ones_are_refused(ours: tuple[str, str]) -> None:
    namesrv, endpoint = ours
    await create(namesrv, "Large")
    assert grpc("send", endpoint, "Large", 8, 4 << 20, 4, 0) == {"sent": 8, "failed": 0}
    assert grpc("send", endpoint, "Large", 1, (4 << 20) + 1, 1, 0) == {"sent": 0, "failed": 1}
    got = grpc("simple", endpoint, "Large", "large", 8, 0)
    assert (got["distinct"], got["duplicates"]) == (8, 0)


async def test_a_group_in_order_gets_each_message_group_in_order(ours: tuple[str, str]) -> None:
    namesrv, endpoint = ours
    await create(namesrv, "InOrder")
    await create_in_order(namesrv, "in_order")
    assert grpc("send", endpoint, "InOrder", 300, 10, 1, 3) == {"sent": 300, "failed": 0}
    got = grpc("push", endpoint, "InOrder", "in_order", "*", 300, 0, 60)
    assert (got["distinct"], got["disorder"], got["duplicates"]) == (300, 0, 0)


async def test_transactions_end_and_orphans_are_asked_for(ours: tuple[str, str]) -> None:
    namesrv, endpoint = ours
    await create(namesrv, "Ended")
    assert grpc("transact", endpoint, "Ended", 9) == {"sent": 9, "asked": 3}
    got = grpc("simple", endpoint, "Ended", "ended", 6, 0)
    assert (got["distinct"], got["sum"]) == (6, 0 + 3 + 6 + 2 + 5 + 8)
