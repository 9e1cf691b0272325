"""What the admin library answers: topics, groups and brokers as they stand now.

Owns        these values.
Must not know   how they are asked for, how they are shown.

Times are epoch ms, 0 when there is none. Offsets count the messages of one queue from its first one on, which is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rocketlake.auth.policy import Entry
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.topic import TopicConfig

__all__ = [
    "BrokerState",
    "ConsumeMode",
    "ConsumeRate",
    "DeadLetterGroup",
    "GroupState",
    "GroupSummary",
    "LettersSettled",
    "MasterSwitch",
    "Member",
    "NewMaster",
    "PolicyMade",
    "QueueLag",
    "QueueState",
    "ReplicaGroup",
    "ReplicaState",
    "TopicMade",
    "TopicState",
    "UserMade",
]


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue of a topic: the first offset that is kept, the next one to be given.

    `first_ms`, `last_ms`: when the first message that it holds was stored, and the last one.
    """

    broker: str
    queue_id: int
    first_offset: int
    next_offset: int
    last_ms: int
    first_ms: int = 0

    @property
    def messages(self) -> int:
        """How many messages it holds."""
        return self.next_offset - self.first_offset


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic: its queues, its settings by broker name, the brokers of the cluster that do not have it."""

    name: str
    queues: list[QueueState]
    settings: Mapping[str, TopicConfig]
    missing_on: list[str]

    @property
    def messages(self) -> int:
        """How many messages it holds."""
        return sum(queue.messages for queue in self.queues)


@dataclass(frozen=True, slots=True)
class TopicMade:
    """The brokers on which a topic was made, and the settings on those that had it already."""

    made: list[str]
    there: Mapping[str, TopicConfig]


@dataclass(frozen=True, slots=True)
class ConsumeRate:
    """How a member consumes a topic: messages a second that went well and that failed, ms for each."""

    done_per_second: float
    failed_per_second: float
    took_ms: float


@dataclass(frozen=True, slots=True)
class Member:
    """A connected consumer. Its topics -> expressions; None when the client does not tell them.

    `standing`: its ordered queues that stand still, and why, in words. `held`: its queues, and how many messages of
    each it has in hand; `begun`: the first of these. `settings`: as the client tells them. `rates`: by topic, if the
    client counts them.
    """

    client_id: str
    address: str
    subscriptions: Mapping[str, str] | None
    standing: str = ""
    language: str = ""
    version: str = ""
    held: Mapping[MessageQueue, int] = field(default_factory=dict)
    begun: Mapping[MessageQueue, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    rates: Mapping[str, ConsumeRate] = field(default_factory=dict)

    @property
    def in_hand(self) -> int:
        """Messages that it has read and not yet confirmed."""
        return sum(self.held.values())


@dataclass(frozen=True, slots=True)
class ConsumeMode:
    """How a group reads a topic, as one broker says it: "pull" or "pop".

    `shared_by`: by how many more members each queue is popped; 0: by all.
    """

    topic: str
    broker: str
    mode: str
    shared_by: int


@dataclass(frozen=True, slots=True)
class QueueLag:
    """A group in one queue: the queue's next offset, the group's, the store time of the last message it consumed.

    `lag_seconds`: how long the first message that it has not consumed lies there; None if that is not known. `member`:
    the client that holds the queue, "" if none says so.

    Of a group that pops: the offset is what it pops next, `in_flight` the messages that were popped and are not
    acknowledged, `overdue` those of them whose time is over: they come again in a moment.
    """

    topic: str
    broker: str
    queue_id: int
    next_offset: int
    consumed: int
    last_consumed_ms: int
    lag_seconds: float | None = None
    member: str = ""
    in_flight: int = 0
    overdue: int = 0

    @property
    def lag(self) -> int:
        """Messages that the group has not consumed."""
        return self.next_offset - self.consumed + self.in_flight + self.overdue


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A consumer group: members connected now, messages not yet consumed, the topics it reads (no retry topics).

    `taken_per_second`: messages that it takes, over the last minute.
    """

    name: str
    members: int
    lag: int
    topics: list[str]
    taken_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupState:
    """A consumer group: its members that are connected now, its lag in each queue that it ever read.

    `taken_per_second`: messages that it takes, by topic, over the last minute. `attributes`: by broker, of those that
    have any and let you list groups.
    """

    name: str
    members: list[Member]
    queues: list[QueueLag]
    taken_per_second: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def lag_seconds(self) -> float:
        """How long the message lies there that waits longest; 0 if none waits."""
        return max((queue.lag_seconds or 0.0 for queue in self.queues), default=0.0)

    @property
    def lag(self) -> int:
        """Messages that the group has not consumed."""
        return sum(queue.lag for queue in self.queues)


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One broker: where it serves, its version, its figures by RocketMQ's names (GET_BROKER_RUNTIME_INFO).

    `trouble`: why it did not answer; its figures are empty then. `broker_id` 0 is a master.
    """

    cluster: str
    name: str
    broker_id: int
    address: str
    figures: Mapping[str, str]
    trouble: str = ""

    @property
    def version(self) -> str:
        """As V5_5_0; "" if it did not answer."""
        return self.figures.get("brokerVersionDesc", "")

    @property
    def in_per_second(self) -> float | None:
        """Messages stored a second, over the last ten seconds; None if it did not answer."""
        return self._rate("putTps")

    @property
    def out_per_second(self) -> float | None:
        """Messages read a second, over the last ten seconds; None if it did not answer."""
        return self._rate("getTransferredTps")

    @property
    def disk_used_ratio(self) -> float | None:
        """Share of the log's disk that is in use, 0 to 1; None if it did not answer."""
        return self._number(self.figures.get("commitLogDiskRatio", ""))

    @property
    def started_ms(self) -> int:
        """When it was started; 0 if it did not answer."""
        return int(self._number(self.figures.get("bootTimestamp", "")) or 0)

    def _rate(self, name: str) -> float | None:
        """The first of three rates: over 10 s, 1 and 10 minutes."""
        return self._number(self.figures.get(name, "").partition(" ")[0])

    def _number(self, text: str) -> float | None:
        try:
            return float(text)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class UserMade:
    """A user and its password, which no server tells again; the servers that know it."""

    name: str
    password: str
    servers: list[str]


