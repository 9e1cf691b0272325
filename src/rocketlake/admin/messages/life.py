"""The life of one message: sent, stored, consumed, retried, given up; from its trace and from the topics themselves.

Owns        the steps, where each is read from, their order.
Must not know   how messages are found (lookup.py), how steps are shown.

Clients tell of sends and of calls of listeners, if they trace. Without a trace the topics still know where the message
was stored, which groups have gone past it, and whether it is in a retry or a dead-letter topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.groups import ClusterGroups
from rocketlake.admin.messages.lookup import Lookup
from rocketlake.admin.messages.place import place_of
from rocketlake.base.errors import NotThereError
from rocketlake.client.trace.format import EndTransaction, MessageType, Pub, Recall, SubAfter, SubBefore
from rocketlake.client.trace.read import Told, told_of
from rocketlake.model.message import StoredMessage
from rocketlake.model.names import dead_letter_topic, retry_topic
from rocketlake.model.property_names import LAST_ERROR

__all__ = ["Life", "Step", "life_of"]

_SENT = {
    MessageType.HALF: "sent as half",
    MessageType.DELAYED: "sent for later",
}

_ENDED, _STORED, _CONSUMED = 1, 2, 3
"""The order of steps of one millisecond: each failure leads to a further storing and a further call."""


@dataclass(frozen=True, slots=True)
class Step:
    """`at_ms` 0: when is not known. `where`: a broker or a place in a queue, `by`: a group, `client`: its address."""

    at_ms: int
    what: str
    where: str | None = None
    by: str | None = None
    client: str | None = None
    took_ms: int | None = None
    result: str | None = None
    rank: int = 0
    """Among steps of one millisecond."""


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of one message."""

    message_id: str
    topic: str
    is_traced: bool
    steps: list[Step]


async def life_of(cluster: Cluster, message_id: str, topic: str | None, trace_topic: str) -> Life:
    """The life of a message. `topic` is needed if its producer does not trace.

    Raises RocketLakeError if it is found neither in the trace nor in the topic.
    """
    lookup = Lookup(cluster)
    stored = await lookup.by_id(topic, message_id) if topic is not None else []
    if stored:
        message_id = stored[0].message_id  # an offset id was given
    told = await _told(cluster, lookup, message_id, trace_topic)
    topic = topic or next((each.record.topic for each in told if isinstance(each.record, Pub | EndTransaction)), None)
    if topic is not None and not stored and await cluster.find_route(topic) is not None:
        stored = await lookup.by_id(topic, message_id)
    if topic is None or not (told or stored):
        raise NotThereError(
            f"nothing is known of message {message_id}" + (f" in topic {topic}" if topic else ""),
            where=cluster.where,
            hint="name its topic with --topic; a message is traced if its client has ClientConfig(trace=True)",
        )
    steps = [*_told_steps(told), *(_stored_step(message, "stored") for message in stored)]
    groups = await _groups(cluster, topic) | {
        each.record.group for each in told if isinstance(each.record, SubBefore | SubAfter) and each.record.group
    }
    for group in sorted(groups):
        steps += await _steps_of_group(cluster, lookup, group, message_id)
        if not any(step.by == group for step in steps):
            steps += await _progress(cluster, group, stored)
    return Life(message_id, topic, bool(told), sorted(steps, key=lambda step: (step.at_ms or 1 << 63, step.rank)))


async def _told(cluster: Cluster, lookup: Lookup, message_id: str, trace_topic: str) -> list[Told]:
    if await cluster.find_route(trace_topic) is None:
        return []
    return told_of(message_id, await lookup.by_key(trace_topic, message_id))


def _told_steps(told: Iterable[Told]) -> Iterator[Step]:
    records = list(told)
    begun = {each.record.request_id: each.record for each in records if isinstance(each.record, SubBefore)}
    ended = {each.record.request_id for each in records if isinstance(each.record, SubAfter)}
    for each in records:
        record, client = each.record, each.client
        match record:
            case Pub():
                what = _SENT.get(record.message_type, "sent")
                result = "ok" if record.is_success else "stored, but not as safely as asked"
                yield Step(record.at_ms, what, record.store_host, record.group, client, record.cost_ms, result)
            case SubAfter():
                before = begun.get(record.request_id)
                at_ms = before.at_ms if before else record.at_ms
                group = (before.group if before else None) or record.group or None
                attempt = f" (retry {before.retries})" if before and before.retries else ""
                result = "ok" if record.is_success else record.code.name.lower().replace("_", " ")
                rank = _CONSUMED + 2 * (before.retries if before else 0)
                yield Step(at_ms, f"consumed{attempt}", None, group, client, record.cost_ms, result, rank)
            case SubBefore():
                if record.request_id not in ended:
                    rank = _CONSUMED + 2 * record.retries
                    what, result = "given to a listener", "no end is told"
                    yield Step(record.at_ms, what, None, record.group, client, None, result, rank)
            case EndTransaction():
                what = "transaction checked" if record.is_checked else "transaction ended"
                state = record.state.name.lower()
                yield Step(record.at_ms, what, record.store_host, record.group, client, None, state, _ENDED)
            case Recall():
                result = "ok" if record.is_success else "refused"
                yield Step(record.at_ms, "recalled", None, record.group, client, None, result)


def _stored_step(message: StoredMessage, what: str, by: str | None = None) -> Step:
    failures = message.reconsume_times
    result = f"failures: {failures}" if by else None
    if result and (error := message.properties.get(LAST_ERROR)):
        result += f", the last: {error}"
    return Step(message.store_ms, what, place_of(message), by, None, None, result, _STORED + 2 * failures)


async def _groups(cluster: Cluster, topic: str) -> set[str]:
    """Those that ever were connected with the topic."""
    if await cluster.find_route(topic) is None:
        return set()
    groups = ClusterGroups(cluster)
    # Apache's brokers name the topic itself among its groups.
    return await groups.known_readers(topic) & set(await groups.all())


async def _steps_of_group(cluster: Cluster, lookup: Lookup, group: str, message_id: str) -> list[Step]:
    """The message in the retry topic and in the dead letters of the group."""
    steps = []
    for topic, what in ((retry_topic(group), "stored for a retry"), (dead_letter_topic(group), "dead letter")):
        if await cluster.find_route(topic) is not None:
            for message in await lookup.by_id(topic, message_id):
                steps.append(_stored_step(message, what, group))
    return steps


async def _progress(cluster: Cluster, group: str, stored: Iterable[StoredMessage]) -> list[Step]:
    """A group of which no client tells: has it gone past the message?"""
    steps = []
    for message in stored:
        queue = message.message_queue
        offset = (await ClusterGroups(cluster).committed(group, [queue], zero_if_young=False))[queue]
        if offset > message.queue_offset:
            steps.append(Step(0, "passed", place_of(message), group, result=f"the group is at offset {offset}"))
        elif offset >= 0:
            steps.append(Step(0, "waits", place_of(message), group, result=f"the group is at offset {offset}"))
    return steps
