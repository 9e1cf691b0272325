"""Read a light queue from a number on: its messages name each other from the newest one back.

Owns        the walk back, the places that it has found, per group and light queue.
Must not know   who may read, what is handed out.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import islice

from rocketlake.broker.lite.light_queues import LightQueues, Newest
from rocketlake.broker.lite.lite_messages import number_of
from rocketlake.codec.record import decode_record
from rocketlake.model import property_names as names
from rocketlake.model.lite import Place
from rocketlake.model.positions import QueueOffset
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import ColdPart, GetStatus

__all__ = ["LightRead", "LightReads"]

_STEPS = 256
"""Messages that one read walks back over, or finds gone."""
_WALKS_MAX = 4096
_BYTES_MAX = 1 << 30


@dataclass(slots=True)
class LightRead:
    """What one read of a light queue found."""

    records: list[memoryview] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    size: int = 0
    cold: list[ColdPart] = field(default_factory=list)
    """Parts to load from disk first."""
    is_more: bool = False
    """The first message has not been found yet: read again."""


@dataclass(slots=True)
class _Walk:
    """Places of messages with the numbers from `first` on, and where the one before them lies."""

    first: int
    before: Place | None
    places: deque[Place] = field(default_factory=deque)


class LightReads:
    """Reads for groups."""

    def __init__(self, store: MessageStore, queues: LightQueues) -> None:
        self._store = store
        self._queues = queues
        self._walks: OrderedDict[tuple[str, str, str], _Walk] = OrderedDict()
        """(Group, parent, lite topic) -> what is known of its unread messages, the one used last at the end."""

    def clear(self) -> None:
        """The log was cut, or the topics are others."""
        self._walks.clear()

    def read(self, group: str, parent: str, lite: str, number: int, count: int, room_bytes: int) -> LightRead:
        """Messages from `number` on, at most `count`, and behind the first one no more than fit into `room_bytes`."""
        found = LightRead()
        newest = self._queues.newest(parent, lite)
        key = group, parent, lite
        if newest is None or newest.end <= number:
            self._walks.pop(key, None)
            return found
        number = max(number, newest.first)
        walk = self._walk(key, newest, number)
        if self._walk_back(parent, walk, number, found):
            self._take(parent, walk, count, room_bytes, found)
            if not (found.records or found.cold):
                found.is_more = walk.first < newest.end
            if not walk.places:
                del self._walks[key]  # what it knew has left the log: what comes later is found from the end
        return found

    def _take(self, parent: str, walk: _Walk, count: int, room_bytes: int, found: LightRead) -> None:
        """Read from the first place on. Places whose messages have left the log are let go, so many at a time."""
        gone = 0
        for number, place in enumerate(islice(walk.places, count + _STEPS), walk.first):
            record = self._record(parent, place, found)
            if record is None and not found.cold:
                gone += not found.records
                continue
            if record is None or len(found.records) == count:
                break
            if found.records and found.size + len(record) > room_bytes:
                break
            found.records.append(record)
            found.numbers.append(number)
            found.size += len(record)
        for _ in range(gone):
            walk.places.popleft()
        walk.first += gone

    def store_times(self, group: str, parent: str, lite: str, number: int) -> tuple[int, int]:
        """When this message and the one before it were stored, ms, 0 if one read does not find it. Raises NotInMemory.

        `number`: what the group reads next.
        """
        newest = self._queues.newest(parent, lite)
        if newest is None:
            return 0, 0
        if number >= newest.end:
            return 0, self._store_ms(parent, newest.place)
        records = _in_memory(self.read(group, parent, lite, number, 1, _BYTES_MAX)).records
        if not records:
            return 0, 0
        message = decode_record(records[0], check_crc=False, decompress=False)
        before = Place.parse(message.properties.get(names.LITE_BEFORE, ""))
        return message.store_ms, self._store_ms(parent, before) if before is not None else 0

    def _store_ms(self, parent: str, place: Place) -> int:
        found = LightRead()
        record = self._record(parent, place, found)
        _in_memory(found)
        return decode_record(record, check_crc=False, decompress=False).store_ms if record is not None else 0

    def _walk(self, key: tuple[str, str, str], newest: Newest, number: int) -> _Walk:
        """What is known of the messages from `number` on."""
        walk = self._walks.get(key)
        if walk is not None and walk.first <= number < walk.first + len(walk.places):
            while walk.first < number:
                walk.before = walk.places.popleft()
                walk.first += 1
        elif walk is None or walk.first <= number or walk.first + len(walk.places) > newest.end:
            walk = self._walks[key] = _Walk(newest.end, newest.place)
        self._walks.move_to_end(key)
        if len(self._walks) > _WALKS_MAX:
            self._walks.popitem(last=False)
        return walk

    def _walk_back(self, parent: str, walk: _Walk, number: int, found: LightRead) -> bool:
        """Go back to `number`, or to the first message that is left; False if that takes another read."""
        for _ in range(_STEPS):
            if walk.first <= number or walk.before is None:
                return True
            place = walk.before
            record = self._record(parent, place, found)
            if record is None:
                if found.cold:
                    return False
                walk.before = None
                return True
            properties = decode_record(record, check_crc=False, decompress=False).properties
            if number_of(properties) != walk.first - 1:
                walk.before = None
                return True
            walk.places.appendleft(place)
            walk.first -= 1
            walk.before = Place.parse(properties.get(names.LITE_BEFORE, ""))
        found.is_more = walk.first > number and walk.before is not None
        return not found.is_more

    def _record(self, parent: str, place: Place, found: LightRead) -> memoryview | None:
        """The record at this place; None if it is gone, or on disk (`found.cold`)."""
        offset = QueueOffset(place.queue_offset)
        result = self._store.get(parent, place.queue_id, offset, 1, _BYTES_MAX, wait=False)
        if result.status is GetStatus.NOT_IN_MEMORY:
            found.cold = result.cold
        if result.status is not GetStatus.FOUND or result.next_offset != offset + 1:
            return None
        return result.slices[0]


def _in_memory(found: LightRead) -> LightRead:
    if found.cold:
        raise NotInMemory(found.cold)
    return found
