"""The rules that a cluster must keep under faults; checked while it runs, and after all has healed.

Owns        the rules and their exceptions: with ASYNC_FLUSH a power cut may take messages that were not synced,
            acknowledged or not, and brokers give their queue offsets out again.
Must not know   how faults are made, how messages are sent.

| Rule | Where |
|---|---|
| an acknowledged message is at its offset; nothing is there that was not sent; offsets leave no gap | `check_stored` |
| messages of one key keep their order in their queue | `check_key_order` |
| a queue's end never goes back, unless its disk lost what was not synced | `check_rewinds` |
| a group's offset never passes a message that no listener of it has seen | `CommitWatch` |
| an orderly group sees every message of a queue, in order | `OrderlyWatch` |
| rolled back messages are nowhere; committed ones are stored, once or more often | `check_stored`, `owed` |
| in the end no transaction is open | `owed` |
| in the end every message was taken by every group, and offsets stand at the end | `owed` |
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from rocketlake.broker.broker import Broker
from rocketlake.codec.record import decode_records
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import QueueOffset
from rocketlake.model.topic import HALF_TOPIC
from rocketlake.store.message_store import MessageStore
from rocketlake.testing.history import Ack, History, Queue, Rewind
from rocketlake.testing.workload import GROUPS, LATER, TRANSACTED, name_of

__all__ = [
    "CommitWatch",
    "OrderlyWatch",
    "Stored",
    "check_key_order",
    "check_rewinds",
    "check_stored",
    "ends_at",
    "owed",
    "queue_ends",
    "read_all",
]

Stored = dict[Queue, list[StoredMessage]]
_OURS = tuple(topic for topics in GROUPS.values() for topic in topics)


def queue_ends(broker: Broker) -> dict[Queue, int]:
    """The ends of the queues of the workload's topics, as readers see them."""
    name = broker.config.now.broker_name
    ends: dict[Queue, int] = {}
    for topic in _OURS:
        config = broker.topics.get(topic)
        for queue_id in range(config.read_queues if config is not None else 0):
            ends[name, topic, queue_id] = broker.store.max_offset(topic, queue_id)
    return ends


def ends_at(broker: Broker, ms: int) -> dict[Queue, int]:
    """The ends of the queues at a time in the past: a broker that starts delivers delayed messages at once."""
    return {
        queue: sum(message.store_ms < ms for message in _read(broker.store, queue[1], queue[2], end))
        for queue, end in queue_ends(broker).items()
    }


def check_rewinds(history: History, before: Mapping[Queue, int], after: Mapping[Queue, int], *, may_lose: bool) -> None:
    """Compare the queues' ends before a stop and after the next start."""
    for queue, end in before.items():
        new_end = after.get(queue, 0)
        if new_end >= end:
            continue
        history.rewinds.append(Rewind(queue, end, new_end))
        if not may_lose:
            history.problem(f"queue {queue} ended at {end} and ends at {new_end} after the restart")


def read_all(brokers: Iterable[Broker], history: History) -> Stored:
    """All messages of the workload's queues, read as a pull reads them; gaps are problems."""
    stored: Stored = {}
    for broker in brokers:
        for queue, end in queue_ends(broker).items():
            messages = _read(broker.store, queue[1], queue[2], end)
            stored[queue] = messages
            offsets: list[int] = [message.queue_offset for message in messages]
            if offsets != list(range(end)):
                history.problem(f"queue {queue} ends at {end} and has the offsets {_gaps(offsets)}")
    return stored


def _read(store: MessageStore, topic: str, queue_id: int, end: int) -> list[StoredMessage]:
    messages: list[StoredMessage] = []
    offset = store.min_offset(topic, queue_id)
    while offset < end:
        result = store.get(topic, queue_id, offset, 32, 1 << 20)
        messages += (message for part in result.slices for message in decode_records(part))
        if result.next_offset <= offset:
            break
        offset = QueueOffset(result.next_offset)
    return [message for message in messages if message.queue_offset < end]


def _gaps(offsets: list[int]) -> str:
    wrong = [f"{one} then {other}" for one, other in itertools.pairwise(offsets) if other != one + 1]
    return f"{len(offsets)} of them, first {offsets[:1]}, last {offsets[-1:]}, {'; '.join(wrong[:5])}"


def check_stored(history: History, stored: Stored) -> None:
    """Acknowledged messages are where their answer said; no message is invented, changed or stored too often."""
    copies: Counter[str] = Counter()
    for queue, messages in stored.items():
        for message in messages:
            name = name_of(message)
            copies[name] += 1
            if history.sent.get(name) != (queue[1], message.body):
                history.problem(f"{queue} {message.queue_offset} holds {message.body[:40]!r}, which nobody sent there")
            if not history.decisions.get(name, True):
                history.problem(f"{queue} {message.queue_offset} holds {name}, which was rolled back")
    for name, count in copies.items():
        if name in history.decisions:
            continue  # a question and an end may cross: committed twice
        # Each copy of a delayed message may be delivered once more when its broker dies in between.
        times = 1 + history.crashes if history.sent[name][0] == LATER else 1
        if count > history.attempts[name] * times:
            history.problem(f"{name} was sent {history.attempts[name]} times and is stored {count} times")
    for ack in history.acks.values():
        if ack.may_be_lost:
            continue
        if ack.is_delayed:
            if not copies[ack.name]:
                history.problem(f"delayed {ack.name} was acknowledged and never came out")
            continue
        there = stored.get(ack.queue, [])[ack.queue_offset : ack.queue_offset + 1]
        if [(name_of(message), message.physical_offset) for message in there] != [(ack.name, ack.physical_offset)]:
            found = [(name_of(message), message.physical_offset) for message in there]
            history.problem(f"acknowledged {ack} is not there, but {found}")


