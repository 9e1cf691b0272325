"""Looks at a cluster: which topics want a table, and how far each topic has come.

Owns        the questions to the cluster, through the admin library.
Must not know   Spark, turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rocketlake.admin.admin import Admin
from rocketlake.base.errors import RocketLakeError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.client import some_at_once
from rocketlake.spark.pipeline.serving.wanted import Listed, WantedTable, wanted_by_attributes

__all__ = ["Seen", "look"]


@dataclass(frozen=True)
class Seen:
    """One look. `next_offsets` lacks topics whose brokers did not answer; `unclear` says why a topic has no table."""

    wanted: Mapping[str, WantedTable]
    next_offsets: Mapping[str, Mapping[MessageQueue, int]] = field(default_factory=dict)
    unclear: Mapping[str, str] = field(default_factory=dict)


def look(namesrv: str, listed: Listed) -> Seen:
    """Ask the cluster. RocketLakeError if it cannot say which topics want a table."""
    return asyncio.run(_look(namesrv, listed))


async def _look(namesrv: str, listed: Listed) -> Seen:
    async with Admin(namesrv=namesrv) as admin:
        wanted, unclear = wanted_by_attributes(await admin.topic_settings(), dict(listed.options))
        wanted |= {table.topic: table for table in listed.tables}
        return Seen(wanted, await _next_offsets(admin, wanted), unclear)


async def _next_offsets(admin: Admin, topics: Iterable[str]) -> dict[str, Mapping[MessageQueue, int]]:
    async def ask(topic: str) -> tuple[str, Mapping[MessageQueue, int] | None]:
        try:
            return topic, await admin.next_offsets(topic)
        except RocketLakeError:
            return topic, None  # its own turn will say why

    answers = await some_at_once(ask, topics)
    return {topic: found for topic, found in answers if found is not None}
