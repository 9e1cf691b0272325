"""The decision topic: what was decided about each batch of a query, found again by every driver and task.

Owns        the queue of decisions and those of lists, which record of a batch counts, the walk back to it.
Must not know   how half messages are written and ended.

All decisions lie in queue 0, so brokers put them into one order. Two drivers may each take a batch for undecided and
write; both read on behind their own record, and the first one counts for both.

A look begins at the end of the queue. It goes back until no record of the batch can lie before: a writer notes where
the queue ended when it had read it, and it had found nothing of a later batch.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile

from rocketlake.base.errors import UsageError
from rocketlake.client.wire import Outgoing, PullAnswer, offset_calls, pull
from rocketlake.codec import property_text
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import SPARK_GROUP
from rocketlake.model.subscription import parse_subscription
from rocketlake.spark.sink.exactly_once.calls import Calls
from rocketlake.spark.sink.exactly_once.records import (
    HalfList,
    ListPlace,
    Record,
    decode_list,
    decode_record,
    encode,
)
from rocketlake.spark.sink.sending import WriteFailed

__all__ = ["BatchPassed", "Journal", "Standing", "decision_queues"]

_STEP = 32
"""Records of one look: brokers give no more at once."""
_READ_BYTES = 4 << 20
_EXPIRED = (
    "have the broker keep messages (fileReservedTime) for longer than a query stands still. Of a decided batch the"
    " topics have the rows whose property RL_BATCH names it: write the others, then go on behind it with a new"
    " checkpoint"
)


class BatchPassed(WriteFailed):
    """A later batch of this query is decided: this one is over, or its checkpoint was set back."""


@dataclass(slots=True)
class Standing:
    """What the journal says about one batch. `seen`: the end of its decisions."""

    seen: int
    decision: Record | None = None
    is_done: bool = False
    """All of its half messages are ended."""
    aborted: set[str] = field(default_factory=set)
    """Attempts that can never become the decision."""

    def add(self, record: Record) -> None:
        """Take the next record of the batch."""
        if record.kind == "done":
            self.is_done = True
        elif self.decision is None and record.kind == "abort":
            self.aborted.add(record.attempt)
        elif self.decision is None and record.attempt not in self.aborted:
            self.decision = record


def decision_queues(topic: str, queues: tuple[MessageQueue, ...]) -> tuple[MessageQueue, tuple[MessageQueue, ...]]:
    """The queue of decisions, and those of lists. UsageError if the topic cannot keep one order of decisions."""
    brokers = sorted({queue.broker_name for queue in queues})
    if len(brokers) > 1:
        raise UsageError(
            f"decision topic {topic} is written to on several brokers: {', '.join(brokers)}; decisions need one order",
            hint=f"keep it at one: `rocketlake topic alter {topic} --perm r --broker NAME` for each of the others",
        )
    decisions = MessageQueue(topic, brokers[0], 0)
    lists = tuple(queue for queue in queues if queue != decisions)
    if decisions not in queues or not lists:
        raise UsageError(
            f"decision topic {topic} has one queue, and needs two", hint=f"`rocketlake topic alter {topic} --queues 2`"
        )
    return decisions, lists


class Journal:
    """The decisions of one query. Errors of its methods: WriteFailed, ProtocolError for a message that is none of a
    sink."""

    def __init__(self, calls: Calls, query: str, queues: tuple[MessageQueue, ...]) -> None:
        """`queues`: of the decision topic, those that are written to."""
        self.query = query
        self.calls = calls
        self._decisions, self._lists = decision_queues(queues[0].topic, queues)
        self._subscription = parse_subscription(queues[0].topic, None)

    async def standing(self, batch: int) -> Standing:
        """What is decided about this batch. Raises BatchPassed if a later one is."""
        queue = self._decisions
        seen = end = await self._offset(is_end=True)
        first = await self._offset(is_end=False)
        found: list[Record] = []
        while end > first:
            start = max(first, end - _STEP)
            for message in reversed(await self._read(queue, start, end)):
                record = decode_record(message.body, f"{queue} at {message.queue_offset}")
                if message.queue_offset < first or record.query != self.query:
                    continue
                if record.batch > batch:
                    raise _passed(record, batch)
                if record.batch == batch:
                    found.append(record)
                else:
                    first = max(first, record.seen)
            end = start
        standing = Standing(seen)
        for record in reversed(found):
            standing.add(record)
        return standing

    async def add(self, record: Record) -> None:
        """Store a record. Whether it counts is for `standing` to say."""
        key = f"{record.query}/{record.batch}"
        await self._store(self._decisions, encode(record), key, f"the decision about batch {record.batch}")

    async def add_list(self, half_list: HalfList, key: str, turn: int) -> ListPlace:
        """Store a list of half messages; returns its place. `turn`: chooses its queue."""
        queue = self._lists[turn % len(self._lists)]
        offset = await self._store(queue, encode(half_list), key, "a list of half messages")
        return queue.queue_id, offset

    async def read_list(self, place: ListPlace) -> HalfList:
        """The list at this place."""
        queue_id, offset = place
        queue = MessageQueue(self._decisions.topic, self._decisions.broker_name, queue_id)
        found = await self._read(queue, offset, offset + 1)
        if not found:
            raise WriteFailed(
                f"the list of half messages in {queue} at {offset} has expired, and they are not found without it",
                where=queue.broker_name,
                hint=_EXPIRED,
            )
        return decode_list(found[0].body, f"{queue} at {offset}")

    async def _store(self, queue: MessageQueue, body: bytes, key: str, what: str) -> int:
        properties = {names.KEYS: key, names.UNIQUE_KEY: secrets.token_hex(16).upper()}
        outgoing = Outgoing(queue.topic, properties[names.UNIQUE_KEY], body, property_text.encode(properties))
        return (await self.calls.store(queue, outgoing, f"{what} to {queue}")).queue_offset

    async def _offset(self, *, is_end: bool) -> int:
        """The end of the decisions, or their first one that is kept."""
        call = offset_calls.max_offset if is_end else offset_calls.min_offset
        queue, net = self._decisions, self.calls.client.net
        return await self.calls.read(
            queue, f"the question for the decisions in {queue}", lambda address, ms: call(net, address, queue, ms)
        )

    async def _read(self, queue: MessageQueue, start: int, end: int) -> list[StoredMessage]:
        """The messages from `start` to before `end`, all of them but those that have expired.

        WriteFailed for a damaged one, too: brokers pass it by, and it may be the decision about this batch.
        """
        doing = f"the read of {queue} at {start}"
        patience = self.calls.patience(queue, doing)
        found: list[StoredMessage] = []
        while start < end:
            answer = await self.calls.read(queue, doing, partial(self._pull, queue, start, end - start))
            here = list(takewhile(lambda pair: pair[0] == pair[1].queue_offset, enumerate(answer.messages, start)))
            found += [message for _, message in here]
            if here:
                start += len(here)
            elif answer.is_deleted(start):
                start = answer.next_offset
            else:
                await patience.after(
                    WriteFailed(
                        f"offset {start} cannot be read ({answer.status.name})",
                        where=queue.broker_name,
                        hint="look at the broker's log, it names damaged records; else 'deliveryTimeoutMs' lets the"
                        " sink try for longer",
                    )
                )
        return found

    async def _pull(self, queue: MessageQueue, offset: int, count: int, address: str, timeout_ms: int) -> PullAnswer:
        return await pull(
            self.calls.client.net,
            address,
            queue,
            group=SPARK_GROUP,
            offset=offset,
            subscription=self._subscription,
            max_messages=count,
            max_bytes=_READ_BYTES,
            lite=True,
            timeout_ms=timeout_ms,
        )


def _passed(record: Record, batch: int) -> BatchPassed:
    return BatchPassed(
        f"batch {batch} of query {record.query} is to be written, but batch {record.batch} is decided already",
        hint="take a new checkpoint, for one that was set back gives new rows under old numbers; or for a batch write a"
        " higher 'batchId'",
    )
