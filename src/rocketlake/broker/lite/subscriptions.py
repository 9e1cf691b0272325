"""Who subscribes to which lite topics, and which of these have something to read.

Owns        the subscribers, their lite topics, those that are worth a look.
Must not know   requests, light queues, what is in flight.

Each subscriber of a lite topic is told of each message. So none waits for another that is gone; what is in flight keeps
a message from being handed out twice. One that is silent for long is forgotten: its client has ended, or says all anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.net.request import Asker

__all__ = ["EVERYTHING", "Subscriber", "Subscriptions"]

_SWEEP_SECONDS = 30.0
_SILENT_SECONDS = 180.0
"""RocketMQ's liteSubscriptionCheckTimeoutMills."""


EVERYTHING = "*"
"""What a client of a wildcard group subscribes to: no lite topic has this name."""


class Subscriber:
    """A client of a group."""

    __slots__ = ("alone", "asker", "client_id", "group", "lites", "parent", "ready", "seen")

    def __init__(self, client_id: str, group: str, parent: str) -> None:
        self.client_id = client_id
        self.group = group
        self.parent = parent
        self.lites: set[str] = set()
        self.ready: dict[str, None] = {}
        """Lite topics that may have something to read, those that have waited longest first."""
        self.seen = 0.0
        self.asker: Asker | None = None
        """The connection by which it said last what it subscribes to; it is told things there."""
        self.alone = (self,)
        """The subscribers of each lite topic that only this one subscribes to: one tuple for all of these."""

    @property
    def key(self) -> tuple[str, str]:
        """Its place among all subscribers, and where its pops wait."""
        return self.client_id, self.group

    def blocked(self, _lite: str, _free_ms: int) -> None:
        """Its messages are in flight until then: it is looked at each time."""

    def handed(self, lite: str, _free_ms: int) -> None:
        """Messages of it were handed out: the others come first next time."""
        del self.ready[lite]
        self.ready[lite] = None

    def done(self, lite: str) -> None:
        """There is nothing to read, and nothing in flight."""
        del self.ready[lite]


class Subscriptions(Service):
    """Of one broker."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("lite-subscriptions", clock)
        self._subscribers: dict[tuple[str, str], Subscriber] = {}
        self._of_lite: dict[str, dict[str, tuple[Subscriber] | dict[Subscriber, None]]] = {}
        """Parent -> lite topic -> its subscribers: a table where there are several, which may be all clients."""
        self.count = 0
        """Lite topics of all subscribers."""
        self.wake: Callable[[tuple[str, str]], object] = lambda _key: None
        """Called with the key of a subscriber that has something to read."""
        self.noted: Callable[[str, str, str | None], object] = lambda _parent, _lite, _group: None
        """Called with all that is noted."""

    async def start(self) -> None:
        """Forget those that are silent, from now on."""
        await super().start()
        self.every("sweep", _SWEEP_SECONDS, self._sweep)

    def get(self, client_id: str, group: str) -> Subscriber | None:
        """The subscriber, for one that only looks."""
        return self._subscribers.get((client_id, group))

    def of_lite(self, parent: str, lite: str) -> Collection[Subscriber]:
        """Who subscribes to a lite topic."""
        return self._of_lite.get(parent, {}).get(lite, ())

    def others(self, subscriber: Subscriber, lite: str) -> list[Subscriber]:
        """Who else of its group subscribes to a lite topic of its parent."""
        of_lite = self.of_lite(subscriber.parent, lite)
        return [each for each in of_lite if each.group == subscriber.group and each is not subscriber]

    def find(self, client_id: str, group: str) -> Subscriber | None:
        """The subscriber; it is heard of now."""
        found = self.get(client_id, group)
        if found is not None:
            found.seen = self._clock.monotonic()
        return found

    def find_or_add(self, client_id: str, group: str, parent: str) -> Subscriber:
        """The subscriber; a new one if it subscribes to another parent."""
        found = self.find(client_id, group)
        if found is not None and found.parent != parent:
            self.remove(found)
            found = None
        if found is None:
            found = self._subscribers[client_id, group] = Subscriber(client_id, group, parent)
            found.seen = self._clock.monotonic()
        return found

    def add(self, subscriber: Subscriber, lites: Iterable[str]) -> None:
        """It subscribes to these, too."""
        of_lite = self._of_lite.setdefault(subscriber.parent, {})
        for lite in lites:
            if lite not in subscriber.lites:
                subscriber.lites.add(lite)
                self.count += 1
                others = of_lite.get(lite)
                if others is None:
                    of_lite[lite] = subscriber.alone
                elif isinstance(others, dict):
                    others[subscriber] = None
                else:
                    of_lite[lite] = {others[0]: None, subscriber: None}

    def take(self, subscriber: Subscriber, lites: Iterable[str]) -> None:
        """It subscribes to these no more; one that subscribes to nothing is none."""
        of_lite = self._of_lite.get(subscriber.parent, {})
        for lite in lites:
            if lite in subscriber.lites:
                subscriber.lites.discard(lite)
                subscriber.ready.pop(lite, None)
                self.count -= 1
                others = of_lite[lite]
                if isinstance(others, dict) and len(others) > 2:
                    del others[subscriber]
                elif isinstance(others, dict):
                    (left,) = others.keys() - {subscriber}
                    of_lite[lite] = left.alone
                else:
                    del of_lite[lite]
        if not of_lite:
            self._of_lite.pop(subscriber.parent, None)
        if not subscriber.lites:
            self._subscribers.pop(subscriber.key, None)

    def remove(self, subscriber: Subscriber) -> None:
        """The client is gone."""
        self.take(subscriber, list(subscriber.lites))

    def remove_parent(self, parent: str) -> None:
        """The parent topic is gone."""
        for subscriber in [each for each in self._subscribers.values() if each.parent == parent]:
            self.remove(subscriber)

    def clear(self) -> None:
        """The broker is a slave from now on."""
        self._subscribers.clear()
        self._of_lite.clear()
        self.count = 0

    def note(self, parent: str, lite: str, group: str | None = None) -> None:
        """There may be something to read for all groups, or for this one."""
        for subscriber in self.of_lite(parent, lite):
            if group is None or group == subscriber.group:
                subscriber.ready[lite] = None
                self.wake(subscriber.key)
        self.noted(parent, lite, group)

    def __iter__(self) -> Iterator[Subscriber]:
        return iter(list(self._subscribers.values()))

    def _sweep(self) -> None:
        silent_since = self._clock.monotonic() - _SILENT_SECONDS
        for subscriber in self:
            if subscriber.seen < silent_since:
                self.remove(subscriber)
