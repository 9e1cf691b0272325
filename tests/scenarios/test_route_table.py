"""Dialogues with the name server's route table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.model.route import BrokerInfo
from rocketlake.model.topic import DataVersion, Perm, TopicConfig
from rocketlake.namesrv.route_table import Registration, RouteTable
from rocketlake.protocol.bodies.long_text import at_once

FILES = sorted((Path(__file__).parent / "route_table").glob("*.txt"))
CLUSTER = "DefaultCluster"


class NamedLink:
    def __init__(self, name: str) -> None:
        self.name = name

    def close(self) -> None: ...


class RouteWorld:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.routes = RouteTable(self.clock)
        self.links: dict[str, NamedLink] = {}

    def do(self, verb: str, words: list[str], options: dict[str, str]) -> list[str]:
        return getattr(self, verb)(*words, **options) or []

    def register(
        self, name: str, broker_id: str, address: str, *, topics: str, version: str, term: str = "0",
        timeout_ms: str = "", acting: str = "no",
    ) -> list[str]:  # fmt: skip
        registration = Registration(
            cluster=CLUSTER,
            address=address,
            name=name,
            broker_id=int(broker_id),
            ha_address=address.split(":")[0] + ":ha",
            timeout_ms=int(timeout_ms) if timeout_ms else None,
            acting_master={"no": False, "yes": True, "old": None}[acting],
            data_version=DataVersion(state_version=int(term), timestamp=0, counter=int(version)),
            topics={config.name: config for config in map(_topic, topics.split(","))},
        )
        done = at_once(self.routes.register(registration, self.links.setdefault(address, NamedLink(address))))
        if done is None:
            return ["refused"]
        return [f"ok master={done.master_address} ha={done.ha_address}" if done.master_address else "ok"]

    def unregister(self, name: str, address: str) -> None:
        at_once(self.routes.unregister(CLUSTER, address, name))

    def close(self, address: str) -> None:
        at_once(self.routes.close_link(self.links[address]))

    def heard(self, address: str) -> None:
        self.routes.heard(CLUSTER, address)

    def tick(self, ms: str) -> None:
        self.clock.advance(int(ms))

    def expire(self) -> list[str]:
        return ["expired " + (" ".join(sorted(dropped.address for dropped in at_once(self.routes.expire()))) or "none")]

    def route(self, topic: str) -> list[str]:
        found = self.routes.route(topic)
        if found is None:
            return [f"{topic} unknown"]
        queues = [
            f"{queue.broker_name} read={queue.read_queues} write={queue.write_queues} perm={Perm.to_text(queue.perm)}"
            for queue in found.queues
        ]
        return [" ".join([topic, *queues, "brokers:", *map(_group, found.brokers)])]

    def group(self, name: str) -> list[str]:
        found = self.routes.broker_group(CLUSTER, name)
        return [_group(found) if found else "unknown"]

    def topics(self) -> list[str]:
        return [" ".join(sorted(self.routes.topics())) or "none"]

    def clusters(self) -> list[str]:
        return [f"{cluster}: {' '.join(names)}" for cluster, names in self.routes.clusters().items()] or ["none"]

    def delete_topic(self, topic: str) -> None:
        at_once(self.routes.delete_topic(topic))

    def forget_missing(self, switch: str) -> None:
        self.routes.delete_missing_topics = switch == "on"

    def acting_masters(self, switch: str) -> None:
        self.routes.support_acting_master = switch == "on"

    def wipe(self, name: str) -> list[str]:
        return [f"touched {at_once(self.routes.wipe_write_perm(name))}"]

    def allow(self, name: str) -> list[str]:
        return [f"touched {at_once(self.routes.add_write_perm(name))}"]


def _topic(text: str) -> TopicConfig:
    name, queues, perm = text.split(":")
    read, write = queues.split("/")
    return TopicConfig(name, read_queues=int(read), write_queues=int(write), perm=int(perm))


def _group(group: BrokerInfo) -> str:
    return group.name + "{" + " ".join(f"{i}={address}" for i, address in sorted(group.addresses.items())) + "}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_route_table(path: Path, play: Callable[[Path, Any], None]) -> None:
    play(path, RouteWorld())