@dataclass(frozen=True, slots=True)
class PolicyMade:
    """What a user may do or may not do from now on, and the servers that know it."""

    entry: Entry
    servers: list[str]
    replaced: Entry | None = None
    """What was decided for the same resource before, another one, and counts no more."""


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """A group with dead letters: how many are neither sent again nor dropped, how many are kept, when the last came."""

    group: str
    open: int
    kept: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class LettersSettled:
    """How many dead letters were sent again or dropped, and how many stay open, from the first on that was left."""

    done: int
    open: int


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A broker of a group under a controller. `epoch`, `log_end`: of its log (bytes), -1 if they are not known.

    `confirmed_end`: up to there all is acknowledged, as it knows. `lag_bytes`: what it lacks of the master's log, and
    `lag_seconds` in which the master wrote so much; None of the master, and if it is not known. `state`: in step, or
    why it is not, in words. `holds_all`: it has every acknowledged message.
    """

    broker_id: int
    address: str
    is_master: bool
    is_alive: bool
    in_step: bool
    holds_all: bool
    epoch: int
    log_end: int
    confirmed_end: int
    lag_bytes: int | None
    lag_seconds: float | None
    state: str


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """A group of brokers as a controller has it recorded. `needed`: so many must have a message that is acknowledged.

    `sends_refused`, `no_failover`: why, in words; "" if sends are taken, if another broker would follow the master.
    """

    name: str
    cluster: str
    master: int | None
    master_epoch: int
    in_step: list[int]
    set_epoch: int
    may_be_elected: list[int]
    needed: int
    sends_refused: str
    no_failover: str
    members: list[ReplicaState]

    def member(self, broker_id: int | None) -> ReplicaState | None:
        """The member with this id."""
        return next((each for each in self.members if each.broker_id == broker_id), None)


@dataclass(frozen=True, slots=True)
class MasterSwitch:
    """A change of the master: to `master`, from `before` (None: there was none), and why."""

    epoch: int
    at_ms: int
    before: int | None
    master: int | None
    address: str
    why: str


@dataclass(frozen=True, slots=True)
class NewMaster:
    """The master of a group after an election."""

    group: str
    broker_id: int
    address: str
    epoch: int
