"""Setting a stopped group to other offsets: the new ones, the old ones, and the refusals.

Owns        the meaning of a target, the refusals, the old and the new offset of each queue.
Must not know   how a plan is shown, how the user is asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.groups import ClusterGroups
from rocketlake.base.errors import NotThereError, UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.moment import parse_time
from rocketlake.protocol.bodies.stats import TopicOffsets

__all__ = ["GroupReset", "Target"]

_KINDS = ("earliest", "latest", "time", "offset", "shift")
_MS_DIGITS = 12
"""A number with more digits than this is a time in ms, 2001 and later; no queue holds so many messages."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a group is to go on: `kind` is earliest, latest, time, offset or shift."""

    kind: str
    number: int = 0

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise UsageError(f"the target {self.kind!r} is not known", hint="write one of " + ", ".join(_KINDS))

    @classmethod
    def parse(cls, text: str, now_ms: int, option: str = "to") -> Target:
        """Read a text: earliest, latest, a time, 10m, an offset, -100. UsageError for another one, named `option`."""
        if text in ("earliest", "latest"):
            return cls(text)
        if re.fullmatch(r"[+-]\d{1,12}", text):
            return cls("shift", int(text))
        if text.isascii() and text.isdigit():
            return cls("time" if len(text) > _MS_DIGITS else "offset", int(text))
        try:
            return cls("time", parse_time(option, text, now_ms=now_ms))
        except UsageError:
            hint = (
                "use earliest, latest, a time as 2026-11-21T10:00:00Z (without a zone it is UTC), 10m for ten minutes "
                "ago, an offset as 1200, or -100 for 100 back"
            )
            raise UsageError(f"{option} {text!r} is not understood", hint=hint) from None

    async def offsets(
        self, groups: ClusterGroups, ends: dict[MessageQueue, TopicOffsets], now: dict[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """The next offset of each queue, within what the queue holds."""
        if self.kind == "time":
            wanted = await groups.at_time(ends, self.number)
        elif self.kind == "shift":
            wanted = {queue: max(0, now[queue]) + self.number for queue in ends}
        else:
            fixed = {"earliest": 0, "latest": 1 << 62, "offset": self.number}[self.kind]
            wanted = dict.fromkeys(ends, fixed)
        return {queue: min(max(wanted[queue], each.min_offset), each.max_offset) for queue, each in ends.items()}


@dataclass(frozen=True, slots=True)
class GroupReset:
    """The planned change: the offset of each queue now (-1: none) and after it."""

    group: str
    now: dict[MessageQueue, int]
    new: dict[MessageQueue, int]

    @classmethod
    async def plan(
        cls, cluster: Cluster, group: str, topic: str, target: Target, *, queues: Collection[str], force: bool
    ) -> GroupReset:
        """Raises RocketLakeError for a running group and, without `force`, for a group that never read the topic."""
        groups = ClusterGroups(cluster)
        ends = _chosen(await cluster.queues(topic), topic, queues)
        await groups.refuse_running(group)
        if not force:
            await _refuse_strangers(groups, group, topic, where=cluster.where)
        now = await groups.committed(group, ends)
        return cls(group, now, await target.offsets(groups, ends, now))

    @property
    def is_change(self) -> bool:
        """True when an offset changes."""
        return self.now != self.new

    @property
    def again(self) -> int:
        """How many messages will be read again."""
        return sum(max(0, now - self.new[queue]) for queue, now in self.now.items())

    @property
    def passed(self) -> int:
        """How many messages will be passed over, of queues in which the group has an offset."""
        return sum(max(0, self.new[queue] - now) for queue, now in self.now.items() if now >= 0)

    @property
    def first(self) -> int:
        """How many queues get a first offset."""
        return sum(now < 0 for now in self.now.values())

    async def carry_out(self, cluster: Cluster) -> None:
        """Set the offsets that differ. Looks for members before and after: a running member would undo the change."""
        groups = ClusterGroups(cluster)
        await groups.refuse_running(self.group)
        await groups.commit(self.group, {queue: to for queue, to in self.new.items() if to != self.now[queue]})
        await groups.refuse_running(self.group)


def _chosen(
    ends: dict[MessageQueue, TopicOffsets], topic: str, wanted: Collection[str]
) -> dict[MessageQueue, TopicOffsets]:
    by_name = {f"{queue.broker_name}/{queue.queue_id}": queue for queue in ends}
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise NotThereError(
            f"topic {topic!r} has no queue {unknown[0]!r}", hint=f"name one of {', '.join(sorted(by_name)[:16])}"
        )
    return {by_name[name]: ends[by_name[name]] for name in wanted} if wanted else ends


async def _refuse_strangers(groups: ClusterGroups, group: str, topic: str, *, where: str) -> None:
    topics = sorted({queue.topic for queue in await groups.offsets(group) if not queue.topic.startswith("%RETRY%")})
    if topic in topics:
        return
    if topics:
        what, which = f"group {group!r} never read topic {topic!r}; it reads {', '.join(topics[:8])}", "--topic"
    else:
        what, which = f"group {group!r} never read topic {topic!r}, nor any other", "the group's name"
    hint = f"look at {which} (`rocketlake group list` shows groups and topics); --force gives it first offsets there"
    raise NotThereError(what, where=where, hint=hint)
