"""What does not come along when this broker takes over from Apache's.

Owns        the list of such things, how a master is asked for them, the refusal because of messages among them.
Must not know   when a takeover looks, output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocketlake.admin.migration.peer import Peer, number
from rocketlake.base.errors import UsageError
from rocketlake.broker.apache_keys import NOT_SUPPORTED
from rocketlake.protocol.bodies.stats import TopicStats
from rocketlake.protocol.headers.admin_topic import TopicStatsHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["LeftBehind", "check_left_behind", "left_behind"]

_NAMED_ELSEWHERE = frozenset({"enableDLegerCommitLog", "enableControllerMode"})
_REVIVE = ("rmq_sys_REVIVE_LOG_", "CID_RMQ_SYS_REVIVE_GROUP")
"""Topic (with the cluster's name behind it) and group of the pops that were not acknowledged yet."""
_OTHER_QUEUES = ("+queue.type", "queue.type", "cleanup.policy", "+cleanup.policy")


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """One thing that a slave does not copy."""

    what: str
    effect: str
    holds_messages: bool = False
    """True if messages wait in it now that nobody gets from the new master."""


async def left_behind(master: Peer, new: Peer | None = None) -> list[LeftBehind]:
    """What this Apache master has that would not come along. Raises LinkError, RemoteError, ProtocolError.

    `new`: the slave that is to take over; None: there is none yet, its log will have all of the master's.
    """
    found = [
        LeftBehind(f"{key}={master.settings[key]}", "this broker does not have that feature")
        for key, harmless in sorted(NOT_SUPPORTED.items())
        if key in master.settings and key not in _NAMED_ELSEWHERE and master.settings[key].strip() not in harmless
    ]
    found += [] if new is None else await _timers(master, new)
    found += await _pops(master)
    found += await _topics(master)
    modes = (await master.table(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, may_fail=True)).get("messageRequestModeMap")
    if modes:
        found.append(LeftBehind(f"{len(modes)} settings of POP for push consumers", "these groups pull"))
    return found


def check_left_behind(lost: Sequence[LeftBehind], old: Peer) -> None:
    """UsageError if messages would be left in the old master."""
    waiting = ", ".join(each.what for each in lost if each.holds_messages)
    if waiting:
        until = "have it deliver them (as the master again)" if old.is_slave else "wait until they are delivered"
        raise UsageError(
            f"messages wait in the old master that the new one does not deliver: {waiting}",
            where=f"broker {old.address}",
            hint=f"{until}, or give --leave-behind: they stay in the log, for the way back",
        )


async def _timers(master: Peer, new: Peer) -> list[LeftBehind]:
    """Messages of the timer wheel come along with the log: those that it lacks do not, nor any without a wheel."""
    metrics = (await master.table(RequestCode.GET_TIMER_METRICS, may_fail=True)).get("timingCount", {})
    waiting = sum(max(0, int(each.get("count", 0))) for each in metrics.values() if isinstance(each, dict))
    waiting += max(0, int((await master.figures()).get("timerOffsetBehind", "0")))
    if not waiting:
        return []
    begins = [number(await peer.figures(), "commitLogMinOffset", peer.address) for peer in (master, new)]
    if new.settings.get("timerWheelEnable") == "false":
        effect = "timerWheelEnable=false is set at the new one"
    elif begins[1] > begins[0]:
        effect = f"some may lie before {begins[1]}, where the log of the new one begins; the old one's at {begins[0]}"
    else:
        return []
    return [LeftBehind(f"{waiting} timer messages", effect, holds_messages=True)]


async def _pops(master: Peer) -> list[LeftBehind]:
    """Messages that consumers popped are invisible, and are given out again by Apache's brokers only."""
    topic = _REVIVE[0] + master.settings.get("brokerClusterName", "")
    answer = await master.ask(
        RequestCode.GET_TOPIC_STATS_INFO,
        TopicStatsHeader(topic=topic),
        accept=(ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SYSTEM_ERROR),
    )
    if answer.code != ResponseCode.SUCCESS:
        return []
    ends = {queue.queue_id: each.max_offset for queue, each in TopicStats.decode(answer.body_bytes).offsets.items()}
    if not any(ends.values()):
        return []
    offsets = (await master.table(RequestCode.GET_ALL_CONSUMER_OFFSET)).get("offsetTable", {})
    revived = {int(queue_id): int(offset) for queue_id, offset in offsets.get(f"{topic}@{_REVIVE[1]}", {}).items()}
    unread = sum(max(0, end - revived.get(queue_id, 0)) for queue_id, end in ends.items())
    effect = "consumers that pop (gRPC, proxy) find no service"
    if unread:
        effect += f"; of their last {unread} pops and acknowledgements, messages may not be given out again"
    return [LeftBehind("POP", effect, holds_messages=bool(unread))]


async def _topics(master: Peer) -> list[LeftBehind]:
    topics = (await master.table(RequestCode.GET_ALL_TOPIC_CONFIG)).get("topicConfigTable", {})
    others = sorted(
        name
        for name, topic in topics.items()
        if any(
            (topic.get("attributes") or {}).get(key, "SimpleCQ") not in ("SimpleCQ", "DELETE") for key in _OTHER_QUEUES
        )
    )
    if not others:
        return []
    names = ", ".join(others[:5]) + (" ..." if len(others) > 5 else "")
    return [LeftBehind(f"kinds of queues of {names}", "batch queues and compaction are ordinary queues here")]
