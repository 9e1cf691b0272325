"""Allocation: pure rules, checked by property over all members at once."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketlake.base.errors import UsageError
from rocketlake.client.consumer.allocate import (
    Allocate,
    averagely,
    by_circle,
    by_config,
    by_consistent_hash,
    by_machine_room,
    by_machine_room_nearby,
)
from rocketlake.model.message_queue import MessageQueue

names = st.text("abcxyz", min_size=1, max_size=4)
queue_lists = st.sets(st.tuples(names, st.integers(0, 20)), min_size=1, max_size=40).map(
    lambda found: sorted(MessageQueue("T", broker, number) for broker, number in found)
)
client_lists = st.sets(st.text("0123456789@#", min_size=1, max_size=6), min_size=1, max_size=12).map(sorted)

SHARING = {
    "averagely": averagely,
    "by_circle": by_circle,
    "by_consistent_hash": by_consistent_hash(),
    "nearby": by_machine_room_nearby(
        room_of_broker=lambda name: name[0], room_of_client=lambda name: "abcxyz"[len(name) % 6]
    ),
}


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue("T", broker, number) for number in range(count)]


@pytest.mark.parametrize("name", SHARING)
@given(all_queues=queue_lists, clients=client_lists)
def test_every_queue_has_exactly_one_owner(name: str, all_queues: list[MessageQueue], clients: list[str]) -> None:
    allocate: Allocate = SHARING[name]
    owned = [queue for client in clients for queue in allocate(client, all_queues, clients)]
    assert sorted(owned) == all_queues


@pytest.mark.parametrize("name", ["averagely", "by_circle"])
@given(all_queues=queue_lists, clients=client_lists)
def test_shares_differ_by_one_at_most(name: str, all_queues: list[MessageQueue], clients: list[str]) -> None:
    sizes = [len(SHARING[name](client, all_queues, clients)) for client in clients]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", SHARING)
@given(all_queues=queue_lists, clients=client_lists)
def test_a_client_that_is_no_member_gets_nothing(name: str, all_queues: list[MessageQueue], clients: list[str]) -> None:
    assert SHARING[name]("stranger", all_queues, clients) == []


@given(all_queues=queue_lists, clients=client_lists)
def test_consistent_hash_moves_only_the_queues_of_a_member_that_leaves(
    all_queues: list[MessageQueue], clients: list[str]
) -> None:
    allocate = by_consistent_hash()
    gone, rest = clients[0], clients[1:]
    for client in rest:
        assert set(allocate(client, all_queues, clients)) <= set(allocate(client, all_queues, rest)), gone


def test_averagely_gives_neighbours_and_the_first_clients_one_more() -> None:
    shares = [[queue.queue_id for queue in averagely(client, queues(8), ["a", "b", "c"])] for client in "abc"]
    assert shares == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_averagely_leaves_the_last_clients_empty_when_queues_are_few() -> None:
    shares = [[queue.queue_id for queue in averagely(client, queues(2), ["a", "b", "c"])] for client in "abc"]
    assert shares == [[0], [1], []]


def test_circle_deals_one_by_one() -> None:
    assert [queue.queue_id for queue in by_circle("b", queues(8), ["a", "b", "c"])] == [1, 4, 7]


def test_config_keeps_its_list_whatever_the_members() -> None:
    fixed = queues(2)
    assert by_config(fixed)("anybody", queues(8), ["a"]) == fixed


def test_machine_room_uses_only_brokers_of_its_rooms_and_deals_the_rest_one_by_one() -> None:
    all_queues = sorted([*queues(5, "r1@b"), *queues(3, "r2@b"), *queues(2, "plain")])
    allocate = by_machine_room(["r1"])
    shares = [[queue.queue_id for queue in allocate(client, all_queues, ["a", "b"])] for client in "ab"]
    assert shares == [[0, 1, 4], [2, 3]]
    assert all(queue.broker_name == "r1@b" for queue in allocate("a", all_queues, ["a", "b"]))


def test_machine_room_without_rooms_is_refused() -> None:
    with pytest.raises(UsageError, match="room"):
        by_machine_room([])


def test_nearby_shares_rooms_without_clients_among_all() -> None:
    all_queues = sorted([*queues(2, "r1@b"), *queues(2, "r2@b"), *queues(2, "r3@b")])
    allocate = by_machine_room_nearby(room_of_client=lambda client: client.split("-")[0])
    owned = allocate("r1-x", all_queues, ["r1-x", "r2-y"])
    assert [str(queue) for queue in owned] == ["T@r1@b:0", "T@r1@b:1", "T@r3@b:0"]


def test_consistent_hash_uses_javas_ring() -> None:
    """Recomputed the long way: MD5 of `client-k` and of Java's text of the queue, first four bytes, clockwise."""

    def point(text: str) -> int:
        return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")

    ring = sorted((point(f"{client}-{k}"), client) for client in ("a", "b", "c") for k in range(10))
    for queue in queues(32):
        hashed = point(f"MessageQueue [topic=T, brokerName=b, queueId={queue.queue_id}]")
        owner = next((client for place, client in ring if place >= hashed), ring[0][1])
        assert queue in by_consistent_hash()(owner, queues(32), ["a", "b", "c"])
