"""The requests that administrators send to a cluster about consumer groups: members, subscriptions, offsets.

Owns        the administrative requests about groups.
Must not know   how answers are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.group_lag import waiting_since
from rocketlake.admin.results import ConsumeMode, ConsumeRate, GroupState, GroupSummary, Member, QueueLag
from rocketlake.base.errors import ConflictError, NotThereError, RocketLakeError, UsageError
from rocketlake.client.calls import offset as calls
from rocketlake.client.calls.answer import ask
from rocketlake.client.calls.pull import pull
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import (
    TOOLS_CONSUMER_GROUP,
    check_group,
    is_own_group,
    is_retry_topic,
    is_system_group,
    keeps_first_offsets,
)
from rocketlake.model.subscription import parse_subscription
from rocketlake.net.client import some_at_once
from rocketlake.protocol.bodies.assignment import RequestModeBody, RequestModesBody
from rocketlake.protocol.bodies.client import STANDING_QUEUES, ConnectionEntry, ConsumerConnection, ConsumerRunningInfo
from rocketlake.protocol.bodies.group import GroupEntry, GroupTable, RetryPolicyEntry
from rocketlake.protocol.bodies.java_enum import MessageRequestMode
from rocketlake.protocol.bodies.stats import ConsumeStats, GroupList, GroupOffsets, TopicOffsets
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_group import ConsumerConnectionsHeader, ConsumeStatsHeader, DeleteGroupHeader
from rocketlake.protocol.headers.admin_topic import TopicConsumersHeader
from rocketlake.protocol.headers.client import RunningInfoHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.protocol.versions import version_name

__all__ = ["ClusterGroups", "unequal_subscriptions"]

_MODES: Mapping[str, MessageRequestMode] = {"pull": "PULL", "pop": "POP"}


class ClusterGroups:
    """Questions about groups to all masters. Raises LinkError, RemoteError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def all(self) -> dict[str, GroupEntry]:
        """All consumer groups that brokers know."""
        masters = await self._cluster.masters()
        answers = await self._cluster.at_each(masters, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None)
        found: dict[str, GroupEntry] = {}
        for answer in answers.values():
            found |= GroupTable.decode(answer.body_bytes).groups
        return dict(sorted(found.items()))

    async def summaries(self, *, everything: bool = False) -> list[GroupSummary]:
        """All groups; `everything`: also those of RocketMQ and RocketLake, and first offsets of Spark queries."""
        rows = []
        for name in await self.all():
            if not everything and (is_system_group(name) or is_own_group(name) or keeps_first_offsets(name)):
                continue
            offsets = await self.offsets(name)
            topics = sorted({queue.topic for queue in offsets if not is_retry_topic(queue.topic)})
            lag = sum(each.lag for each in offsets.values())
            taken = await self._taken(name, "")
            rows.append(GroupSummary(name, len(await self.connected(name)), lag, topics, taken))
        return rows

    async def state(self, group: str, now_ms: int = 0) -> GroupState:
        """The group's members and lag, in seconds too with `now_ms`. NotThereError if no broker knows it."""
        offsets, members = await self.offsets(group), await self.members(group)
        offsets |= await self._unsaved(members, offsets)
        since = await waiting_since(self._cluster, offsets) if now_ms else {}
        holders = {queue: member.client_id for member in members for queue in member.held}
        if not offsets and not members and group not in await self.all():
            raise self.unknown(group)
        rows = [
            QueueLag(
                queue.topic,
                queue.broker_name,
                queue.queue_id,
                next_offset=each.broker_offset,
                consumed=max(each.consumer_offset, each.pop_offset or 0),
                last_consumed_ms=each.last_timestamp,
                lag_seconds=_seconds(queue, each, since, now_ms),
                member=holders.get(queue, ""),
                in_flight=each.pop_in_flight or 0,
                overdue=each.pop_overdue or 0,
            )
            for queue, each in offsets.items()
        ]
        topics = {queue.topic for queue in offsets} if now_ms else set()
        taken = {topic: await self._taken(group, topic) for topic in sorted(topics)}
        return GroupState(group, members, rows, taken, await self._attributes(group))

    async def _attributes(self, group: str) -> dict[str, dict[str, str]]:
        settings = await self.settings(group, accept=(ResponseCode.NO_PERMISSION,))
        return {broker: entry.attributes for broker, entry in sorted(settings.items()) if entry.attributes}

    async def _unsaved(
        self, members: Collection[Member], saved: Collection[MessageQueue]
    ) -> dict[MessageQueue, GroupOffsets]:
        """Queues without an offset yet, of which members have messages in hand: a new group may stand at its first."""
        begun = {queue: first for each in members for queue, first in each.begun.items() if queue not in saved}
        ends: dict[MessageQueue, TopicOffsets] = {}
        for topic in sorted({queue.topic for queue in begun}):
            ends |= await self._cluster.queues(topic)
        return {
            queue: GroupOffsets(broker_offset=ends[queue].max_offset, consumer_offset=first)
            for queue, first in begun.items()
            if queue in ends
        }

    async def _taken(self, group: str, topic: str) -> float:
        """Messages a second that the group takes from a topic, or from all (""), at all brokers."""
        header = ConsumeStatsHeader(consumer_group=group, topic=topic)
        answers = await self._cluster.at_each(
            await self._cluster.masters(), RequestCode.GET_CONSUME_STATS, header, accept=(ResponseCode.TOPIC_NOT_EXIST,)
        )
        found = [answer for answer in answers.values() if answer.code == ResponseCode.SUCCESS]
        return sum(ConsumeStats.decode(answer.body_bytes).consume_tps for answer in found)

    def unknown(self, group: str) -> RocketLakeError:
        """The error for a group that no broker knows."""
        hint = "`rocketlake group list` shows all groups"
        return NotThereError(f"no broker knows group {group!r}", where=self._cluster.where, hint=hint)

    async def create(self, group: str, *, tries: int | None = None, attributes: str = "") -> list[str]:
        """Make it on every broker that lacks it; returns their names. `tries`: after the first one, 16 else.

        `attributes`: `+a=1,+b=2`. ConflictError if it exists without what is given.
        """
        check_group(group)
        changes = _changes(attributes)
        for name in changes:
            if not name.startswith("+"):
                raise UsageError(
                    f"attribute {name!r} of a group to be created has no +",
                    hint=f"write +NAME=VALUE; `rocketlake group alter {group} -a -NAME` removes one",
                )
        there = await self.settings(group)
        for broker, entry in there.items():
            if lacking := _lacking(entry, tries, changes):
                raise ConflictError(
                    f"group {group!r} exists without {lacking}",
                    where=broker,
                    hint=f"`rocketlake group alter {group}` changes it",
                )
        missing = [broker for broker in await self._cluster.masters() if broker not in there]
        entry = GroupEntry(group_name=group, attributes=changes)
        entry.retry_max_times = entry.retry_max_times if tries is None else tries
        await self.put(dict.fromkeys(missing, entry))
        return missing

    async def alter(
        self,
        group: str,
        *,
        tries: int | None = None,
        policy: RetryPolicyEntry | None = None,
        attributes: str = "",
    ) -> dict[str, GroupEntry]:
        """Change its retries or attributes on every broker that knows it; returns what was written, by broker.

        `policy`: the pauses before them; an empty one: those of the broker's delay levels. `attributes`: changes,
        `+a=1,-b`. RocketLakeError if no broker knows the group.
        """
        settings = await self.settings(group)
        if not settings:
            raise self.unknown(group)
        for entry in settings.values():
            if tries is not None:
                entry.retry_max_times = tries
            if policy is not None:
                entry.group_retry_policy = policy
            if attributes:
                entry.attributes = _changes(attributes)
        await self.put(settings)
        return settings

    async def delete(self, group: str) -> list[str]:
        """Delete it with its offsets on every broker; returns those that had it. RocketLakeError for a running one."""
        there = await self.settings(group)
        if not there:
            raise self.unknown(group)
        await self.refuse_running(group)
        masters, header = await self._cluster.masters(), DeleteGroupHeader(group_name=group, clean_offset=True)
        brokers = {name: masters[name] for name in there}
        await self._cluster.at_each(brokers, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
        return list(brokers)

    async def set_mode(self, group: str, topic: str, mode: str, shared_by: int) -> list[str]:
        """Have the group "pull" or "pop" a topic, at each master that has it; returns their names.

        Each broker keeps the modes by itself, and a member asks any of them.
        """
        name = _MODES.get(mode.lower())
        if name is None:
            raise UsageError(f"the mode {mode!r} is not known", hint="use pull or pop")
        body = RequestModeBody(topic=topic, consumer_group=group, mode=name, pop_share_queue_num=shared_by).encode()
        masters = await self._cluster.topic_masters(topic)
        command = Command.request(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)
        for address in masters.values():
            await ask(self._cluster.net, address, command)
        return list(masters)

    async def modes(self, group: str) -> list[ConsumeMode]:
        """How it reads topics, where that was set."""
        masters = await self._cluster.masters()
        code, unknown = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        answers = await self._cluster.at_each(masters, code, None, accept=(unknown,))  # old brokers know pulls only
        return [
            ConsumeMode(topic, broker, groups[group].mode.lower(), groups[group].pop_share_queue_num)
            for broker, answer in sorted(answers.items())
            if answer.code != unknown
            for topic, groups in sorted(RequestModesBody.decode(answer.body_bytes).modes.items())
            if group in groups
        ]

    async def refuse_running(self, group: str) -> None:
        """RocketLakeError if a member is connected: it would go on from its own offsets."""
        members = sorted(await self.connected(group))
        if members:
            raise ConflictError(
                f"group {group!r} is running ({', '.join(members[:3])}), and would go on from its own offsets",
                hint="stop its members first",
            )

    async def settings(self, group: str, *, accept: tuple[int, ...] = ()) -> dict[str, GroupEntry]:
        """The group's settings by broker name; a broker that does not know the group, or says `accept`, is missing."""
        masters = await self._cluster.masters()
        answers = await self._cluster.at_each(
            masters, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None, accept=accept
        )
        known = {broker: answer for broker, answer in answers.items() if answer.code == ResponseCode.SUCCESS}
        tables = {broker: GroupTable.decode(answer.body_bytes).groups for broker, answer in known.items()}
        return {broker: groups[group] for broker, groups in tables.items() if group in groups}

    async def put(self, settings: Mapping[str, GroupEntry]) -> None:
        """Give a group these settings, by broker name."""
        masters, code = await self._cluster.masters(), RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        net = self._cluster.net
        for broker, entry in settings.items():
            await ask(net, masters[broker], Command.request(code, body=entry.encode()))

    async def offsets(self, group: str) -> dict[MessageQueue, GroupOffsets]:
        """The group's offset in each queue that it ever read."""
        header = ConsumeStatsHeader(consumer_group=group, topic="")
        masters = await self._cluster.masters()
        answers = await self._cluster.at_each(masters, RequestCode.GET_CONSUME_STATS, header)
        offsets: dict[MessageQueue, GroupOffsets] = {}
        for answer in answers.values():
            offsets |= ConsumeStats.decode(answer.body_bytes).offsets
        return dict(sorted(offsets.items()))

    async def connected(self, group: str) -> dict[str, str]:
        """Client id -> address of the group's consumers that are connected now."""
        return {
            client.client_id: client.client_addr
            for connection in (await self._connections(group)).values()
            for client in connection.connections
        }

    async def members(self, group: str) -> list[Member]:
        """The connected consumers, each with its own subscriptions."""
        masters = await self._cluster.masters()
        at_broker = {
            client.client_id: (client, masters[broker])
            for broker, connection in (await self._connections(group)).items()
            for client in connection.connections
        }

        async def member(client_id: str) -> Member:
            return await self._member(group, client_id, *at_broker[client_id])

        return await some_at_once(member, sorted(at_broker))

    async def readers(self, topic: str) -> dict[str, list[str]]:
        """Groups with members that subscribe to the topic, with the client ids of these members.

        Each member is asked: a broker knows for a group only what the last heartbeat of any member said. A member that
        does not tell counts if its group was ever connected with the topic.
        """
        known = await self.known_readers(topic)
        readers = {}
        for group in sorted(known | set(await self.all())):
            clients = [
                member.client_id
                for member in await self.members(group)
                if (group in known if member.subscriptions is None else topic in member.subscriptions)
            ]
            if clients:
                readers[group] = clients
        return readers

    async def known_readers(self, topic: str) -> set[str]:
        """Groups that were ever connected with the topic, as its brokers know them."""
        masters = await self._cluster.topic_masters(topic)
        answers = await self._cluster.at_each(
            masters, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicConsumersHeader(topic=topic)
        )
        return {name for each in answers.values() for name in GroupList.decode(each.body_bytes).groups}

    async def committed(
        self, group: str, queues: Collection[MessageQueue], *, zero_if_young: bool = True
    ) -> dict[MessageQueue, int]:
        """The group's offset in each of these queues; -1 where it has none (see calls/offset.py)."""
        masters = await self._cluster.masters()

        async def committed(queue: MessageQueue) -> int:
            return await calls.committed_offset(
                self._cluster.net, masters[queue.broker_name], group, queue, zero_if_young=zero_if_young
            )

        return dict(zip(queues, await some_at_once(committed, queues), strict=True))

    async def at_time(self, ends: Mapping[MessageQueue, TopicOffsets], time_ms: int) -> dict[MessageQueue, int]:
        """The first offset stored at or after this time in each queue; the next offset where nothing was."""
        masters = await self._cluster.masters()

        async def at_time(queue: MessageQueue) -> int:
            return await self._at_time(masters[queue.broker_name], queue, ends[queue].min_offset, time_ms)

        return dict(zip(ends, await some_at_once(at_time, ends), strict=True))

    async def _at_time(self, address: str, queue: MessageQueue, min_offset: int, time_ms: int) -> int:
        """Brokers of 4.9 answer the nearest message, one too early or too late: the messages around it are looked at.

        A message that cannot be read counts as one of this time: one too many is better than one too few.
        """
        net = self._cluster.net
        answer = await calls.offset_by_time(net, address, queue, time_ms)
        offset = max(answer - 1, min_offset)
        everything = parse_subscription(queue.topic, None)
        around = await pull(
            net, address, queue, group=TOOLS_CONSUMER_GROUP, offset=offset, subscription=everything,
            max_messages=3, lite=True, around_damage=True,
        )  # fmt: skip
        for message in around.messages:
            if message.store_ms >= time_ms or message.queue_offset > offset:
                break
            offset = message.queue_offset + 1
        return offset

    async def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Set the group's offsets: the next messages it will read."""
        masters = await self._cluster.masters()
        for queue, offset in offsets.items():
            await calls.commit_offset(self._cluster.net, masters[queue.broker_name], group, queue, offset)

    async def _connections(self, group: str) -> dict[str, ConsumerConnection]:
        answers = await self._cluster.at_each(
            await self._cluster.masters(),
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            ConsumerConnectionsHeader(consumer_group=group),
            accept=(ResponseCode.CONSUMER_NOT_ONLINE,),
        )
        return {
            broker: ConsumerConnection.decode(answer.body_bytes)
            for broker, answer in answers.items()
            if answer.code == ResponseCode.SUCCESS
        }

    async def _member(self, group: str, client_id: str, client: ConnectionEntry, broker: str) -> Member:
        known = Member(
            client_id, client.client_addr, None, language=client.language or "", version=version_name(client.version)
        )
        header = RunningInfoHeader(consumer_group=group, client_id=client_id)
        try:
            answer = await ask(
                self._cluster.net, broker, Command.request(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
            )
        except RocketLakeError:  # old clients, and some in other languages, do not answer this request
            return known
        info = ConsumerRunningInfo.decode(answer.body_bytes)
        subscriptions = {entry.topic: entry.sub_string for entry in info.subscriptions}
        return replace(
            known,
            subscriptions=subscriptions,
            standing=info.properties.get(STANDING_QUEUES, ""),
            held={queue: entry.cached_msg_count for queue, entry in info.queues.items() if not entry.dropped},
            begun={
                queue: entry.cached_msg_min_offset for queue, entry in info.queues.items() if entry.cached_msg_count
            },
            settings=info.properties,
            rates={
                topic: ConsumeRate(each.consume_ok_tps, each.consume_failed_tps, each.consume_rt)
                for topic, each in info.status.items()
            },
        )


def _seconds(
    queue: MessageQueue, offsets: GroupOffsets, since: Mapping[MessageQueue, int], now_ms: int
) -> float | None:
    """How long the first message waits: 0 if there is none, None if it cannot be said."""
    if not offsets.lag:
        return 0.0 if now_ms else None
    return max(0, now_ms - since[queue]) / 1000 if queue in since else None


def _changes(text: str) -> dict[str, str]:
    """Changes of attributes as a broker takes them. It says what else is wrong with one; these two it cannot see."""
    changes: dict[str, str] = {}
    for each in filter(None, map(str.strip, text.split(","))):
        name, value = (part.strip() for part in each.partition("=")[::2])
        if name.startswith("+") and not value:
            raise UsageError(f"attribute {name!r} has no value", hint=f"write {name}=VALUE")
        if name in changes:
            raise UsageError(f"attribute {name!r} is given twice", hint="give each attribute once")
        changes[name] = value
    return changes


def _lacking(entry: GroupEntry, tries: int | None, added: Mapping[str, str]) -> str:
    """What a group that exists does not have of these wishes. `added`: `+name` -> value."""
    if tries not in (None, entry.retry_max_times):
        return f"tries={tries}, with {entry.retry_max_times}"
    unmet = [f"{name[1:]}={value}" for name, value in added.items() if entry.attributes.get(name[1:]) != value]
    return ", ".join(unmet)


def unequal_subscriptions(members: Collection[Member]) -> dict[str, dict[str, list[str]]]:
    """Topic -> expression -> client ids, for each topic that members want differently; "-" is: not at all."""
    known = [(member.client_id, member.subscriptions) for member in members if member.subscriptions is not None]
    unequal = {}
    for topic in sorted({topic for _, wanted in known for topic in wanted if not topic.startswith("%RETRY%")}):
        wishes: dict[str, list[str]] = {}
        for client_id, wanted in known:
            wishes.setdefault(wanted.get(topic, "-"), []).append(client_id)
        if len(wishes) > 1:
            unequal[topic] = wishes
    return unequal
