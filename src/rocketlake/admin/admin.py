"""The admin library: what command line, console and programs ask of a cluster.

Owns        Admin, the face of the library: each question a call, each answer a value.
Must not know   how questions are asked (the modules below), how answers are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Self

from rocketlake.admin.accounts import ClusterAccounts
from rocketlake.admin.brokers import Brokers
from rocketlake.admin.cluster import Cluster, TopicPlan
from rocketlake.admin.group_reset import GroupReset, Target
from rocketlake.admin.groups import ClusterGroups
from rocketlake.admin.messages.life import Life, life_of
from rocketlake.admin.messages.lookup import Lookup
from rocketlake.admin.messages.transactions import OpenTransactions, check_again, open_transactions
from rocketlake.admin.messages.waiting import Waiting, waiting_messages
from rocketlake.admin.results import BrokerState, ConsumeMode, GroupState, GroupSummary, TopicMade, TopicState
from rocketlake.admin.topic_change import TopicChange
from rocketlake.admin.topic_drain import Draining
from rocketlake.admin.topics import Altered, Topics, perm_of
from rocketlake.auth.account_text import UserInfo
from rocketlake.auth.policy import Acl
from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.errors import UsageError
from rocketlake.client.calls.reach import net_client
from rocketlake.client.config import ClientConfig
from rocketlake.client.instance import client_settings
from rocketlake.model.message import StoredMessage
from rocketlake.model.topic import TRACE_TOPIC
from rocketlake.protocol.bodies.group import GroupEntry, RetryPolicyEntry
from rocketlake.protocol.headers.transaction import HalfMessagesHeader

__all__ = ["Admin"]

_EVER = 1 << 62


class Admin:
    """Asks a cluster: `async with Admin(namesrv="127.0.0.1:9876") as admin: print(await admin.topics())`.

    Every call may raise LinkError (no server answers), RemoteError (a server refuses: code, remark, address) and
    RocketLakeError (there is no such topic, group ...); the texts name the cure. Times are epoch ms.
    """

    def __init__(
        self, *, namesrv: str | None = None, client_config: ClientConfig | None = None, clock: Clock | None = None
    ) -> None:
        """`namesrv`: host:port;host:port, else that of `client_config`, else NAMESRV_ADDR. Nothing is asked yet."""
        self._config = client_settings(client_config, namesrv)
        self._clock = clock or SystemClock()
        self._running: Cluster | None = None

    async def start(self) -> None:
        """Find a name server that answers; the first question says so if none does. UsageError for bad settings."""
        if self._running is None:
            cluster = Cluster(";".join(self._config.name_servers), net_client(self._config))
            self._running = await cluster.__aenter__()

    async def stop(self) -> None:
        """Close the links."""
        cluster, self._running = self._running, None
        if cluster is not None:
            await cluster.net.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def _cluster(self) -> Cluster:
        if self._running is None:
            raise UsageError("Admin is not running", hint="call start(), or use `async with`")
        return self._running

    # -- topics --------------------------------------------------------------------------------------------------------

    async def topics(self, *, everything: bool = False) -> list[str]:
        """Names of topics; `everything`: also those of RocketMQ itself, for retries and dead letters."""
        return await Topics(self._cluster).names(everything=everything)

    async def topic(self, topic: str) -> TopicState:
        """A topic's queues, offsets and settings now."""
        return await Topics(self._cluster).state(topic)

    async def topic_ends(self, topic: str) -> tuple[int, int]:
        """Messages that a topic holds, and messages that it ever took: two of these make a rate."""
        queues = (await self._cluster.queues(topic)).values()
        return sum(each.max_offset - each.min_offset for each in queues), sum(each.max_offset for each in queues)

    async def create_topic(
        self, topic: str, *, queues: int = 8, perm: str = "rw", if_not_exists: bool = False
    ) -> TopicMade:
        """Make a topic on every broker, with so many queues on each; `perm`: rw, r or w.

        Refused if it exists; with `if_not_exists` it is made on brokers that lack it, and never changed.
        """
        plan = TopicPlan(topic, queues, perm_of(perm))
        return await Topics(self._cluster).create(plan, if_not_exists=if_not_exists)

    async def spread_topic(self, topic: str) -> TopicMade:
        """Make a topic on the brokers that lack it, with the settings that it has elsewhere."""
        return await Topics(self._cluster).spread(topic)

    async def alter_topic(
        self,
        topic: str,
        change: TopicChange,
        *,
        force: bool = False,
        drain: Callable[[Draining], object] | None = None,
        brokers: Collection[str] = (),
    ) -> Altered:
        """Change queues or permission of a topic on every broker that has it, or on these; other settings stay.

        Refused if messages come out of reach, unless `force`. `drain`: first end sends (40 s at least), until every
        group has read the topic, so that keys keep their order; called with how far that is.
        """
        return await Topics(self._cluster).alter(topic, change, force=force, drain=drain, brokers=brokers)

    async def delete_topic(self, topic: str, *, force: bool = False) -> list[str]:
        """Delete a topic and all its messages; returns its brokers. Refused while groups read it, unless `force`."""
        await Topics(self._cluster).check_deletion(topic, force=force)
        return await self._cluster.delete_topic(topic)

    async def purge_topic(self, topic: str, *, force: bool = False) -> list[str]:
        """Delete all messages of a topic, which stays with its settings; returns its brokers.

        It is deleted and made anew: offsets of groups in it go, too; who sends meanwhile gets an error for a moment.
        Refused while groups read it, unless `force`.
        """
        return await Topics(self._cluster).purge(topic, force=force)

    async def check_topic_deletion(self, topic: str, *, force: bool = False) -> int:
        """How many messages `delete_topic` would delete. Raises what it would; nothing is changed."""
        return await Topics(self._cluster).check_deletion(topic, force=force)

    # -- groups --------------------------------------------------------------------------------------------------------

    async def groups(self, *, everything: bool = False) -> list[GroupSummary]:
        """All consumer groups: members, lag, topics; `everything`: also those of RocketMQ and RocketLake."""
        return await ClusterGroups(self._cluster).summaries(everything=everything)

    async def group(self, group: str) -> GroupState:
        """A group's members with what they hold and want, its rates, and its offset and lag in each queue."""
        return await ClusterGroups(self._cluster).state(group, self._clock.now_ms())

    async def create_group(self, group: str, *, tries: int | None = None) -> list[str]:
        """Make a group on every broker that lacks it; returns their names. `tries`: after the first one, else 16."""
        return await ClusterGroups(self._cluster).create(group, tries=tries)

    async def alter_group(
        self, group: str, *, tries: int | None = None, policy: RetryPolicyEntry | None = None
    ) -> dict[str, GroupEntry]:
        """Change how often and when failed messages come again; returns the settings by broker.

        `policy`: the pauses; an empty RetryPolicyEntry() means those of the broker's delay levels.
        """
        return await ClusterGroups(self._cluster).alter(group, tries=tries, policy=policy)

    async def delete_group(self, group: str) -> list[str]:
        """Delete a group and its offsets; returns the brokers that had it. Refused while a member is connected."""
        return await ClusterGroups(self._cluster).delete(group)

    async def consume_modes(self, group: str) -> list[ConsumeMode]:
        """How the group reads topics, where that was set; every other topic is pulled."""
        return await ClusterGroups(self._cluster).modes(group)

    async def set_consume_mode(self, group: str, topic: str, mode: str, *, shared_by: int = 0) -> list[str]:
        """Have the group "pull" or "pop" a topic; returns the brokers that were told.

        Members that let brokers share queues out follow within 20 s (`client_rebalance=False`). `shared_by`: by how
        many more members each queue is popped; 0: by all.
        """
        return await ClusterGroups(self._cluster).set_mode(group, topic, mode, shared_by)

    async def plan_reset(
        self, group: str, topic: str, to: str | Target, *, queues: Collection[str] = (), force: bool = False
    ) -> GroupReset:
        """Old and new offsets of a stopped group in a topic; nothing is changed before `reset_group`.

        `to`: "earliest"; "latest"; a time, "2026-11-21T10:00:00Z" (UTC without a zone) or epoch ms; "10m", so long ago;
        an offset; "-100" or "+100", so many messages back or on in each queue. `queues`: only these, "broker-a/0".
        Refused for a running group and, unless `force`, for a group that never read the topic.
        """
        target = to if isinstance(to, Target) else Target.parse(to, self._clock.now_ms())
        return await GroupReset.plan(self._cluster, group, topic, target, queues=queues, force=force)

    async def reset_group(self, plan: GroupReset) -> None:
        """Set the offsets of a plan. Refused if a member has been started since."""
        await plan.carry_out(self._cluster)

    # -- brokers -------------------------------------------------------------------------------------------------------

    async def brokers(self) -> list[BrokerState]:
        """All brokers, masters and slaves, with their figures; one that does not answer tells why."""
        return await Brokers(self._cluster).states()

    async def broker_figures(self, name: str, broker_id: int = 0) -> dict[str, str]:
        """What a broker says of itself, by RocketMQ's names (GET_BROKER_RUNTIME_INFO)."""
        return await Brokers(self._cluster).figures(name, broker_id)

    async def broker_settings(self, name: str, broker_id: int = 0) -> dict[str, str]:
        """The settings of a broker, by their names in broker.conf."""
        return await Brokers(self._cluster).settings(name, broker_id)

    async def change_broker(self, name: str, settings: Mapping[str, str], broker_id: int = 0) -> None:
        """Change settings of a running broker, until its next start. RemoteError: it has changed none of them."""
        await Brokers(self._cluster).change(name, settings, broker_id)

    # -- messages ------------------------------------------------------------------------------------------------------

    async def messages_by_id(self, topic: str, message_id: str) -> list[StoredMessage]:
        """Those with this id, which a client or a broker gave; several if it was sent again, [] if there is none."""
        return await Lookup(self._cluster).by_id(topic, message_id)

    async def messages_by_key(
        self, topic: str, key: str, *, from_ms: int = 0, to_ms: int = _EVER
    ) -> list[StoredMessage]:
        """Those with this key that were stored between two times; each broker gives its last 64."""
        return await Lookup(self._cluster).by_key(topic, key, from_ms, to_ms)

    async def message_at(self, topic: str, broker: str, queue_id: int, offset: int) -> StoredMessage | None:
        """The one at this place of a queue; None if there is none, or none any more."""
        found = await Lookup(self._cluster).at(topic, broker, queue_id, offset)
        return found[0] if found else None

    async def messages_between(
        self, topic: str, from_ms: int, to_ms: int = _EVER, *, limit: int = 32
    ) -> list[StoredMessage]:
        """The first ones, stored from one time on and before another; in the order of these times."""
        return await Lookup(self._cluster).between(topic, from_ms, to_ms, limit)

    async def message_life(self, message_id: str, topic: str | None = None, *, trace_topic: str = TRACE_TOPIC) -> Life:
        """The steps of one message: sent, stored, consumed by which groups, retried, given up.

        `topic` is needed if its producer does not trace.
        """
        return await life_of(self._cluster, message_id, topic, trace_topic)

    async def open_transactions(
        self,
        *,
        topic: str | None = None,
        group: str | None = None,
        dead: bool = False,
        given_up: bool = False,
        limit: int = 100,
    ) -> OpenTransactions:
        """Transactions without an end: all are counted, the oldest `limit` are kept.

        `group`: of this producer group. `dead`: only of groups without a connected producer. `given_up`: those that
        were given up after too many checks, instead.
        """
        header = HalfMessagesHeader(topic=topic, group=group, is_dead=dead, given_up=given_up)
        return await open_transactions(self._cluster, header, limit)

    async def check_transaction(self, message_id: str) -> None:
        """Have a transaction that was given up checked again; the id is that of `open_transactions`."""
        await check_again(self._cluster, message_id)

    async def waiting_messages(
        self, *, topic: str | None = None, from_ms: int = 0, to_ms: int = _EVER, limit: int = 100
    ) -> Waiting:
        """Messages that wait for their time, due between two times, the first ones; `limit` 0: only their counts."""
        return await waiting_messages(self._cluster, topic, from_ms=from_ms, to_ms=to_ms, limit=limit)

    # -- users ---------------------------------------------------------------------------------------------------------

    async def users(self) -> list[UserInfo]:
        """All users, without passwords. RocketLakeError if no server asks who its clients are."""
        return await ClusterAccounts(self._cluster).users()

    async def policies(self, user: str = "") -> dict[str, Acl]:
        """Policies by user, of all users or of one."""
        return await ClusterAccounts(self._cluster).acls(user)
