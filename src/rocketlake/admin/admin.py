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
from rocketlake.admin.lites import ClusterLites
from rocketlake.admin.messages.dead_letters import GroupLetters, LetterChoice, letter_groups
from rocketlake.admin.messages.life import Life, life_of
from rocketlake.admin.messages.lookup import Lookup
from rocketlake.admin.messages.transactions import OpenTransactions, check_again, open_transactions
from rocketlake.admin.messages.waiting import Waiting, waiting_messages
from rocketlake.admin.replicas.asked import ClusterReplicas
from rocketlake.admin.replicas.change import ReplicaChanges
from rocketlake.admin.replicas.state import end_of_master, group_of
from rocketlake.admin.results import (
    BrokerState,
    ConsumeMode,
    DeadLetterGroup,
    GroupState,
    GroupSummary,
    LettersSettled,
    MasterSwitch,
    NewMaster,
    PolicyMade,
    ReplicaGroup,
    TopicMade,
    TopicState,
    UserMade,
)
from rocketlake.admin.topic_change import TopicChange
from rocketlake.admin.topic_drain import Draining
from rocketlake.admin.topics import Altered, Topics, perm_of
from rocketlake.auth.account_text import AclInfo, QuotaInfo, UserInfo
from rocketlake.auth.policy import Acl, Decision, Verdict
from rocketlake.auth.user import new_password
from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.errors import UsageError
from rocketlake.base.settings.checked import Int32, checked
from rocketlake.base.settings.forms import AsyncForms
from rocketlake.client.calls.reach import net_client
from rocketlake.client.config import ClientConfig
from rocketlake.client.instance import client_settings
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.topic import TRACE_TOPIC, TopicConfig
from rocketlake.protocol.bodies.group import GroupEntry, RetryPolicyEntry
from rocketlake.protocol.bodies.lite_info import LiteLag, LiteTopicInfo, ParentTopicInfo
from rocketlake.protocol.headers.transaction import HalfMessagesHeader

__all__ = ["Admin"]

_EVER = 1 << 62


