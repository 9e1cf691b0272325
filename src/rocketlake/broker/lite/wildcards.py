"""Wildcard groups: their clients get the messages of all lite topics of a parent.

Owns        which lite topics of the parent have something to read for such a group, and those whose messages are in
            flight.
Must not know   requests, how light queues are read, what is in flight.

All clients of a group share one list of lite topics that are worth a look. What is in flight is asleep: it is looked at
when it is acknowledged, or its time is over. So a pop costs what it hands out, however many lite topics there are.

The list is short (`lite.sub.client.max.event.cnt`). What has no room in it is found later: the group is behind in a
queue of the parent from there on, and goes through the messages of that queue when there is room. So it goes through
all messages once when its first client comes, for the broker knows no names of lite topics (docs/decisions/0053).

Invariant: a lite topic with messages that the group has not acknowledged is in the list, asleep, or lies behind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.broker.lite.light_queues import LightQueues
from rocketlake.broker.lite.lite_messages import LiteMessages, Said
from rocketlake.broker.lite.progress import LiteProgress
from rocketlake.broker.rights.lite import LiteRights
from rocketlake.model.lite import LITE_EVENTS, LITE_EVENTS_DEFAULT
from rocketlake.model.positions import QueueOffset
from rocketlake.store.message_store import MessageStore

__all__ = ["ALL_CLIENTS", "WildcardGroup", "WildcardGroups"]

_EVENTS_MAX = 100_000
_DUE_SECONDS = 1.0
_STALE_MIN = 64
ALL_CLIENTS = ""


class WildcardGroup:
    """All lite topics of a parent, for one group. Times in ms."""

    __slots__ = ("_asleep", "_wakes", "behind", "group", "is_walking", "parent", "ready")

    def __init__(self, group: str, parent: str) -> None:
        self.group = group
        self.parent = parent
        self.ready: dict[str, None] = {}
        """Lite topics that may have something to read, those that have waited longest first."""
        self._asleep: dict[str, int] = {}
        """Lite topic whose messages are in flight -> when it wakes."""
        self._wakes: list[tuple[int, str]] = []
        """A heap of the same; it may hold some that are not asleep any more, or until another time."""
        self.behind: dict[int, QueueOffset] = {}
        """Queue of the parent -> the first message that was not looked at."""
        self.is_walking = False

    @property
    def key(self) -> tuple[str, str]:
        """Where its pops wait, those of all its clients."""
        return ALL_CLIENTS, self.group

    def knows(self, lite: str) -> bool:
        """True if the lite topic is in the list, or asleep."""
        return lite in self.ready or lite in self._asleep

    def note(self, lite: str) -> None:
        """There may be something to read now."""
        self._asleep.pop(lite, None)
        self.ready[lite] = None

    def done(self, lite: str) -> None:
        """There is nothing to read, and nothing in flight."""
        self.ready.pop(lite, None)
        self._asleep.pop(lite, None)

    def blocked(self, lite: str, free_ms: int) -> None:
        """Its messages are in flight until then."""
        self.ready.pop(lite, None)
        self._asleep[lite] = free_ms
        heappush(self._wakes, (free_ms, lite))
        if len(self._wakes) > 2 * len(self._asleep) + _STALE_MIN:
            self._wakes = [(until_ms, name) for name, until_ms in self._asleep.items()]
            heapify(self._wakes)

    handed = blocked
    """Messages of it were handed out: they are in flight until then."""

    def wake_due(self, now_ms: int) -> bool:
        """Put what wakes by now on the list; True if something is on it."""
        while self._wakes and self._wakes[0][0] <= now_ms:
            until_ms, lite = heappop(self._wakes)
            if self._asleep.get(lite) == until_ms:
                self.note(lite)
        return bool(self.ready)

    @property
    def next_ms(self) -> int:
        """When the first one wakes, or before; 0 if none is asleep."""
        return self._wakes[0][0] if self._wakes else 0


class WildcardGroups(Service):
    """Those of a broker that a client has come to since it is the master."""

    def __init__(
        self,
        store: MessageStore,
        messages: LiteMessages,
        rights: LiteRights,
        queues: LightQueues,
        progress: LiteProgress,
        clock: Clock,
    ) -> None:
        super().__init__("lite-wildcards", clock)
        self._store = store
        self._messages = messages
        self._rights = rights
        self._queues = queues
        self._progress = progress
        self._groups: dict[str, WildcardGroup] = {}
        self.wake_one: Callable[[tuple[str, str]], object] = lambda _key: None
        """Called with the key of a group that has something to read."""

    async def start(self) -> None:
        """Wake what is due, from now on."""
        await super().start()
        self.every("due", _DUE_SECONDS, self._wake_due)

    def of(self, group: str, parent: str) -> WildcardGroup:
        """The group. A new one begins to look for what there is. Only while all light queues are known."""
        found = self._groups.get(group)
        if found is None or found.parent != parent:
            found = self._groups[group] = WildcardGroup(group, parent)
            found.behind = self._all_of(parent)
        if found.wake_due(self._clock.now_ms()) or found.behind:
            self._go_on(found)
        return found

    def look_anew(self, group: str | None = None) -> None:
        """Go through all messages again, for this group or for all: some may have come unseen."""
        for found in self._groups.values():
            if group is None or group == found.group:
                found.behind = self._all_of(found.parent)
                self._go_on(found)

    def clear(self) -> None:
        """The broker is a slave from now on, or its log was cut."""
        self._groups.clear()

    def remove_parent(self, parent: str) -> None:
        """The parent topic is gone."""
        self._groups = {name: group for name, group in self._groups.items() if group.parent != parent}

    def note(self, parent: str, lite: str, group: str | None = None) -> None:
        """A message has come, for all groups; or those of this group are in flight no more, or until another time."""
        if group is not None:
            found = self._groups.get(group)
            if found is None or found.parent != parent:
                return
            if self._progress.has_more(group, parent, lite):
                found.note(lite)
                self.wake_one(found.key)
            else:
                found.done(lite)
            return
        for each in self._groups.values():
            if each.parent == parent and not each.knows(lite):
                self._arrived(each, lite)

    def _arrived(self, group: WildcardGroup, lite: str) -> None:
        if self._has_room(group):
            group.note(lite)
            self.wake_one(group.key)
        elif (newest := self._queues.newest(group.parent, lite)) is not None:
            queue_id, offset = newest.place
            group.behind[queue_id] = min(QueueOffset(offset), group.behind.get(queue_id, QueueOffset(offset)))

    def _all_of(self, parent: str) -> dict[int, QueueOffset]:
        return dict.fromkeys(self._store.queues.queue_ids(parent), QueueOffset(0))

    def _has_room(self, group: WildcardGroup) -> bool:
        most = int(self._rights.attribute(group.group, LITE_EVENTS) or LITE_EVENTS_DEFAULT)
        return len(group.ready) < min(most, _EVENTS_MAX)

    def _go_on(self, group: WildcardGroup) -> None:
        if group.behind and not group.is_walking and self.is_running and self._has_room(group):
            group.is_walking = True
            self.spawn("walk", self._walk(group))

    async def _walk(self, group: WildcardGroup) -> None:
        try:
            while group.behind and self._has_room(group) and self._is_served(group):
                await self._look(group, *next(iter(group.behind.items())))
                await self._clock.sleep(0)
        finally:
            group.is_walking = False

    async def _look(self, group: WildcardGroup, queue_id: int, begin: QueueOffset) -> None:
        """Look at some messages of a queue."""
        parent = group.parent
        found, end = await self._store.read(partial(self._read_some, parent, queue_id, begin))
        if not self._is_served(group):
            return
        for lite in {said[0]: None for said in found if said is not None}:
            if not group.knows(lite) and self._progress.has_more(group.group, parent, lite):
                group.note(lite)
                self.wake_one(group.key)
        if group.behind.get(queue_id) == begin:  # else it is to look anew
            if found and end < self._store.max_offset(parent, queue_id):
                group.behind[queue_id] = end
            else:
                del group.behind[queue_id]

    def _read_some(self, parent: str, queue_id: int, begin: QueueOffset) -> tuple[list[Said | None], QueueOffset]:
        """What messages of a queue from `begin` on say, and the queue offset behind them. Raises NotInMemory.

        It looks anew for the first message that is left whenever a worker has read for it.
        """
        offset = max(begin, self._store.min_offset(parent, queue_id))
        found, _ = self._messages.read(parent, queue_id, offset)
        return found, QueueOffset(offset + len(found))

    def _is_served(self, group: WildcardGroup) -> bool:
        return self._queues.is_ready and self._groups.get(group.group) is group

    def _wake_due(self) -> None:
        now_ms = self._clock.now_ms()
        for group in list(self._groups.values()):
            if not self._rights.takes_all(group.group, group.parent):
                del self._groups[group.group]
                continue
            if group.wake_due(now_ms):
                self.wake_one(group.key)
            self._go_on(group)  # pops that wait may have found nothing in a list that left no room
