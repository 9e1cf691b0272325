"""Messages in hand of one queue: pulled and not yet finished; and the offset that is safe to commit.

Owns        the cache of one queue, its lowest unfinished offset, its limits' counters, dropped and lock marks.
Must not know   the network, listeners, clocks (times come in as monotonic seconds).

Invariant: every offset below `safe_offset` is finished; offsets come in rising order (one pull loop feeds one queue).
Invariant: `count` and `size` cover waiting and taken messages alike.
Rule: a listener may change the message that it gets. What was pulled stays here until the message is finished: sizes
are counted from it, and a message that comes again has it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.property_names import LAST_ERROR


class ProcessQueue:
    """One queue's messages between pull and commit; concurrent use: add/finish, orderly use: add/take/commit."""

    __slots__ = (
        "_bodies",
        "_highest",
        "_messages",
        "_order",
        "_taken",
        "dropped",
        "given_up",
        "is_busy",
        "last_lock",
        "last_pull",
        "locked",
        "queue",
        "size",
        "started",
    )

    def __init__(self, queue: MessageQueue, now: float = 0.0) -> None:
        self.queue = queue
        self.dropped = False
        """The queue is no longer ours, or goes on at another offset: messages in hand here no longer count."""
        self.locked = False
        """Ordered: the broker gave this client the lock of the queue, last at `last_lock`."""
        self.is_busy = False
        """Ordered: a worker has this queue, or will have it after a wait in line or a pause."""
        self.given_up: set[int] = set()
        """Ordered: offsets of messages in hand that are dead letters already; the listener does not get them again."""
        self.size = 0
        """Bytes of the bodies in hand, as they were pulled."""
        self.last_pull = now
        self.last_lock = now
        self.started: dict[int, float] = {}
        """When the listener got a message, by queue offset."""
        self._bodies: dict[int, bytes] = {}
        """The bodies in hand as they were pulled, by queue offset."""
        self._messages: dict[int, StoredMessage] = {}
        self._order: deque[int] = deque()
        self._taken: list[StoredMessage] = []
        self._highest = -1

    @property
    def count(self) -> int:
        """Messages in hand, waiting or taken."""
        return len(self._messages) + len(self._taken)

    @property
    def span(self) -> int:
        """Distance between the lowest and the highest offset in hand: how far one slow message holds up the commit."""
        return self._highest - self.lowest if self.count else 0

    @property
    def lowest(self) -> int:
        """Lowest offset in hand; -1 when empty."""
        if self._taken:
            return self._taken[0].queue_offset
        self._skip_finished()
        return self._order[0] if self._order else -1

    @property
    def highest(self) -> int:
        """Highest offset ever added; -1 before the first."""
        return self._highest

    @property
    def safe_offset(self) -> int:
        """The offset to commit: lowest in hand, else one after the highest seen; -1 before the first message."""
        lowest = self.lowest
        if lowest >= 0:
            return lowest
        return self._highest + 1 if self._highest >= 0 else -1

    def add(self, messages: Sequence[StoredMessage]) -> None:
        """Take pulled messages in, in rising offset order; a message already in hand is not counted twice."""
        held = self._messages
        for message in messages:
            offset = message.queue_offset
            if offset not in held:
                body = self._bodies[offset] = message.body
                self.size += len(body)
                self._order.append(offset)
            held[offset] = message
        if messages:
            self._highest = max(self._highest, messages[-1].queue_offset)

    def holds(self, message: StoredMessage) -> bool:
        """True while the message is in hand here."""
        return message.queue_offset in self._messages

    def finish(self, messages: Iterable[StoredMessage]) -> int:
        """Forget consumed messages and return the offset that is now safe to commit (-1: none)."""
        held, started = self._messages, self.started
        for message in messages:
            offset = message.queue_offset
            if held.pop(offset, None) is not None:
                self.size -= len(self._bodies.pop(offset))
            started.pop(offset, None)
        return self.safe_offset

    def restore(self, messages: Iterable[StoredMessage], error: str | None) -> None:
        """The listener failed, and may have changed messages in hand before: give them the bodies that were pulled.

        `error` says how it failed; None: it only asked for them later.
        """
        for message in messages:
            message.body = self._bodies.get(message.queue_offset, message.body)
            if error is None:
                message.properties.pop(LAST_ERROR, None)
            else:
                message.properties[LAST_ERROR] = error

    def start(self, messages: Iterable[StoredMessage], now: float) -> None:
        """Note when the listener got these messages, for the consume timeout."""
        for message in messages:
            self.started[message.queue_offset] = now

    def expired(self, before: float, limit: int) -> list[StoredMessage]:
        """Lowest messages, in order, whose listener started before `before` and still runs; at most `limit`."""
        found: list[StoredMessage] = []
        self._skip_finished()
        for offset in self._order:
            message = self._messages.get(offset)
            if message is None:
                continue
            begun = self.started.get(offset)
            if begun is None or begun >= before or len(found) >= limit:
                break
            found.append(message)
        return found

    def take(self, limit: int) -> list[StoredMessage]:
        """The next messages in order, at most `limit`; they stay in hand until `commit` or `put_back`."""
        batch: list[StoredMessage] = []
        while self._order and len(batch) < limit:
            message = self._messages.pop(self._order.popleft(), None)
            if message is not None:
                batch.append(message)
        self._taken += batch
        return batch

    def commit(self) -> int:
        """All taken messages are done: forget them, return the next offset to consume (-1: nothing was taken)."""
        if not self._taken:
            return -1
        offset = self._taken[-1].queue_offset + 1
        self.size -= sum([len(self._bodies.pop(message.queue_offset)) for message in self._taken])
        if self.given_up:
            self.given_up.difference_update([message.queue_offset for message in self._taken])
        self._taken.clear()
        return offset

    def put_back(self, messages: Sequence[StoredMessage]) -> None:
        """Undo `take` for these messages: they come again, in the same order."""
        offsets = {message.queue_offset for message in messages}
        for message in reversed(self._taken):
            if message.queue_offset in offsets:
                self._messages[message.queue_offset] = message
                self._order.appendleft(message.queue_offset)
        self._taken = [message for message in self._taken if message.queue_offset not in offsets]

    def put_back_all(self) -> None:
        """Undo every `take` that is not committed."""
        self.put_back(list(self._taken))

    def clear(self) -> None:
        """Forget everything in hand (the queue was lost or its offset was moved)."""
        self._bodies.clear()
        self._messages.clear()
        self._order.clear()
        self._taken.clear()
        self.given_up.clear()
        self.started.clear()
        self.size = 0

    def _skip_finished(self) -> None:
        while self._order and self._order[0] not in self._messages:
            self._order.popleft()
