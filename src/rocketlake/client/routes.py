"""Where a topic lives, as the client sees it: queues to publish to, queues to read, addresses of brokers.

Owns        the route cache, the publish and subscribe views, which address serves a broker name, which master is new.
Must not know   how and when routes are asked for (instance.py).

Rules: queues to publish need write permission and a master (id 0); queues to read need read permission only. An order
configuration `broker:n;broker:n` fixes the publish list of an ordered topic, whatever brokers are up.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.route import Route
from rocketlake.model.topic import Perm

MASTER = 0


def publish_view(topic: str, route: Route, *, awaited: Collection[str] = ()) -> tuple[MessageQueue, ...]:
    """Queues to send to, broker by broker, ids rising. `awaited`: brokers that count though they have no master now."""
    if route.order_config:
        return tuple(_ordered_queues(topic, route.order_config))
    masters = {broker.name for broker in route.brokers if MASTER in broker.addresses or broker.name in awaited}
    queues: list[MessageQueue] = []
    for entry in sorted(route.queues, key=lambda entry: entry.broker_name):
        if entry.perm & Perm.WRITE and entry.broker_name in masters:
            queues += (MessageQueue(topic, entry.broker_name, number) for number in range(entry.write_queues))
    return tuple(queues)


def subscribe_view(topic: str, route: Route) -> tuple[MessageQueue, ...]:
    """Queues to read, sorted by (topic, broker name, id): the order all members of a group agree on."""
    return tuple(
        sorted(
            MessageQueue(topic, entry.broker_name, number)
            for entry in route.queues
            if entry.perm & Perm.READ
            for number in range(entry.read_queues)
        )
    )


def _ordered_queues(topic: str, order_config: str) -> Iterable[MessageQueue]:
    for part in order_config.split(";"):
        broker_name, _, number = part.partition(":")
        if number.isdigit():
            for queue_id in range(int(number)):
                yield MessageQueue(topic, broker_name, queue_id)


class RouteCache:
    """Last known route of each topic, with its two views, and the addresses of all brokers seen."""

    def __init__(self) -> None:
        self._routes: dict[str, Route] = {}
        self._templates: dict[str, Route] = {}
        self._publish: dict[str, tuple[MessageQueue, ...]] = {}
        self._subscribe: dict[str, tuple[MessageQueue, ...]] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._last_masters: dict[str, str] = {}
        self._replicated: set[str] = set()
        self.on_move: Callable[[str, str, str], object] = lambda _name, _old, _new: None
        """Called with (broker name, old address, new address) when a broker name has a new master."""
        self.on_loss: Callable[[str, str], object] = lambda _name, _topic: None
        """Called with (broker name, topic) when a route names replicas and no master: a new one may come soon."""
        self.awaits: Callable[[str], bool] = lambda _name: False
        """True while a new master of this broker name is looked for. Its queues stay, so that keys keep theirs."""

    def put(self, topic: str, route: Route) -> bool:
        """Remember a route; true when queues or brokers differ from what was known."""
        self._note_brokers(topic, route)
        # Name servers list queues and brokers in any order, so another order is no change.
        queues = sorted(route.queues, key=lambda entry: entry.broker_name)
        route = replace(route, queues=queues, brokers=sorted(route.brokers, key=lambda broker: broker.name))
        publish = publish_view(topic, route, awaited=self._awaited(route))
        changed = self._routes.get(topic) != route or self._publish.get(topic) != publish
        if changed:
            self._routes[topic] = route
            self._templates.pop(topic, None)
            self._publish[topic] = publish
            self._subscribe[topic] = subscribe_view(topic, route)
        return changed

    def _note_brokers(self, topic: str, route: Route) -> None:
        for broker in route.brokers:
            self._brokers[broker.name] = dict(broker.addresses)
            if any(number != MASTER for number in broker.addresses):
                self._replicated.add(broker.name)
            master = broker.addresses.get(MASTER)
            if master is None:
                self.on_loss(broker.name, topic)
                continue
            before = self._last_masters.get(broker.name)
            self._last_masters[broker.name] = master
            if before is not None and before != master:
                self.on_move(broker.name, before, master)

    def _awaited(self, route: Route) -> list[str]:
        return [broker.name for broker in route.brokers if MASTER not in broker.addresses and self.awaits(broker.name)]

    def put_template(self, topic: str, route: Route, queues_max: int) -> bool:
        """Queues for a topic that does not exist yet: those of the template topic, at most `queues_max` per broker.

        True when a broker of the template was not known, or was known at another address.
        """
        is_new = any(self._brokers.get(broker.name) != dict(broker.addresses) for broker in route.brokers)
        self._note_brokers(topic, route)
        self._templates[topic] = route
        # Java takes the smaller of its own number and the template's read queues.
        queues = [replace(entry, write_queues=min(queues_max, entry.read_queues)) for entry in route.queues]
        view = replace(route, queues=queues, order_config=None)
        self._publish[topic] = publish_view(topic, view, awaited=self._awaited(route))
        return is_new

    def clusters(self, topic: str) -> set[str]:
        """The names of the clusters that serve the topic, or would make it."""
        route = self._routes.get(topic) or self._templates.get(topic)
        return {broker.cluster for broker in route.brokers} if route else set()

    def to_publish(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """Queues to send to; None while the route is unknown."""
        return self._publish.get(topic)

    def is_read_only(self, topic: str) -> bool:
        """True when the topic exists and no broker takes messages for it."""
        route = self._routes.get(topic)
        return route is not None and bool(route.queues) and not any(each.perm & Perm.WRITE for each in route.queues)

    def to_read(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """Queues to read, sorted; None while the route is unknown."""
        return self._subscribe.get(topic)

    def master(self, broker_name: str) -> str | None:
        """Address of the broker's master."""
        return self._brokers.get(broker_name, {}).get(MASTER)

    def has_replicas(self, broker_name: str) -> bool:
        """True when a route has named a replica beside the master: another broker may become the master."""
        return broker_name in self._replicated

    def to_read_from(self, broker_name: str, broker_id: int = MASTER) -> str | None:
        """Address to read from: the wanted replica, else the next id, else any."""
        addresses = self._brokers.get(broker_name, {})
        wanted = addresses.get(broker_id)
        if wanted is None and broker_id != MASTER:
            wanted = addresses.get(broker_id + 1)
        return wanted or next(iter(addresses.values()), None)

    def broker_of_topic(self, topic: str) -> str | None:
        """Address of one broker that serves the topic, for questions about groups; its master if there is one."""
        route = self._routes.get(topic)
        if route is None or not route.brokers:
            return None
        addresses = random.choice(route.brokers).addresses
        return addresses.get(MASTER) or next(iter(addresses.values()), None)

    def addresses(self, *, masters_only: bool) -> list[tuple[str, int, str]]:
        """Every known (broker name, id, address)."""
        return [
            (name, number, address)
            for name, table in self._brokers.items()
            for number, address in table.items()
            if number == MASTER or not masters_only
        ]

    def drop_unrouted_brokers(self) -> None:
        """Forget addresses that no route and no template in use names any more."""
        routes = (*self._routes.values(), *self._templates.values())
        routed = {(b.name, address) for r in routes for b in r.brokers for address in b.addresses.values()}
        for name, table in list(self._brokers.items()):
            kept = {number: address for number, address in table.items() if (name, address) in routed}
            if kept:
                self._brokers[name] = kept
            else:
                del self._brokers[name]
                self._last_masters.pop(name, None)
                self._replicated.discard(name)
