"""Topics of a cluster: their state, and the changes that lose nothing unless they are forced.

Owns        the order of questions and refusals before a topic is made, altered or deleted.
Must not know   how answers are shown; how a topic is drained (topic_drain.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from rocketlake.admin.cluster import Cluster, TopicPlan
from rocketlake.admin.group_lag import held_since
from rocketlake.admin.groups import ClusterGroups
from rocketlake.admin.results import QueueState, TopicMade, TopicState
from rocketlake.admin.topic_change import TopicChange, moves_keys, refuse_losses, settings_text
from rocketlake.admin.topic_drain import Draining, drained
from rocketlake.admin.words import counted
from rocketlake.base.errors import ConflictError, NotThereError, RocketLakeError, UsageError
from rocketlake.model import names
from rocketlake.model.topic import Perm, TopicConfig

__all__ = ["Altered", "Topics", "perm_of"]

_PERMS = {"r": Perm.READ, "w": Perm.WRITE, "rw": Perm.READ | Perm.WRITE}
_HIDDEN = (names.is_system_topic, names.is_retry_topic, names.is_dead_letter_topic, names.is_reply_topic)


def perm_of(text: str) -> int:
    """Permission bits of "rw", "r" or "w". UsageError for another text."""
    if text not in _PERMS:
        raise UsageError(f"permission {text!r} is not known", hint="use rw, r or w")
    return _PERMS[text]


@dataclass(frozen=True, slots=True)
class Altered:
    """A topic's settings before and after a change, by broker name."""

    before: dict[str, TopicConfig]
    after: dict[str, TopicConfig]

    @property
    def moves_keys(self) -> bool:
        """True if equal keys go to another queue than before."""
        return moves_keys(self.before, self.after)


