"""Light queues: which lite topics there are, and where the newest message of each lies.

Owns        the numbers of lite messages, the table of light queues, the reading of the log for it.
Must not know   requests, who subscribes, how messages are handed out.

A light queue has no file. Each of its messages names the one before it, so the place of the newest one is enough to
find all (docs/decisions/0053). Numbers are dense. The first is the end of the log of that moment: numbers of a topic of
the same name that was deleted, or whose messages have expired, never come again.

A light queue without a message for as long as its parent says has expired: nobody reads it any more, and the next
message begins a chain of its own. When its last message came lies in the log, so each replica and each start knows it.

The table is made from the log. A slave reads on, so that it knows nearly all when it becomes the master; a master reads
until it knows all, and then notes what it stores. Once enough is new in the table it is saved (light_file.py): the next
start takes it from there, and reads the log behind it.

Invariant: a number is given out only while the table holds all lite messages of the log.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.delay.parking import delay_level, timer_property
from rocketlake.broker.lite.ends import Ends, Key
from rocketlake.broker.lite.light_file import LightFile, QueueRead, TableBytes
from rocketlake.broker.lite.lite_messages import LiteMessages, Said
from rocketlake.broker.topics.table import TopicTable
from rocketlake.broker.transaction.half import is_half
from rocketlake.model import property_names as names
from rocketlake.model.lite import (
    LITE_CHARS_MAX,
    LITE_LIFE,
    Place,
    is_lite_name,
    is_lite_topic,
    light_queue,
    lite_minutes,
)
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutResult

__all__ = ["LINGER_SECONDS", "LightQueues", "LiteMessage", "Newest"]

_log = get_logger(__name__)

_SOME = 500
_PAUSE_SECONDS = 0.05
_FOLLOW_SECONDS = 1.0
_SAVE_SECONDS = 10.0
_SAVE_EVERY = 100_000
"""The file is written anew for so many messages, or for a quarter of the light queues. A start reads that many, and
those that came while the file was written: a second for a hundred thousand."""
LINGER_SECONDS = 300.0
"""A light queue stays in the table for so long behind its end: see expiry.py."""
_UNREADABLE = "light-queues/unreadable"
_NOWHERE = PhysicalOffset(-1)
_UNREAD = QueueRead(QueueOffset(0), _NOWHERE)
_OFFSET_BITS, _QUEUE_BITS, _SECOND_BITS, _COUNT_BITS = 56, 16, 34, 32
"""Of a packed end, below the number behind its last message. All fit into 180 bits up to a log of 4 TB: 48 bytes."""


class Newest(NamedTuple):
    """The end of a light queue."""

    first: int
    """The number of its first message, or a lower one: 0 if the log holds that message no more."""
    end: int
    """The number behind its last message."""
    stored_s: int
    """When the last message was stored, rounded up."""
    place: Place
    """Where the last message lies."""


class LiteMessage(NamedTuple):
    """A lite message that is about to be stored."""

    parent: str
    lite: str
    number: int
    before: int
    """The packed end of its light queue, 0 for a new one."""


class LightQueues(Service):
    """All light queues of a broker."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        store: MessageStore,
        topics: TopicTable,
        messages: LiteMessages,
        file: LightFile,
        clock: Clock,
    ) -> None:
        super().__init__("light-queues", clock)
        self._config = config
        self._store = store
        self._topics = topics
        self._messages = messages
        self._file = file
        self._file_is_unread = True
        self._unsaved = 0
        """Messages noted since the file was written."""
        self._ends: defaultdict[str, Ends] = defaultdict(Ends)
        """Parent -> the ends of its light queues."""
        self._unread: dict[tuple[str, int], deque[tuple[int, str]]] = {}
        """(Parent, queue id) -> (queue offset, lite topic) of messages that are stored and may not be read yet."""
        self._readable: dict[tuple[str, str], deque[int]] = {}
        """(Parent, lite topic) -> the packed ends that its unread messages have moved, the oldest first."""
        self._parents: set[str] = set()
        """The parents whose messages the table holds."""
        self._read: dict[tuple[str, int], QueueRead] = {}
        """(Parent, queue id) -> how far it was read. Not kept while the table is ready: all is in it then."""
        self._reading = asyncio.Lock()
        self._leads = False
        self._makings = 0
        self.is_ready = False
        """True at a master whose table holds all lite messages."""
        self.on_message: Callable[[str, str], object] = lambda _parent, _lite: None
        """Called with parent and lite topic when there is a message to read."""
        self.on_ready: Callable[[], object] = lambda: None
        store.after_cut.append(lambda _end: self._make_anew())
        topics.on_change.append(self._topic_changed)

    def __len__(self) -> int:
        return sum(map(len, self._ends.values()))

    async def start(self) -> None:
        """Read the log beside other work, and go on reading until `lead`."""
        await super().start()
        await self._file.sweep()
        self._make_anew()
        self.every("follow", _FOLLOW_SECONDS, self._follow)
        self.every("save", _SAVE_SECONDS, self._save)
        self.every("forget", lambda: self._config.now.lite_check_interval_ms / 1000, self._forget_as_slave)

    async def stop(self) -> None:
        """Give no numbers from now on."""
        self.is_ready = self._leads = False
        await super().stop()
        await self._file.worker.close()

    def lead(self) -> None:
        """The broker is the master: give numbers once all of the log is read."""
        self._leads = True
        self._read_all()

    def follow(self) -> None:
        """The broker is a master no more. What it stored as one may be cut off its log: read anew."""
        self._leads = False
        self._make_anew()

    @property
    def first_number(self) -> int:
        """The number of the first message of a new light queue: no message before it has this number, or a higher one.

        A record has more than one byte, so numbers rise slower than the log does.
        """
        return int(self._store.max_physical_offset)

    # -- a message that comes ------------------------------------------------------------------------------------------

    def place(self, message: PutMessage, properties: dict[str, str], topic: TopicConfig) -> LiteMessage | None:
        """Mark a message of a lite topic, and choose its queue, in place; None for any other message.

        RemoteError for one that cannot be a lite message. `stored` must follow in the same turn if it was put.
        """
        lite = properties.get(names.LITE_TOPIC)
        if lite is None or not is_lite_topic(topic):
            return None
        self._check(message, properties, topic, lite)
        packed = self._end(topic.name, lite)
        if not packed and len(self) >= (most := self._config.now.lite_topics_max):
            raise RemoteError(
                f"the broker has {most} lite topics, {lite} would be one more",
                code=ResponseCode.LMQ_QUOTA_EXCEEDED,
                hint="raise maxLmqConsumeQueueNum, send to fewer, or have them expire: `rocketlake topic alter"
                f" {topic.name} --attribute +{LITE_LIFE}=<minutes>`",
            )
        newest = self._alive(topic.name, packed)
        number = newest.end if newest is not None else self.first_number
        message.queue_id = crc32(lite.encode()) % topic.write_queues
        properties[names.INNER_MULTI_DISPATCH] = light_queue(topic.name, lite)
        properties[names.INNER_MULTI_QUEUE_OFFSET] = str(number)
        properties.pop(names.LITE_BEFORE, None)
        if newest is not None:
            properties[names.LITE_BEFORE] = str(newest.place)
        return LiteMessage(topic.name, lite, number, packed if newest is not None else 0)

    def _check(self, message: PutMessage, properties: dict[str, str], topic: TopicConfig, lite: str) -> None:
        if not is_lite_name(lite):
            raise RemoteError(
                f"the lite topic {lite[:80]!r} is no name of one",
                code=ResponseCode.MESSAGE_ILLEGAL,
                hint=f"use 1 to {LITE_CHARS_MAX} letters, digits, - and _",
            )
        if is_half(message, properties) or delay_level(properties) > 0 or timer_property(properties) is not None:
            raise RemoteError(
                "a message of a lite topic can be neither delayed nor part of a transaction",
                code=ResponseCode.MESSAGE_ILLEGAL,
                hint="send it to an ordinary topic, or leave the delay or the transaction away",
            )
        if not topic.write_queues:
            raise RemoteError(f"topic {topic.name} has no write queue", code=ResponseCode.INVALID_PARAMETER)
        self.check_ready()

    def check_ready(self) -> None:
        """RemoteError while the light queues are not all known."""
        if not self.is_ready:
            reason = self._store.not_writable_reason  # a full disk, as a rule
            raise RemoteError(
                "the lite topics are read from the log after a start" + (f", which waits: {reason}" if reason else ""),
                code=ResponseCode.SYSTEM_BUSY,
                hint="ask again",
            )

    def stored(self, message: LiteMessage, queue_id: int, result: PutResult) -> None:
        """The message is in the log."""
        first = _unpacked(message.before).first if message.before else message.number
        place = Place(queue_id, result.queue_offset)
        newest = Newest(first, message.number + 1, _seconds(result.store_ms), place)
        self._ends[message.parent].put(_key(message.lite), _packed(newest))
        self._unsaved += 1
        if result.queue_offset < self._store.max_offset(message.parent, queue_id):
            self.on_message(message.parent, message.lite)
            return
        self._unread.setdefault((message.parent, queue_id), deque()).append((result.queue_offset, message.lite))
        self._readable.setdefault((message.parent, message.lite), deque()).append(message.before)

    def is_awaited(self, topic: str, queue_id: int) -> bool:
        """True if a message of this queue may not be read yet."""
        return (topic, queue_id) in self._unread

    def arrived(self, topic: str, queue_id: int, max_offset: int, _tag_code: int) -> None:
        """Messages of a queue can be read up to `max_offset`."""
        unread = self._unread.get((topic, queue_id))
        while unread and unread[0][0] < max_offset:
            lite = unread.popleft()[1]
            before = self._readable[topic, lite]
            before.popleft()
            if not before:
                del self._readable[topic, lite]
            self.on_message(topic, lite)
        if unread is not None and not unread:
            del self._unread[topic, queue_id]

    # -- what there is -------------------------------------------------------------------------------------------------

    def count(self, parent: str) -> int:
        """Lite topics of a parent."""
        return len(self._ends.get(parent, ()))

    def has(self, parent: str, lite: str) -> bool:
        """True if the table holds the light queue; it may have expired."""
        return self._end(parent, lite) != 0

    def newest(self, parent: str, lite: str) -> Newest | None:
        """The readable end of a light queue; None if it has no message, or has expired."""
        unread = self._readable.get((parent, lite))
        return self._alive(parent, unread[0] if unread else self._end(parent, lite))

    def _end(self, parent: str, lite: str) -> int:
        """The packed end of a light queue; 0 if the table has none."""
        ends = self._ends.get(parent)
        return 0 if ends is None else ends.get(_key(lite))

    def _alive(self, parent: str, packed: int) -> Newest | None:
        if not packed:
            return None
        newest = _unpacked(packed)
        life_s = self._life_s(parent)
        return newest if not life_s or self._clock.now_ms() <= 1000 * (newest.stored_s + life_s) else None

    def _life_s(self, parent: str) -> float:
        """How long a lite topic lives without a message; 0: for ever."""
        topic = self._topics.get(parent)
        minutes = lite_minutes(topic) if topic is not None else -1
        return max(60.0 * minutes, self._config.now.lite_life_min_ms / 1000) if minutes > 0 else 0.0

    def forget_expired(self, parent: str) -> Iterator[int]:
        """Drop the light queues of a parent that expired LINGER_SECONDS ago, some at each step; how many went at each.

        The steps end when the table is made anew.
        """
        life_s, ends, making = self._life_s(parent), self._ends.get(parent), self._makings
        if not life_s or ends is None:
            return
        for some in ends.steps(_SOME):
            if (self._leads and not self.is_ready) or making != self._makings:
                return
            oldest_s = self._clock.now_ms() / 1000 - life_s - LINGER_SECONDS
            gone = [key for key, end in some if _packed_second(end) < oldest_s]
            for key in gone:
                ends.drop(key)
            yield len(gone)

    # -- reading the log -----------------------------------------------------------------------------------------------

    def _make_anew(self) -> None:
        for parent in list(self._ends):
            self._forget(parent)
        self._read.clear()
        self._file_is_unread = True
        self._parents = {topic.name for topic in self._topics.all() if is_lite_topic(topic)}
        self._read_all()

    def _read_all(self) -> None:
        """What was read stays; on a master the table is ready when it holds the rest, too."""
        self.is_ready = False
        self._makings += 1
        self.health.set(_UNREADABLE, "")
        for table in (self._unread, self._readable):
            table.clear()
        if self.is_running and self._leads:
            self.spawn("making", self._make(self._makings, self._store.max_physical_offset))

    async def _make(self, making: int, log_end: PhysicalOffset) -> None:
        while not self._store.is_complete or self._store.dispatched_offset < log_end:
            await self._clock.sleep(_PAUSE_SECONDS)
        while making == self._makings and not await self._could_read(making):
            await self._clock.sleep(_FOLLOW_SECONDS)
        if making == self._makings:
            self._read.clear()
            self._file_is_unread = False
            self.is_ready = True
            self.on_ready()

    async def _could_read(self, making: int) -> bool:
        """Read on; False if the disk refuses. Lite topics wait for it: a number must not be given out twice."""
        try:
            await self._read_on(making)
        except OSError as error:
            _log.error("lite topics cannot be read from the log, it is tried again: %r", error)
            self.health.set(_UNREADABLE, f"lite topics cannot be read from the log: {error!r}")
            return False
        self.health.set(_UNREADABLE, "")
        return True

    async def _follow(self) -> None:
        if not self._leads and self._store.is_complete:
            await self._read_on(self._makings)

    async def _forget_as_slave(self) -> None:
        """On a master expiry.py does it, for it has more to forget."""
        async with self._reading:  # what is read now may be of a light queue that goes on
            for parent in sorted(self._parents):
                for _ in () if self._leads else self.forget_expired(parent):
                    await self._clock.sleep(0)

    async def _read_on(self, making: int) -> None:
        """Read all that can be read by now. It ends early when another making has begun."""
        async with self._reading:
            if self._file_is_unread and self._parents:
                await self._read_file(making)
            for parent in sorted(self._parents):
                queue_ids = left = self._store.queues.queue_ids(parent)
                while left and making == self._makings and parent in self._parents:
                    for queue_id in left:
                        await self._read_queue(parent, queue_id, making)
                    left = [queue_id for queue_id in queue_ids if (parent, queue_id) not in self._read]

    async def _read_queue(self, parent: str, queue_id: int, making: int) -> None:
        offset, end = -1, self._store.max_offset(parent, queue_id)
        while offset < end and making == self._makings:
            offset = await self._store.read(partial(self._read_some, parent, queue_id, making))
            await self._clock.sleep(0)

    def _read_some(self, parent: str, queue_id: int, making: int) -> QueueOffset:
        """Note some messages of a queue, from where it was read to; where the next one is. Raises NotInMemory.

        Messages may be noted again: that changes nothing. A topic that was made anew is forgotten.
        """
        end = self._store.max_offset(parent, queue_id)
        if making != self._makings or parent not in self._parents:
            return end
        first = self._store.min_offset(parent, queue_id)
        read = self._read.get((parent, queue_id), QueueRead(first, _NOWHERE))
        if not self._is_same(parent, queue_id, read, first):
            self._forget(parent)
            return end
        offset = QueueOffset(max(first, read.offset))
        found, last = self._messages.read(parent, queue_id, offset)
        for place, said in enumerate(found, offset):
            if said is not None:
                self._note(parent, said, Place(queue_id, place))
        if last is not None:
            read = QueueRead(QueueOffset(offset + len(found)), last)
        elif offset < end:  # a gap
            read = QueueRead(end, _NOWHERE)
        self._read[parent, queue_id] = read
        return read.offset

    def _is_same(self, parent: str, queue_id: int, read: QueueRead, first: QueueOffset) -> bool:
        """False if the queue is not the one that was read, as its topic was made anew. Raises NotInMemory."""
        if read.last == _NOWHERE or read.offset <= first:
            return read.offset <= self._store.max_offset(parent, queue_id)
        before = self._store.queue_entries(parent, queue_id, QueueOffset(read.offset - 1), 1)
        return bool(before) and before[0][0] == read.last

    def _note(self, parent: str, said: Said, place: Place) -> None:
        lite, number, has_before, store_ms = said
        ends, key = self._ends[parent], _key(lite)
        packed = ends.get(key)
        newest = _unpacked(packed) if packed else Newest(0, 0, 0, place)
        if number >= newest.end:
            newest = Newest(newest.first, number + 1, _seconds(store_ms), place)
        if not has_before:
            newest = newest._replace(first=max(newest.first, number))
        ends.put(key, _packed(newest))
        self._unsaved += 1

    def _topic_changed(self, name: str) -> None:
        topic = self._topics.get(name)
        if topic is not None and is_lite_topic(topic) and name not in self._parents:
            self._parents.add(name)
            if self._store.queues.queue_ids(name):  # it was one before, perhaps, and has lite messages
                self._read_all()
        elif topic is None and name in self._parents:
            self._parents.discard(name)
            self._forget(name)
            for key in [key for key in self._unread if key[0] == name]:
                del self._unread[key]
            for each in [each for each in self._readable if each[0] == name]:
                del self._readable[each]

    def _forget(self, parent: str) -> None:
        """Of what was read."""
        if (ends := self._ends.pop(parent, None)) is not None and self.is_running:
            self.spawn("free", self._free(ends))
        for key in [key for key in self._read if key[0] == parent]:
            del self._read[key]

    async def _free(self, ends: Ends) -> None:
        for _ in ends.free():
            await self._clock.sleep(0)

    # -- the file ------------------------------------------------------------------------------------------------------

    async def _read_file(self, making: int) -> None:
        """Take the table of the file, of the parents that are there still. It ends early when another making begins."""
        for saved in await self._file.read():
            reads = {(saved.name, queue_id): read for queue_id, read in saved.reads.items()}
            if not self._is_there(saved.name, reads):
                continue
            while making == self._makings and any(self._store.max_offset(*key) < reads[key].offset for key in reads):
                await self._clock.sleep(_PAUSE_SECONDS)  # a replica: not all is confirmed yet that was before the start
            ends = Ends()
            for some in saved.steps(_SOME):
                for key, end in some:
                    ends.put(key, end)
                await self._clock.sleep(0)
            if making != self._makings:
                return
            self._ends[saved.name] = ends
            self._read.update(reads)
        if making == self._makings:
            self._file_is_unread = False
            self._unsaved = 0

    def _is_there(self, parent: str, reads: dict[tuple[str, int], QueueRead]) -> bool:
        """False for a topic that is a parent no more, or has shorter queues, as it was deleted since.

        If it was made anew since and has queues as long, it is found out when they are read on.
        """
        return parent in self._parents and all(
            read.offset <= self._store.next_offset(*key) for key, read in reads.items()
        )

    async def _save(self) -> None:
        """Write the file, once enough is new. While it is made the table goes on: the file may hold messages behind the
        places that it names. To note them again changes nothing."""
        unsaved, making = self._unsaved, self._makings
        if unsaved < max(_SAVE_EVERY, len(self) // 4) or self._file_is_unread:
            return
        table = TableBytes()
        for parent in sorted(self._parents):
            reads, ends = await self._reads_of(parent), self._ends.get(parent)
            table.begin(parent, reads)
            for some in ends.steps(_SOME) if reads and ends is not None else ():
                table.add(some)
                await self._clock.sleep(0)
        log_end = self._store.max_physical_offset
        while self._store.kept_end < log_end and making == self._makings:  # what is kept is never cut off the log
            await self._clock.sleep(_PAUSE_SECONDS)
        checksum = await self._file.log_checksum(log_end)
        if making == self._makings:
            await self._file.write(table, log_end, checksum)
            self._unsaved -= unsaved

    async def _reads_of(self, parent: str) -> dict[int, QueueRead]:
        """How far the queues of a parent are in the table, by queue id; without those that have no message now."""
        reads: dict[int, QueueRead] = {}
        for queue_id in self._store.queues.queue_ids(parent):
            if self.is_ready:
                read = await self._store.read(partial(self._end_of, parent, queue_id))
            else:
                read = self._read.get((parent, queue_id), _UNREAD)
            if read.last != _NOWHERE:
                reads[queue_id] = read
        return reads

    def _end_of(self, parent: str, queue_id: int) -> QueueRead:
        """Raises NotInMemory."""
        end = self._store.max_offset(parent, queue_id)
        before = self._store.queue_entries(parent, queue_id, QueueOffset(end - 1), 1) if end else []
        return QueueRead(end, before[0][0]) if before else _UNREAD


def _key(lite: str) -> Key:
    return int.from_bytes(blake2b(lite.encode(), digest_size=16).digest(), "big")


def _seconds(store_ms: int) -> int:
    return -(-store_ms // 1000)


def _packed(newest: Newest) -> int:
    count = newest.end - newest.first if newest.first else 0
    if count >> _COUNT_BITS:
        count = 0
    packed = (newest.end << _COUNT_BITS | count) << _SECOND_BITS | newest.stored_s
    return (packed << _QUEUE_BITS | newest.place.queue_id) << _OFFSET_BITS | newest.place.queue_offset


def _packed_second(packed: int) -> int:
    return packed >> _OFFSET_BITS + _QUEUE_BITS & (1 << _SECOND_BITS) - 1


def _unpacked(packed: int) -> Newest:
    place = Place(packed >> _OFFSET_BITS & (1 << _QUEUE_BITS) - 1, packed & (1 << _OFFSET_BITS) - 1)
    numbers = packed >> _OFFSET_BITS + _QUEUE_BITS + _SECOND_BITS
    count, end = numbers & (1 << _COUNT_BITS) - 1, numbers >> _COUNT_BITS
    return Newest(end - count if count else 0, end, _packed_second(packed), place)
