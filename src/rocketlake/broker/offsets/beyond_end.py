"""Lowers offsets of groups that lie behind the end of their queue: when the broker starts, and when its log was cut.

Owns        the search for offsets that are too high, and their new values.
Must not know   how offsets are saved, why the log is shorter.

After a power cut with ASYNC_FLUSH the saved offsets can lie behind the end of the log: the last messages were not on
disk. A replica's log is cut where its new master has other records. New messages get the same offsets, and a group that
goes on at its saved offset would never see them.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.logs import get_logger
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.model.lite import LIGHT_PREFIX
from rocketlake.model.names import is_system_topic, keeps_first_offsets

__all__ = ["lower_to_ends"]

_log = get_logger(__name__)


def lower_to_ends(offsets: OffsetTable, end_of: Callable[[str, int], int]) -> int:
    """Have every group go on inside its queues. Returns how many offsets were lowered.

    `end_of`: (topic, queue id) -> end of the queue.
    """
    too_high = [
        (group, topic, queue_id, offset, end)
        for group, topic, queues in offsets.all()
        if not topic.startswith(LIGHT_PREFIX)  # broker/lite/progress.py sees to these
        for queue_id, offset in queues.items()
        if offset > (end := end_of(topic, queue_id) + (1 if keeps_first_offsets(group) else 0))
    ]
    by_group: dict[str, list[str]] = {}
    for group, topic, queue_id, offset, end in too_high:
        if is_system_topic(topic) or keeps_first_offsets(group):
            offsets.commit(group, topic, queue_id, end)  # no pull of this group would ever take a reset
        else:
            # A reset, not a commit: a consumer that lived through our end still holds the old offset.
            offsets.assign_reset(group, topic, queue_id, end)
        by_group.setdefault(group, []).append(f"{topic}/{queue_id} {offset} -> {end}")
    for group, changes in by_group.items():
        _log.warning(
            "group %s: %d offsets lie behind the end of their queue (messages were lost, as in a power cut with"
            " ASYNC_FLUSH, or taken back for another master's); the group goes on at the end: %s%s",
            group,
            len(changes),
            ", ".join(changes[:5]),
            ", ..." if len(changes) > 5 else "",
        )
    return len(too_high)
