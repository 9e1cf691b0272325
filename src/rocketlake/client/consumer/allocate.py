"""The rules by which the members of a group share queues; pure functions, the same in every member.

Owns        the allocation strategies. Every member sorts their inputs alike, so members need not talk.
Must not know   routes, locks, when a rebalance happens.

A strategy takes (own client id, sorted queues, sorted client ids) and returns the queues of that client id. A client id
that is not in the list gets nothing. Rules: RocketMQ's own strategies, so mixed groups (Java and Python) agree.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue

Allocate = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]


def averagely(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Neighbouring queues in equal shares; the first clients take one more if a rest is left (Java AVG)."""
    if client_id not in client_ids or not queues:
        return []
    share, rest = divmod(len(queues), len(client_ids))
    index = client_ids.index(client_id)
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def by_circle(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Queues dealt out one by one in a circle (Java AVG_BY_CIRCLE)."""
    if client_id not in client_ids:
        return []
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


def by_config(own: Collection[MessageQueue]) -> Allocate:
    """A fixed list, whatever the other members take (Java CONFIG)."""
    fixed = sorted(own)

    def allocate(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        return list(fixed)

    return allocate


def by_machine_room(rooms: Collection[str]) -> Allocate:
    """Only queues of brokers named `room@name` with a room in `rooms`, in equal shares (Java MACHINE_ROOM)."""
    wanted = frozenset(rooms)
    if not wanted:
        raise UsageError("by_machine_room needs at least one room", hint="name the brokers room@name")

    def allocate(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        near = [queue for queue in queues if _room_of_broker_name(queue.broker_name) in wanted]
        share, rest = divmod(len(near), len(client_ids))
        index = client_ids.index(client_id)
        mine = near[index * share : (index + 1) * share]
        if index < rest:
            mine.append(near[share * len(client_ids) + index])
        return mine

    return allocate


def by_machine_room_nearby(
    inner: Allocate = averagely,
    *,
    room_of_broker: Callable[[str], str] | None = None,
    room_of_client: Callable[[str], str],
) -> Allocate:
    """Own room's queues among own room's clients; rooms without clients are shared by all (MACHINE_ROOM_NEARBY).

    `room_of_broker` takes a broker name (default: the part before "@"), `room_of_client` a client id.
    """
    broker_room = room_of_broker or _room_of_broker_name

    def allocate(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        queues_by_room: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_by_room.setdefault(broker_room(queue.broker_name), []).append(queue)
        clients_by_room: dict[str, list[str]] = {}
        for member in client_ids:
            clients_by_room.setdefault(room_of_client(member), []).append(member)
        own_room = room_of_client(client_id)
        mine = inner(client_id, queues_by_room.get(own_room, []), clients_by_room[own_room])
        for room in sorted(queues_by_room.keys() - clients_by_room.keys()):
            mine += inner(client_id, queues_by_room[room], client_ids)
        return mine

    return allocate


def by_consistent_hash(virtual_nodes: int = 10) -> Allocate:
    """Few queues move when a member comes or goes (Java CONSISTENT_HASH: MD5 ring, 10 points per client)."""
    if virtual_nodes < 1:
        raise UsageError(
            f"virtual_nodes={virtual_nodes} makes no ring", where="by_consistent_hash", hint="use at least 1"
        )

    def allocate(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        owner_at = {_ring_hash(f"{member}-{k}"): member for member in client_ids for k in range(virtual_nodes)}
        points = sorted(owner_at)
        return [
            q for q in queues if owner_at[points[bisect_left(points, _ring_hash(_text(q))) % len(points)]] == client_id
        ]

    return allocate


def _room_of_broker_name(broker_name: str) -> str:
    room, mark, _ = broker_name.partition("@")
    return room if mark else ""


def _ring_hash(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def _text(queue: MessageQueue) -> str:
    # The text is part of the rule: Java members hash exactly this text.
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
