"""Which brokers this controller hears.

Owns        the last heartbeat of each broker, the link it came on, the moment when a broker counts as silent.
Must not know   what follows from a silence (suspicion.py), the states of groups.

A heartbeat is believed whatever it says: it decides how fast a silence is noticed, and which of the replicas that hold
everything is the best. It never decides whether a message is lost.
Times are the clock's monotonic ones. A link counts for a broker while its last heartbeat came on it: the late end of an
older one says nothing (apache/rocketmq#11045).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Set
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from rocketlake.base.callbacks import call_each
from rocketlake.base.clock import Clock
from rocketlake.controller.questions import Heard
from rocketlake.net.request import Asker

__all__ = ["Beat", "BrokerKey", "HeardBroker", "Liveness", "Pulse"]

_JAVA_LIMIT_SECONDS: Final = 10.0
"""Of a broker that names no limit."""
_LIMIT_SECONDS_MAX: Final = 60.0


class BrokerKey(NamedTuple):
    """A broker: its group, and its id there."""

    group: str
    broker_id: int


@dataclass(frozen=True, slots=True)
class Beat:
    """What one heartbeat says."""

    heard: Heard
    limit_ms: int | None = None
    """It counts as dead after this silence; None: it did not say."""
    confirm_offset: int = -1
    ha_silent_ms: int | None = None
    """A slave: so long it has had nothing from its master; None: it does not tell (Java)."""
    ack_stalled_ms: int = 0
    """A master: so long its oldest message has waited for replicas."""


class Pulse(Enum):
    """How a broker seems to be."""

    ALIVE = "its heartbeats come"
    CLOSED = "the link of its heartbeats has ended"
    SILENT = "its heartbeats do not come any more"
    UNHEARD = "it has sent no heartbeat to this controller"
    REFUSED = "nothing listens at its address"


class HeardBroker:
    """One broker, as it was heard last."""

    __slots__ = ("at", "beat", "has_closed", "is_refused", "limit_seconds", "link")

    def __init__(self) -> None:
        self.beat = Beat(Heard())
        self.at = 0.0
        """When the last heartbeat came."""
        self.limit_seconds = 0.0
        self.link: Asker | None = None
        self.has_closed = False
        self.is_refused = False


class Liveness:
    """All brokers that this controller hears."""

    def __init__(self, clock: Clock, limit_seconds: float) -> None:
        """`limit_seconds`: no broker counts as silent earlier, whatever it says itself."""
        self.limit_seconds = limit_seconds
        self._clock = clock
        self._brokers: dict[BrokerKey, HeardBroker] = {}
        self._by_link: dict[Asker, set[BrokerKey]] = {}
        self._since = clock.monotonic()
        self.on_closed: list[Callable[[BrokerKey], object]] = []
        """Called when the link of a broker's heartbeats has ended."""
        self.on_heard: list[Callable[[BrokerKey], object]] = []
        """Called when a broker is heard that was not alive."""

    def hear(self, key: BrokerKey, link: Asker, beat: Beat) -> None:
        """A heartbeat. The caller lets in only those of brokers that are registered: that bounds the table."""
        broker = self._brokers.setdefault(key, HeardBroker())
        was_alive = broker.link is not None and self.pulse(key) is Pulse.ALIVE
        if broker.link is not link:
            self._unlink(key, broker)
            broker.link = link
            self._by_link.setdefault(link, set()).add(key)
        broker.beat, broker.at = beat, self._clock.monotonic()
        broker.limit_seconds = self._limit_of(beat)
        broker.has_closed = broker.is_refused = False
        if not was_alive:
            call_each(self.on_heard, key)

    def link_lost(self, link: Asker) -> None:
        """A link has ended: the brokers whose last heartbeat came on it are under suspicion."""
        for key in sorted(self._by_link.pop(link, ())):
            broker = self._brokers[key]
            broker.has_closed = True
            call_each(self.on_closed, key)

    def refused(self, key: BrokerKey) -> None:
        """Nothing listens at the broker's address: it is dead until its next heartbeat."""
        self._brokers.setdefault(key, HeardBroker()).is_refused = True

    def pulse(self, key: BrokerKey) -> Pulse:
        """How the broker seems to be now."""
        broker = self._brokers.get(key)
        if broker is None:
            return Pulse.UNHEARD
        if broker.is_refused:
            return Pulse.REFUSED
        if self._clock.monotonic() - broker.at > broker.limit_seconds:
            return Pulse.SILENT
        return Pulse.CLOSED if broker.has_closed else Pulse.ALIVE

    def last(self, key: BrokerKey) -> HeardBroker | None:
        """What was heard of the broker last; None: nothing."""
        broker = self._brokers.get(key)
        return broker if broker is not None and broker.link is not None else None

    def age(self, key: BrokerKey) -> float:
        """Seconds since the broker's last heartbeat; without one, since this controller began to listen."""
        broker = self.last(key)
        return self._clock.monotonic() - (broker.at if broker is not None else self._since)

    def waits_for_first(self, key: BrokerKey) -> bool:
        """True while a broker that was never heard may still send its first heartbeat: Java's limit is the longest."""
        return self.age(key) <= max(self.limit_seconds, _JAVA_LIMIT_SECONDS)

    def alive(self, group: str, broker_ids: Set[int]) -> dict[int, Heard]:
        """Those of these brokers whose heartbeats come, with what they said last."""
        return {broker_id: self._brokers[key].beat.heard for broker_id, key in self._alive(group, broker_ids)}

    def _alive(self, group: str, broker_ids: Set[int]) -> Iterator[tuple[int, BrokerKey]]:
        for broker_id in sorted(broker_ids):
            key = BrokerKey(group, broker_id)
            if self.pulse(key) is Pulse.ALIVE:
                yield broker_id, key

    def _limit_of(self, beat: Beat) -> float:
        own = _JAVA_LIMIT_SECONDS if beat.limit_ms is None else beat.limit_ms / 1000
        return min(max(own, self.limit_seconds), _LIMIT_SECONDS_MAX)

    def _unlink(self, key: BrokerKey, broker: HeardBroker) -> None:
        keys = self._by_link.get(broker.link) if broker.link is not None else None
        if keys is not None and broker.link is not None:
            keys.discard(key)
            if not keys:
                del self._by_link[broker.link]

    def forget_others(self, members: Container[BrokerKey]) -> None:
        """Forget all brokers but these."""
        for key in [key for key in self._brokers if key not in members]:
            self._unlink(key, self._brokers.pop(key))