@checked
class Admin(AsyncForms):
    """Asks a cluster: `async with Admin(namesrv="127.0.0.1:9876") as admin: print(await admin.topics())`.

    Every call may raise LinkError (no server answers), RemoteError (a server refuses: code, remark, address),
    UsageError (an argument of another kind) and RocketLakeError (there is no such topic, group ...); the texts name the
    cure. Times are epoch ms. No number is below 0; Int32 is one of 32 bits.
    """

    _twins = "rocketlake.admin.sync"

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

    async def topic_settings(self) -> dict[str, dict[str, TopicConfig]]:
        """The settings of all topics, RocketMQ's own too: topic, then broker name. LinkError if a broker is silent."""
        return await self._cluster.all_settings()

    async def next_offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The offset that the next message of each queue gets."""
        return {queue: each.max_offset for queue, each in (await self._cluster.queues(topic)).items()}

    async def topic_ends(self, topic: str) -> tuple[int, int]:
        """Messages that a topic holds, and messages that it ever took: two of these make a rate."""
        queues = (await self._cluster.queues(topic)).values()
        return sum(each.max_offset - each.min_offset for each in queues), sum(each.max_offset for each in queues)

    async def create_topic(
        self, topic: str, *, queues: Int32 = 8, perm: str = "rw", attributes: str = "", if_not_exists: bool = False
    ) -> TopicMade:
        """Make a topic on every broker, with so many queues on each; `perm`: rw, r or w; `attributes`: `+a=1,+b=2`.

        Refused if it exists; with `if_not_exists` it is made on brokers that lack it, and never changed.
        """
        plan = TopicPlan(topic, queues, perm_of(perm), attributes)
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

        It is deleted and made anew, also after an error or Ctrl-C: offsets of groups in it go, too; who sends meanwhile
        gets an error for a moment. A kill between the two leaves no topic.
        Refused while groups read it, unless `force`.
        """
        return await Topics(self._cluster).purge(topic, force=force)

    async def check_topic_deletion(self, topic: str, *, force: bool = False) -> int:
        """How many messages `delete_topic` would delete. Raises what it would; nothing is changed."""
        return await Topics(self._cluster).check_deletion(topic, force=force)

    # -- lite topics ---------------------------------------------------------------------------------------------------

    async def lite_parent(self, topic: str) -> dict[str, ParentTopicInfo]:
        """How many lite topics a parent has on each broker, how long they live, which groups are bound to it."""
        return await ClusterLites(self._cluster).parent(topic)

    async def lite_topic(self, parent: str, lite: str) -> dict[str, LiteTopicInfo]:
        """The ends of a lite topic on each broker, and who subscribes to it."""
        return await ClusterLites(self._cluster).topic(parent, lite)

    async def lite_lag(self, group: str, *, top: int = 20) -> tuple[int, list[tuple[str, LiteLag]]]:
        """Messages that a group is behind in its lite topics, and where it is behind most: broker, lite topic."""
        return await ClusterLites(self._cluster).behind(group, top)

    # -- groups --------------------------------------------------------------------------------------------------------

    async def groups(self, *, everything: bool = False) -> list[GroupSummary]:
        """All consumer groups: members, lag, topics; `everything`: also those of RocketMQ and RocketLake."""
        return await ClusterGroups(self._cluster).summaries(everything=everything)

    async def group(self, group: str) -> GroupState:
        """A group's members with what they hold and want, its rates, and its offset and lag in each queue."""
        return await ClusterGroups(self._cluster).state(group, self._clock.now_ms())

    async def create_group(self, group: str, *, tries: Int32 | None = None, attributes: str = "") -> list[str]:
        """Make a group on every broker that lacks it; returns their names. `tries`: after the first one, else 16.

        `attributes`: `+a=1,+b=2`. ConflictError if it exists with other tries or attributes than these: see
        `alter_group`.
        """
        return await ClusterGroups(self._cluster).create(group, tries=tries, attributes=attributes)

    async def alter_group(
        self,
        group: str,
        *,
        tries: Int32 | None = None,
        policy: RetryPolicyEntry | None = None,
        attributes: str = "",
    ) -> dict[str, GroupEntry]:
        """Change how often and when failed messages come again; returns what was written, by broker.

        `policy`: the pauses; an empty RetryPolicyEntry() means those of the broker's delay levels. `attributes`:
        changes, `+a=1,-b`.
        """
        return await ClusterGroups(self._cluster).alter(group, tries=tries, policy=policy, attributes=attributes)

    async def delete_group(self, group: str) -> list[str]:
        """Delete a group and its offsets; returns the brokers that had it. Refused while a member is connected."""
        return await ClusterGroups(self._cluster).delete(group)

    async def consume_modes(self, group: str) -> list[ConsumeMode]:
        """How the group reads topics, where that was set; every other topic is pulled."""
        return await ClusterGroups(self._cluster).modes(group)

    async def set_consume_mode(self, group: str, topic: str, mode: str, *, shared_by: Int32 = 0) -> list[str]:
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

    async def message_at(self, topic: str, broker: str, queue_id: Int32, offset: int) -> StoredMessage | None:
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

    # -- dead letters --------------------------------------------------------------------------------------------------

    async def dead_letter_groups(self) -> list[DeadLetterGroup]:
        """Groups with dead letters: how many are open, how many are kept."""
        return await letter_groups(self._cluster)

    async def dead_letters(
        self,
        group: str,
        tell: Callable[[StoredMessage], object],
        choice: LetterChoice | None = None,
        *,
        settled: bool = False,
    ) -> int:
        """Call `tell` with each dead letter of a group that is open and chosen; returns how many there were.

        `settled`: also those that were sent again or dropped, as far as they are kept.
        """
        return await GroupLetters(group, choice, self._config).look(tell, settled=settled)

    async def resend_dead_letters(
        self,
        group: str,
        choice: LetterChoice | None = None,
        *,
        to: str | None = None,
        body: bytes | None = None,
        tell: Callable[[StoredMessage], object] | None = None,
    ) -> LettersSettled:
        """Send dead letters to their group again, to it alone, as if they had never failed.

        `to`: to all readers of this topic. `body`: the repaired one of a message that is chosen by its id. `tell` is
        called with each that was sent: what comes before an error is done.
        """
        return await GroupLetters(group, choice, self._config).resend(tell, to=to, body=body)

    async def drop_dead_letters(
        self, group: str, choice: LetterChoice | None = None, *, tell: Callable[[StoredMessage], object] | None = None
    ) -> LettersSettled:
        """Settle dead letters without sending them; their records stay until the retention deletes them."""
        return await GroupLetters(group, choice, self._config).drop(tell)

    # -- replicas ------------------------------------------------------------------------------------------------------

    async def replica_groups(self) -> list[ReplicaGroup]:
        """Groups of brokers under a controller, by name."""
        return [group_of(view) for view in await ClusterReplicas(self._cluster).groups()]

    async def replica_group(self, group: str, *, over_seconds: float = 0.0) -> ReplicaGroup:
        """One group. `over_seconds`: look twice, so long apart, to say how old the end of each replica's log is."""
        replicas = ClusterReplicas(self._cluster)
        view = await replicas.group(group)
        if over_seconds <= 0:
            return group_of(view)
        before = end_of_master(view)
        await self._clock.sleep(over_seconds)
        view = await replicas.group(group)
        return group_of(view, max(0, end_of_master(view) - before) / over_seconds)

    async def master_switches(self, group: str) -> list[MasterSwitch]:
        """The masters that a group had, the newest first."""
        switches = await ClusterReplicas(self._cluster).switches(group)
        return [
            MasterSwitch(each.epoch, each.at_ms, each.before, each.master, each.address, each.why) for each in switches
        ]

    async def hand_over(self, group: str, to: int) -> NewMaster:
        """Make another broker that is in step the master. Nothing is lost; sends wait for a moment."""
        return await self._replicas.hand_over(group, to)

    async def check_hand_over(self, group: str, to: int) -> ReplicaGroup:
        """The group. Raises what `hand_over` would; nothing is changed."""
        return await self._replicas.check_hand_over(group, to)

    async def elect_master(self, group: str, to: int | None = None, *, force: bool = False) -> NewMaster:
        """Choose a master for a group that has none, this broker or any. `force`: also one that may lack messages.

        With `force` and `to` also in the place of a master that lives.
        """
        return await self._replicas.elect(group, to, force=force)

    async def check_election(self, group: str, to: int | None = None) -> ReplicaGroup:
        """The group. Raises what `elect_master` would; nothing is changed."""
        return await self._replicas.check_election(group, to)

    async def count_lacking(self, group: str, broker_id: int) -> int | None:
        """Messages that the master can show and this broker cannot; None if one of them does not tell."""
        replicas = ClusterReplicas(self._cluster)
        return await replicas.lacking(await replicas.group(group), broker_id)

    async def move_replica(self, group: str, broker_id: int, address: str) -> None:
        """Expect a broker that does not live at another address, `host:port`, with its log."""
        await self._replicas.move(group, broker_id, address)

    async def check_move(self, group: str, broker_id: int) -> ReplicaGroup:
        """The group. Raises what `move_replica` would; nothing is changed."""
        return await self._replicas.check_move(group, broker_id)

    async def remove_replica(self, group: str, broker_id: int) -> None:
        """Forget a broker that does not live and does not come back. Its id is not given to another one."""
        await self._replicas.remove(group, broker_id)

    async def check_removal(self, group: str, broker_id: int) -> ReplicaGroup:
        """The group. Raises what `remove_replica` would; nothing is changed."""
        return await self._replicas.check_removal(group, broker_id)

    @property
    def _replicas(self) -> ReplicaChanges:
        return ReplicaChanges(ClusterReplicas(self._cluster))

    # -- users ---------------------------------------------------------------------------------------------------------

    async def users(self) -> list[UserInfo]:
        """All users, without passwords. RocketLakeError if no server asks who its clients are."""
        return await ClusterAccounts(self._cluster).users()

    async def policies(self, user: str = "") -> dict[str, Acl]:
        """Policies by user, of all users or of one."""
        return await ClusterAccounts(self._cluster).acls(user)

    async def create_user(
        self, name: str, *, password: str | None = None, is_super: bool = False, quota: QuotaInfo | None = None
    ) -> UserMade:
        """Make a user on every server that knows users. Without a password one is made; it is told this once."""
        password = password if password is not None else new_password()
        info = UserInfo(name, password, "Super" if is_super else "Normal", quota=quota)
        return UserMade(name, password, await ClusterAccounts(self._cluster).put_user(info, is_new=True))

    async def alter_user(
        self,
        name: str,
        *,
        password: str | None = None,
        enabled: bool | None = None,
        is_super: bool | None = None,
        quota: QuotaInfo | None = None,
    ) -> list[str]:
        """Change what is given of a user; returns the servers."""
        kind = None if is_super is None else "Super" if is_super else "Normal"
        status = None if enabled is None else "enable" if enabled else "disable"
        accounts = ClusterAccounts(self._cluster)
        await accounts.user(name)
        return await accounts.put_user(UserInfo(name, password, kind, status, quota), is_new=False)

    async def delete_user(self, name: str) -> list[str]:
        """Delete a user with its policies; returns the servers. Its clients are refused from then on."""
        return await ClusterAccounts(self._cluster).drop_user(name)

    async def allow(
        self, user: str, actions: Collection[str], resource: str, *, sources: Collection[str] = ()
    ) -> PolicyMade:
        """Allow a user "Pub", "Sub" ... on "Topic:orders", "Group:kitchen*", "Cluster:*", or "*": all.

        In place of what was decided for the same resource. `sources`: only from these addresses or networks.
        """
        return await ClusterAccounts(self._cluster).decide(Decision.ALLOW, user, actions, resource, sources)

    async def deny(
        self, user: str, actions: Collection[str], resource: str, *, sources: Collection[str] = ()
    ) -> PolicyMade:
        """Deny a user something; see `allow`."""
        return await ClusterAccounts(self._cluster).decide(Decision.DENY, user, actions, resource, sources)

    async def delete_policies(self, user: str, resource: str | None = None) -> list[str]:
        """Delete what was decided for a resource, as `policies` tells it, or all policies of a user."""
        return await ClusterAccounts(self._cluster).drop_policies(user, resource)

    async def may(self, user: str, action: str, resource: str, *, host: str = "127.0.0.1") -> Verdict:
        """Whether a user may do one thing from an address, and which policy decides."""
        return await ClusterAccounts(self._cluster).verdict(user, action, resource, host)

    async def add_accounts(self, users: Collection[UserInfo], policies: Collection[AclInfo]) -> set[str]:
        """Make users with their policies; returns those that were known already, and stay as they are."""
        return await ClusterAccounts(self._cluster).add(users, policies)
