"""Which broker serves which topic.

Owns        clusters, brokers and their addresses, queues of each topic, the last registration of each broker.
Must not know   requests, JSON, the answers to brokers.

Invariant: a broker name in `clusters` has at least one address; a topic has queues of at least one broker name.
A change that may touch many topics is made in steps. Only one change is under way at a time.
The table is not saved: after a restart the next registrations of the brokers fill it again.

Rules: RocketMQ's RouteInfoManager; the order of the checks in `register` is part of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, TypeVar

from rocketlake.base.clock import Clock
from rocketlake.model.route import MASTER_ID, BrokerInfo, QueueInfo, Route
from rocketlake.model.topic import (
    SYNC_MEMBER_PREFIX,
    TOPIC_SYS_FLAG_UNIT,
    TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION,
    DataVersion,
    Perm,
    TopicConfig,
)

__all__ = ["SILENT_MS_MAX", "Dropped", "Link", "Registered", "Registration", "RouteTable"]

SILENT_MS_MAX = 120_000
"""A broker not heard for this long is dropped, unless its registration names another time."""

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Questions are answered between the steps; the next change waits for the last step (change_line.py)."""


class Link(Protocol):
    """The connection a broker registered on; it ends with the broker."""

    @property
    def remote(self) -> tuple[str, int]:
        """Host and port of the broker's side."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


@dataclass(slots=True)
class Registration:
    """A broker, as it describes itself."""

    cluster: str
    address: str
    name: str
    broker_id: int
    ha_address: str = ""
    timeout_ms: int | None = None
    acting_master: bool | None = None
    """None: the broker is too old to know acting masters."""
    zone: str | None = None
    data_version: DataVersion = field(default_factory=DataVersion)
    topics: Mapping[str, TopicConfig] = field(default_factory=dict)
    mappings: Mapping[str, Any] = field(default_factory=dict)
    """Static topics: topic -> where its logical queues lie, passed on to clients as it is."""
    filter_servers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a slave: the addresses of its master. Empty for a master, or when no master is known."""

    master_address: str = ""
    ha_address: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A broker that was dropped without a farewell."""

    broker_name: str
    address: str
    link: Link


@dataclass(slots=True)
class _Live:
    """One broker process: when it was last heard, and its state at that time."""

    heard: float
    timeout_seconds: float
    data_version: DataVersion
    link: Link
    ha_address: str
    broker_name: str


_Address = tuple[str, str]  # cluster, "ip:port"


class RouteTable:
    """Brokers and topics of all clusters."""

    def __init__(self, clock: Clock) -> None:
        self.version = 0
        """Grows with each change that may alter a route."""
        self.delete_missing_topics = False
        """A registration removes the broker's topics it does not name (deleteTopicWithBrokerRegistration)."""
        self.support_acting_master = False
        """Routes show the lowest slave as master where a group allows it (supportActingMaster)."""
        self._clock = clock
        self._topics: dict[str, dict[str, QueueInfo]] = {}
        self._brokers: dict[str, BrokerInfo] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[_Address, _Live] = {}
        self._filter_servers: dict[_Address, list[str]] = {}
        self._mappings: dict[str, dict[str, Any]] = {}

    # --- requests of brokers ---------------------------------------------------------------------------------------

    def register(self, registration: Registration, link: Link) -> Steps[Registered | None]:
        """Take a broker's registration; None if it is refused (one topic only, from an unknown broker)."""
        new = registration
        group, first = self._group(new)
        address = (new.cluster, new.address)
        for broker_id in [i for i, a in group.addresses.items() if a == new.address and i != new.broker_id]:
            del group.addresses[broker_id]  # the broker changed its role
        if self._is_outdated(new, group):
            self._live.pop(address, None)
            return Registered()
        if new.broker_id not in group.addresses and len(new.topics) == 1:
            yield from self._forget_empty(group)
            return None
        first = first or not group.addresses.get(new.broker_id)
        if group.addresses.get(new.broker_id) != new.address:
            group.addresses[new.broker_id] = new.address
            self.version += 1
        yield from self._take_topics(new, group, first)
        timeout_ms = SILENT_MS_MAX if new.timeout_ms is None else new.timeout_ms
        self._live[address] = _Live(
            self._clock.monotonic(), timeout_ms / 1000, new.data_version, link, new.ha_address, new.name
        )
        self._take_filter_servers(address, new.filter_servers)
        return self._where_the_master_is(new, group)

    def unregister(self, cluster: str, address: str, name: str) -> Steps[None]:
        """Drop one broker; its topics go with the last broker of its name."""
        self._live.pop((cluster, address), None)
        self._filter_servers.pop((cluster, address), None)
        group = self._brokers.get(name)
        if group is None:
            return
        # By address, not by id: the place may have been taken by a broker at another address.
        for known_id in [i for i, a in group.addresses.items() if a == address]:
            del group.addresses[known_id]
        self.version += 1
        if not group.addresses:
            yield from self._forget_empty(group)
        elif group.enable_acting_master and MASTER_ID not in group.addresses:
            yield from self._change_perm(name, lambda perm: perm & ~Perm.WRITE)

    def heard(self, cluster: str, address: str) -> None:
        """The broker is alive."""
        live = self._live.get((cluster, address))
        if live is not None:
            live.heard = self._clock.monotonic()

    def link_of(self, cluster: str, address: str) -> Link | None:
        """The connection of the living broker at this address."""
        live = self._live.get((cluster, address))
        return None if live is None else live.link

    def holder(self, name: str, broker_id: int) -> tuple[str, Link] | None:
        """Address and connection of the living broker that is known by this name and id."""
        group = self._brokers.get(name)
        address = None if group is None else group.addresses.get(broker_id)
        link = None if group is None or address is None else self.link_of(group.cluster, address)
        return None if address is None or link is None else (address, link)

    def data_version(self, cluster: str, address: str) -> DataVersion | None:
        """The version of the topics this broker registered last."""
        live = self._live.get((cluster, address))
        return None if live is None else live.data_version

    def close_link(self, link: Link) -> Steps[list[Dropped]]:
        """The link is gone, and so are the brokers that registered on it."""
        return (yield from self._drop([address for address, live in self._live.items() if live.link is link]))

    def expire(self) -> Steps[list[Dropped]]:
        """Drop silent brokers; their links are to be closed by the caller."""
        now = self._clock.monotonic()
        return (yield from self._drop([a for a, live in self._live.items() if live.heard + live.timeout_seconds < now]))

    # --- questions of clients ---------------------------------------------------------------------------------------

    def route(self, topic: str) -> Route | None:
        """Queues and brokers of a topic, copies; None if the topic or all of its brokers are unknown."""
        by_broker = self._topics.get(topic)
        if not by_broker:
            return None
        brokers = [_copy(self._brokers[name]) for name in by_broker if name in self._brokers]
        if not brokers:
            return None
        # While a broker is forgotten in steps, some of its topics still name it.
        queues = [replace(entry) for name, entry in by_broker.items() if name in self._brokers]
        filter_servers = {
            address: self._filter_servers[group.cluster, address]
            for group in brokers
            for address in group.addresses.values()
            if (group.cluster, address) in self._filter_servers
        }
        if self.support_acting_master and not topic.startswith(SYNC_MEMBER_PREFIX):
            for group in brokers:
                _show_acting_master(group, by_broker[group.name])
        return Route(
            queues, brokers, filter_servers=filter_servers, queue_mappings=dict(self._mappings.get(topic, {})) or None
        )

    def brokers(self) -> dict[str, BrokerInfo]:
        """Every broker group by name."""
        return {name: _copy(group) for name, group in self._brokers.items()}

    def clusters(self) -> dict[str, list[str]]:
        """Broker names by cluster, sorted."""
        return {cluster: sorted(names) for cluster, names in self._clusters.items()}

    def broker_group(self, cluster: str, name: str) -> BrokerInfo | None:
        """One broker group of the cluster."""
        group = self._brokers.get(name)
        return _copy(group) if group is not None and group.cluster == cluster else None

    def topics(self) -> list[str]:
        """Names of all topics."""
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> Steps[list[str]]:
        """Topics with a queue on a broker of the cluster."""
        names = self._clusters.get(cluster, set())
        return (yield from self._topics_where(lambda by_broker: not names.isdisjoint(by_broker)))

    def unit_topics(self, *, unit: bool | None, unit_sub: bool | None) -> Steps[list[str]]:
        """Topics by their unit flags; None: the flag does not matter."""
        return (
            yield from self._topics_where(
                lambda by_broker: (
                    _flag_is(by_broker, TOPIC_SYS_FLAG_UNIT, unit)
                    and _flag_is(by_broker, TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION, unit_sub)
                )
            )
        )

    # --- changes by operators -------------------------------------------------------------------------------

    def wipe_write_perm(self, broker_name: str) -> Steps[int]:
        """No new messages to this broker name, until its topics change. Returns the number of topics touched."""
        return (yield from self._change_perm(broker_name, lambda perm: perm & ~Perm.WRITE))

    def add_write_perm(self, broker_name: str) -> Steps[int]:
        """Take a wipe back: read and write for all its topics. Returns the number of topics touched."""
        return (yield from self._change_perm(broker_name, lambda _: Perm.READ | Perm.WRITE))

    def delete_topic(self, topic: str, cluster: str | None = None) -> Steps[None]:
        """Forget a topic, on the brokers of one cluster or everywhere."""
        if cluster is None:
            self._topics.pop(topic, None)
            self._mappings.pop(topic, None)
        else:
            for name in self._clusters.get(cluster, ()):
                self._remove_queues(topic, name)
                yield
        self.version += 1

    def add_topic(self, topic: str, queues: Iterable[QueueInfo]) -> bool:
        """Add queues of a topic on broker names that are known; others are ignored. False: none was known."""
        known = {entry.broker_name: entry for entry in queues if entry.broker_name in self._brokers}
        if known:
            self._topics.setdefault(topic, {}).update(known)
            self.version += 1
        return bool(known)

    # --- parts --------------------------------------------------------------------------------------------------

    def _group(self, new: Registration) -> tuple[BrokerInfo, bool]:
        group = self._brokers.get(new.name)
        first = group is None
        if group is None:
            group = self._brokers[new.name] = BrokerInfo(new.cluster, new.name)
        names = self._clusters.setdefault(new.cluster, set())
        acting_master = bool(new.acting_master)
        if new.name not in names or (group.enable_acting_master, group.zone) != (acting_master, new.zone):
            self.version += 1
        names.add(new.name)
        group.enable_acting_master, group.zone = acting_master, new.zone
        return group, first

    def _is_outdated(self, new: Registration, group: BrokerInfo) -> bool:
        """True if a broker with a newer term holds this id at another address."""
        known_address = group.addresses.get(new.broker_id)
        if known_address is None or known_address == new.address:
            return False
        live = self._live.get((new.cluster, known_address))
        return live is not None and live.data_version.state_version > new.data_version.state_version

    def _take_topics(self, new: Registration, group: BrokerInfo, first: bool) -> Steps[None]:
        is_master = new.broker_id == MASTER_ID
        is_prime_slave = not is_master and new.acting_master is not None and new.broker_id == min(group.addresses)
        if not (is_master or is_prime_slave):
            return
        if self.delete_missing_topics and not new.mappings:
            missing = yield from self._topics_where(lambda by_broker: new.name in by_broker)
            for topic in missing:
                if topic not in new.topics:
                    self._remove_queues(topic, new.name)
                yield
        changed = first or self.data_version(new.cluster, new.address) != new.data_version
        for topic, config in new.topics.items():
            if changed or new.name not in self._topics.get(topic, ()):
                perm = config.perm & ~Perm.WRITE if is_prime_slave and group.enable_acting_master else config.perm
                entry = QueueInfo(new.name, config.read_queues, config.write_queues, perm, config.sys_flag)
                by_broker = self._topics.setdefault(topic, {})
                if by_broker.get(new.name) != entry:
                    by_broker[new.name] = entry
                    self.version += 1
            yield
        if changed:
            for topic, mapping in new.mappings.items():
                self._mappings.setdefault(topic, {})[new.name] = mapping
                self.version += 1
                yield

    def _take_filter_servers(self, address: _Address, servers: Sequence[str]) -> None:
        if list(servers) == self._filter_servers.get(address, []):
            return
        self.version += 1
        if servers:
            self._filter_servers[address] = list(servers)
        else:
            del self._filter_servers[address]

    def _where_the_master_is(self, new: Registration, group: BrokerInfo) -> Registered:
        if new.broker_id == MASTER_ID:
            return Registered()
        master = group.addresses.get(MASTER_ID)
        live = None if master is None else self._live.get((new.cluster, master))
        return Registered() if master is None or live is None else Registered(master, live.ha_address)

    def _drop(self, addresses: Iterable[_Address]) -> Steps[list[Dropped]]:
        dropped = []
        for cluster, address in addresses:
            live = self._live[cluster, address]
            yield from self.unregister(cluster, address, live.broker_name)
            dropped.append(Dropped(live.broker_name, address, live.link))
        return dropped

    def _forget_empty(self, group: BrokerInfo) -> Steps[None]:
        if group.addresses:
            return
        self.version += 1
        self._brokers.pop(group.name, None)
        for cluster in [cluster for cluster, names in self._clusters.items() if group.name in names]:
            self._clusters[cluster].discard(group.name)
            if not self._clusters[cluster]:
                del self._clusters[cluster]
        for topic in (yield from self._topics_where(lambda by_broker: group.name in by_broker)):
            self._remove_queues(topic, group.name)
            yield

    def _remove_queues(self, topic: str, broker_name: str) -> None:
        removed = [_remove(self._topics, topic, broker_name), _remove(self._mappings, topic, broker_name)]
        if any(removed):
            self.version += 1

    def _change_perm(self, broker_name: str, change: Callable[[int], int]) -> Steps[int]:
        touched = yield from self._topics_where(lambda by_broker: broker_name in by_broker)
        for topic in touched:
            entry = self._topics[topic][broker_name]
            entry.perm = change(entry.perm)
            self.version += 1
            yield
        self.version += 1
        return len(touched)

    def _topics_where(self, fits: Callable[[dict[str, QueueInfo]], bool]) -> Steps[list[str]]:
        names = []
        for topic, by_broker in list(self._topics.items()):
            if by_broker and fits(by_broker):  # the topic may have lost its last broker since
                names.append(topic)
            yield
        return names


def _copy(group: BrokerInfo) -> BrokerInfo:
    return replace(group, addresses=dict(group.addresses))


def _remove(table: dict[str, dict[str, T]], topic: str, broker_name: str) -> bool:
    by_broker = table.get(topic)
    if by_broker is None or by_broker.pop(broker_name, None) is None:
        return False
    if not by_broker:
        del table[topic]
    return True


def _show_acting_master(group: BrokerInfo, queues: QueueInfo) -> None:
    """Show the lowest slave as master when the master is gone and the topic is read-only there."""
    if (
        group.enable_acting_master
        and group.addresses
        and MASTER_ID not in group.addresses
        and not queues.perm & Perm.WRITE
    ):
        group.addresses[MASTER_ID] = group.addresses.pop(min(group.addresses))


def _flag_is(by_broker: Mapping[str, QueueInfo], flag: int, wanted: bool | None) -> bool:
    return wanted is None or bool(next(iter(by_broker.values())).sys_flag & flag) == wanted