class Topics:
    """Questions about topics, and their changes. Raises LinkError, RemoteError, RocketLakeError for refusals."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def names(self, *, everything: bool = False) -> list[str]:
        """Names of topics; `everything`: also those of RocketMQ itself, for retries and dead letters."""
        own = await self._cluster.broker_and_cluster_names()
        found = await self._cluster.topics()
        return [name for name in found if everything or not (name in own or any(test(name) for test in _HIDDEN))]

    async def state(self, topic: str) -> TopicState:
        """The topic as it stands now."""
        queues = await self._cluster.queues(topic)
        settings = await self._cluster.settings(topic)
        missing = sorted({*await self._cluster.masters()} - {*settings})
        since = await held_since(
            self._cluster, {q: None for q, each in queues.items() if each.max_offset > each.min_offset}
        )
        rows = [
            QueueState(
                queue.broker_name,
                queue.queue_id,
                each.min_offset,
                each.max_offset,
                each.last_update_timestamp,
                since.get(queue, 0),
            )
            for queue, each in queues.items()
        ]
        return TopicState(topic, rows, settings, missing)

    async def create(self, plan: TopicPlan, *, if_not_exists: bool = False) -> TopicMade:
        """Make it on every broker that lacks it. A topic that exists is never changed."""
        names.check_topic(plan.name)
        _refuse_system(plan.name)
        there = await self._cluster.settings(plan.name)
        if there and not if_not_exists:
            raise ConflictError(
                f"topic {plan.name!r} exists: {settings_text(there)}",
                where=self._cluster.where,
                hint=f"`rocketlake topic alter {plan.name}` changes it; --if-not-exists leaves it as it is",
            )
        missing = {*await self._cluster.masters()} - {*there}
        return TopicMade(await self._cluster.create_topic(plan, missing) if missing else [], there)

    async def spread(self, topic: str) -> TopicMade:
        """Make it on the brokers that lack it, with the settings that it has elsewhere."""
        _refuse_system(topic)
        await self._cluster.route(topic)
        there = await self._cluster.settings(topic)
        missing = sorted({*await self._cluster.masters()} - {*there}) if there else []
        if missing:
            await self._cluster.make_topic(dict.fromkeys(missing, next(iter(there.values()))))
        return TopicMade(missing, there)

    async def alter(
        self,
        topic: str,
        change: TopicChange,
        *,
        force: bool = False,
        drain: Callable[[Draining], object] | None = None,
        brokers: Collection[str] = (),
    ) -> Altered:
        """Change it on every broker that has it, or on these. Refused if messages come out of reach, unless `force`.

        `drain`: first end sends, until all groups have read it (topic_drain.py); it is told how far that is.
        """
        _refuse_system(topic)
        if change.is_empty:
            hint = "give --queues, --read-queues, --write-queues, --perm, --lake or --attribute"
            raise UsageError("nothing to change was given", hint=hint)
        await self._cluster.route(topic)
        before = _only(await self._cluster.settings(topic), brokers, topic)
        altered = Altered(before, {broker: change.of(config) for broker, config in before.items()})
        if altered.after == before and not change.attributes:
            return altered
        if not force:
            refuse_losses(before, altered.after, await self._cluster.queues(topic), where=self._cluster.where)
        if drain is not None:
            await drained(self._cluster, topic, before, drain)
        changed = {
            broker: config
            for broker, config in altered.after.items()
            if drain is not None or change.attributes or config != before[broker]  # a drained one is written again
        }
        await self._cluster.put_topic(changed, change.attributes)
        return altered

    async def purge(self, topic: str, *, force: bool = False) -> list[str]:
        """Delete it and make it anew with its settings; what ends the deletion, Ctrl-C too, does not keep it away."""
        await self.check_deletion(topic, force=force)
        settings = await self._cluster.settings(topic)
        try:
            await self._cluster.delete_topic(topic)
        finally:
            await self._make_anew(topic, settings)
        return sorted(settings)

    async def _make_anew(self, topic: str, settings: Mapping[str, TopicConfig]) -> None:
        making = [self._put_if_gone(broker, config) for broker, config in settings.items()]
        outcomes = zip(settings, await asyncio.gather(*making, return_exceptions=True), strict=True)
        errors = {broker: outcome for broker, outcome in outcomes if isinstance(outcome, BaseException)}
        if not errors:
            return
        cause = next(iter(errors.values()))
        if not isinstance(cause, RocketLakeError):
            raise cause
        command = "create" if len(errors) == len(settings) else "spread"  # as it is on the other brokers
        attributes = {f"+{name}={value}" for config in settings.values() for name, value in config.attributes.items()}
        had = ", ".join([settings_text(settings), *sorted(attributes)])
        raise RocketLakeError(
            f"topic {topic!r} could not be made anew on {', '.join(errors)}, and may be gone there: {cause.what}",
            where=cause.where,
            hint=f"mend that, then `rocketlake topic {command} {topic}`; it had {had}",
        ) from cause

    async def _put_if_gone(self, broker: str, config: TopicConfig) -> None:
        """One that refused the deletion has it, and would perhaps refuse this, too."""
        if not await self._cluster.settings(config.name, [broker]):
            await self._cluster.make_topic({broker: config})

    async def check_deletion(self, topic: str, *, force: bool = False) -> int:
        """How many messages would go with it. RocketLakeError if groups read it, unless `force`."""
        _refuse_system(topic)
        count = sum(each.max_offset - each.min_offset for each in (await self._cluster.queues(topic)).values())
        readers = await ClusterGroups(self._cluster).readers(topic)
        if readers and not force:
            groups = ", ".join(f"{group} ({counted(len(who), 'member')})" for group, who in readers.items())
            raise ConflictError(
                f"topic {topic!r} is being read by {groups}",
                where=self._cluster.where,
                hint="stop these consumers first, or delete it under them with --force",
            )
        return count


def _only(settings: dict[str, TopicConfig], brokers: Collection[str], topic: str) -> dict[str, TopicConfig]:
    for broker in brokers:
        if broker not in settings:
            hint = f"it is on {', '.join(sorted(settings))}; `rocketlake topic spread {topic}` makes it on all"
            raise NotThereError(f"topic {topic!r} is not on broker {broker}", hint=hint)
    return {broker: config for broker, config in settings.items() if not brokers or broker in brokers}


def _refuse_system(topic: str) -> None:
    if names.is_system_topic(topic):
        raise UsageError(f"topic {topic!r} belongs to RocketMQ itself", hint="name a topic of your own")