def check_key_order(history: History) -> None:
    """In each queue the messages of one key lie in the order in which they were acknowledged."""
    last: dict[tuple[Queue, str], int] = {}
    for ack in history.acks.values():
        if not ack.key or ack.may_be_lost:
            continue
        place = ack.queue, ack.key
        if ack.queue_offset <= last.get(place, -1):
            history.problem(f"{ack.name} of key {ack.key} overtook another: {ack.queue} {ack.queue_offset}")
        last[place] = ack.queue_offset


class OrderlyWatch:
    """An orderly group is handed offset n only when everything before n was taken."""

    def __init__(self, history: History, group: str) -> None:
        self._history = history
        self._group = group
        self._next: dict[Queue, int] = {}
        history.on_handed.append(self._handed)
        history.on_done.append(self._done)

    def _handed(self, group: str, queue: Queue, offset: int) -> None:
        if group != self._group:
            return
        # Offsets that are given out a second time lie behind the group, which goes on at its old offset.
        forgiven = max((rewind.before for rewind in self._history.rewinds if rewind.queue == queue), default=0)
        if offset > max(self._next.get(queue, 0), forgiven):
            self._history.problem(f"group {group} got {queue} {offset} before {self._next.get(queue, 0)} was taken")

    def _done(self, group: str, queue: Queue, offset: int) -> None:
        if group == self._group and offset >= self._next.get(queue, 0):
            self._next[queue] = offset + 1


class CommitWatch:
    """The groups' offsets at the brokers, checked again and again."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._checked: dict[tuple[str, Queue], int] = {}

    def look(self, broker: Broker) -> None:
        """Check that listeners have seen every message before the offsets of their group."""
        if not broker.store.is_complete:
            return  # started on a full disk: where the queues end is known when there is room
        for group, topics in GROUPS.items():
            for queue in queue_ends(broker):
                if queue[1] in topics:
                    self._look_at(broker, group, queue)

    def _look_at(self, broker: Broker, group: str, queue: Queue) -> None:
        committed = broker.offsets.query(group, queue[1], queue[2])
        begin = self._checked.get((group, queue), 0)
        if committed <= begin:
            return
        reused = self._history.reused(queue)
        for message in _read(broker.store, queue[1], queue[2], committed)[begin:]:
            offset, name = message.queue_offset, name_of(message)
            if offset not in reused and name not in self._history.handed.get(group, ()):
                self._history.problem(f"group {group} committed {committed} in {queue} without seeing {offset}: {name}")
        end = broker.store.max_offset(queue[1], queue[2])
        if committed > end and committed - 1 not in reused:
            self._history.problem(f"group {group} committed {committed} in {queue}, which ends at {end}")
        self._checked[group, queue] = committed


def owed(history: History, brokers: Collection[Broker]) -> list[str]:
    """The steps still missing until each group has taken every message."""
    lacking = []
    for broker in brokers:
        for queue, end in queue_ends(broker).items():
            for group in (group for group, topics in GROUPS.items() if queue[1] in topics):
                committed = broker.offsets.query(group, queue[1], queue[2])
                if committed < end:
                    lacking.append(f"group {group} stands at {committed} of {end} in {queue}")
    return lacking + _not_taken(history) + _not_committed(history) + _open(brokers)


def _open(brokers: Collection[Broker]) -> list[str]:
    """Half messages that are not ended, or not known to be."""
    lacking = []
    for broker in brokers:
        end = broker.store.max_offset(HALF_TOPIC, 0)
        known = broker.offsets.query("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0)
        if max(known, 0) < end:
            lacking.append(f"{broker.config.now.broker_name} has looked at {known} of {end} half messages")
    return lacking


def _not_committed(history: History) -> list[str]:
    lacking = []
    for ack in history.halves.values():
        if not history.decisions[ack.name] or ack.may_be_lost:
            continue
        for group in (group for group, topics in GROUPS.items() if TRANSACTED in topics):
            if history.done.get(group, Counter())[ack.name]:
                continue
            rewound = any(rewind.queue[:2] == (ack.queue[0], TRANSACTED) for rewind in history.rewinds)
            if history.is_lossy and (rewound or (group, ack.name) in history.refused):
                continue
            lacking.append(f"group {group} has not taken {ack.name}, committed at {ack.queue[0]}")
    return lacking


def _not_taken(history: History) -> list[str]:
    lacking = []
    for group, topics in GROUPS.items():
        done = history.done.get(group, Counter())
        for ack in history.acks.values():
            if ack.queue[1] not in topics or done[ack.name] or ack.may_be_lost:
                continue
            # A refused message waits in a copy at the broker, which may be lost as well.
            if history.is_lossy and ((group, ack.name) in history.refused or _may_be_hidden(history, ack)):
                continue
            lacking.append(f"group {group} has not taken {ack.name} ({ack.queue} {ack.queue_offset})")
    return lacking


def _may_be_hidden(history: History, ack: Ack) -> bool:
    """True when the group may have passed the offset already, while another message was there."""
    if ack.is_delayed:
        return any(rewind.queue[:2] == ack.queue[:2] for rewind in history.rewinds)
    return ack.queue_offset in history.reused(ack.queue)
