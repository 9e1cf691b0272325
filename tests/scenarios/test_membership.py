"""Dialogues with the tables of connected consumers and producers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.model.subscription import Subscription
from rocketlake.net.request import Asker

FILES = sorted((Path(__file__).parent / "membership").glob("*.txt"))


class NamedLink:
    writable = True
    remote = "10.0.0.1", 5000
    user = None

    def __init__(self, name: str) -> None:
        self.address = name

    def close(self) -> None: ...


class MembershipWorld:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.consumers = ConsumerTable(self, self.clock)
        self.producers = ProducerTable(self.clock)
        self.links: dict[str, NamedLink] = {}
        self.heard: list[str] = []

    def do(self, verb: str, words: list[str], options: dict[str, str]) -> list[str]:
        self.heard = []
        answer = getattr(self, verb)(*words, **options) or []
        # Notices of one step have no order between groups that users could rely on.
        notices = sorted(self.heard)
        return [*answer, *notices] if verb in ("consumer", "touch") else [*notices, *answer]

    def consumers_changed(self, group: str, askers: Sequence[Asker]) -> None:
        self.heard.append(f"told {group}: " + " ".join(asker.address for asker in askers))

    def consumer(
        self, group: str, link: str, client: str, topics: str, version: str = "1", model: str = "CLUSTERING",
        notify: str = "yes",
    ) -> list[str]:  # fmt: skip
        subscriptions = [Subscription(topic=topic, version=int(version)) for topic in topics.split(",")]
        return self._register(group, link, client, subscriptions, model=model, notify=notify == "yes")

    def touch(self, group: str, link: str, client: str) -> list[str]:
        return self._register(group, link, client, None)

    def _register(
        self, group: str, link: str, client: str, subscriptions: list[Subscription] | None,
        *, model: str = "CLUSTERING", notify: bool = True,
    ) -> list[str]:  # fmt: skip
        changed = self.consumers.register(
            group, self._link(link), client, "CONSUME_PASSIVELY", model, "CONSUME_FROM_LAST_OFFSET", subscriptions,
            notify=notify,
        )  # fmt: skip
        return ["changed" if changed else "same"]

    def producer(self, group: str, link: str, client: str) -> None:
        self.producers.register(group, self._link(link), client)

    def leave(self, group: str, link: str) -> None:
        self.consumers.unregister(group, self._link(link))

    def close(self, link: str) -> None:
        self.consumers.asker_gone(self._link(link))
        self.producers.asker_gone(self._link(link))

    def tick(self, ms: str) -> None:
        self.clock.advance(int(ms))

    def expire(self) -> list[str]:
        gone = [*self.consumers.expire(), *self.producers.expire()]
        return ["expired " + " ".join(link.address for link in gone)] if gone else []

    def members(self, group: str) -> list[str]:
        return ["members " + (" ".join(self.consumers.members(group)) or "none")]

    def producers_of(self, group: str) -> list[str]:
        return ["producers " + (" ".join(member.client_id for member in self.producers.members(group)) or "none")]

    def subscription(self, group: str, topic: str) -> list[str]:
        found = self.consumers.subscription(group, topic)
        return [f"{topic} unknown" if found is None else f"{topic} version {found.version}"]

    def fingerprint(self, group: str, value: str) -> list[str]:
        return ["changed" if self.consumers.take_fingerprint(group, int(value)) else "known"]

    def ask(self, group: str) -> list[str]:
        member = self.producers.any(group)
        return [f"asked {member.client_id if member else 'nobody'}"]

    def _link(self, name: str) -> NamedLink:
        return self.links.setdefault(name, NamedLink(name))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_membership(path: Path, play: Callable[[Path, Any], None]) -> None:
    play(path, MembershipWorld())
