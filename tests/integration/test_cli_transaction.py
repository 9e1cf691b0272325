"""`rocketlake transaction`, as a user types it: producers that died, that live, that come back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from rocketlake import Message, StoredMessage, TransactionEnd, TransactionProducer, UsageError
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed

SETTINGS = {
    "transactionCheckInterval": "100",
    "transactionTimeOut": "50",
    "transactionOpBatchInterval": "20",
    "transactionCheckMax": "1000000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster"), settings=SETTINGS) as cluster:
        yield cluster


async def unknown(_: StoredMessage) -> TransactionEnd:
    return TransactionEnd.UNKNOWN


async def commit(_: StoredMessage) -> TransactionEnd:
    return TransactionEnd.COMMIT


async def dies(_: Message) -> TransactionEnd:
    raise asyncio.CancelledError


async def leave_open(namesrv: str, group: str, topic: str, count: int) -> None:
    """A producer that dies in the middle of its transactions."""
    async with TransactionProducer(group, check=unknown, namesrv=namesrv) as producer:
        for number in range(count):
            with pytest.raises(asyncio.CancelledError):
                await producer.send_in_transaction(Message(topic, b"x", keys=f"{group} {number}"), dies)


def listed(rocketlake: Typed, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(rocketlake("transaction", "list", "-o", "json", *options))
    return found


def await_that(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_a_dead_producer_left_open_is_listed_until_it_is_committed(
    cluster: EmbeddedCluster, rocketlake: Typed
) -> None:
    cluster.run(leave_open(cluster.namesrv, "dead", "Paid", 3))
    lives = TransactionProducer("lives", check=unknown, namesrv=cluster.namesrv)
    cluster.run(lives.start())
    cluster.run(lives.send_in_transaction(Message("Booked", b"x"), lambda _: TransactionEnd.UNKNOWN))
    await_that(lambda: all(each["checks"] for each in listed(rocketlake)))

    everything = listed(rocketlake)
    assert [(each["group"], each["topic"], each["keys"]) for each in everything] == [
        ("dead", "Paid", "dead 0"), ("dead", "Paid", "dead 1"), ("dead", "Paid", "dead 2"), ("lives", "Booked", None),
    ]  # fmt: skip
    assert [each["producers"] for each in everything] == [0, 0, 0, 1]
    assert all(
        datetime.fromisoformat(each["since"]) < datetime.fromisoformat(each["last_check"]) for each in everything
    )
    dead = [each["transaction"] for each in everything[:3]]
    assert [each["transaction"] for each in listed(rocketlake, "--dead")] == dead
    assert [each["transaction"] for each in listed(rocketlake, "--limit", "2")] == dead[:2]
    assert [each["group"] for each in listed(rocketlake, "--topic", "Booked")] == ["lives"]
    assert [each["group"] for each in listed(rocketlake, "--group", "lives")] == ["lives"]
    summary = listed(rocketlake, "--summary")
    assert [(each["group"], each["broker"], each["open"], each["producers"]) for each in summary] == [
        ("dead", "broker-a", 3, 0), ("lives", "broker-a", 1, 1),
    ]  # fmt: skip
    assert summary[0]["oldest"] == everything[0]["since"]
    assert "dead 2" in rocketlake("transaction", "list", "--dead")

    cluster.run(lives.stop())
    assert {each["producers"] for each in listed(rocketlake)} == {0}
    for group in ("dead", "lives"):
        back = TransactionProducer(group, check=commit, topics=["Paid", "Booked"], namesrv=cluster.namesrv)
        cluster.run(back.start())
        await_that(lambda group=group: not listed(rocketlake, "--group", group))  # type: ignore[misc]
        cluster.run(back.stop())
    assert listed(rocketlake) == []


def test_one_that_was_given_up_is_checked_again(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    config = cluster.standalone.broker.config
    config.update({"transactionCheckMax": "1"})
    cluster.run(leave_open(cluster.namesrv, "tired", "Paid", 1))
    await_that(lambda: not listed(rocketlake) and bool(listed(rocketlake, "--given-up")))
    config.update({"transactionCheckMax": "1000000"})
    (tired,) = listed(rocketlake, "--given-up", "--group", "tired")
    assert (tired["checks"], tired["producers"]) == (1, 0)
    assert datetime.fromisoformat(tired["since"]) < datetime.fromisoformat(tired["given_up"])
    assert listed(rocketlake, "--given-up", "--summary")[0]["given_up"] == 1

    assert "is open" in rocketlake("transaction", "check", tired["id"])
    assert [each["transaction"] for each in listed(rocketlake)] == [tired["transaction"]]
    assert listed(rocketlake, "--given-up") == []
    back = TransactionProducer("tired", check=commit, topics=["Paid"], namesrv=cluster.namesrv)
    cluster.run(back.start())
    await_that(lambda: not listed(rocketlake))
    cluster.run(back.stop())
    assert listed(rocketlake, "--given-up") == []


def test_more_than_one_answer_holds_is_listed_once_while_checks_go_on(
    cluster: EmbeddedCluster, rocketlake: Typed
) -> None:
    """Each check puts all of them to the end of the half topic."""

    async def leave() -> None:
        async with TransactionProducer("many", check=unknown, namesrv=cluster.namesrv) as producer:
            for _ in range(6):
                half = Message("Many", b"x")
                await asyncio.gather(*[producer.send_in_transaction(half, lambda _: None) for _ in range(200)])

    config = cluster.standalone.broker.config
    config.update({"transactionTimeOut": "60000"})  # the producer is asked nothing while it sends
    cluster.run(leave())
    config.update({"transactionTimeOut": "50"})
    assert len({each["transaction"] for each in listed(rocketlake, "--limit", "5000")}) == 1200
    (many,) = listed(rocketlake, "--summary")
    assert (many["open"], many["producers"]) == (1200, 0)


def test_no_id_and_an_id_of_no_broker_are_refused(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    with pytest.raises(UsageError, match="message id"):
        rocketlake("transaction", "check", "nonsense")
    with pytest.raises(UsageError, match="no master of this cluster has the address"):
        rocketlake("transaction", "check", "0A000001000000010000000000000193")
