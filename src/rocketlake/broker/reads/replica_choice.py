"""Which replica a consumer shall pull from next, and what a slave answers in place of its master.

Owns        RocketMQ's rules of suggestWhichBrokerId, the answers that a slave must not give.
Must not know   requests, how records are found, how a slave follows its master.

On a master with `slaveReadEnable` a consumer that is far behind (40 % of the machine's memory) is sent to the slave
that its group names, so that its old messages do not push new ones out of memory. A slave keeps it until it is within
30 %.

A slave may lack messages that its master has. So it never says that an offset is wrong or that a queue is at its end
while its master is there: the consumer is sent to the master, as by Apache's slave. When the master is gone, its pull
waits on the slave. A slave whose disk lost records serves nothing: queues lead past them, and other replicas have
them. A consumer that has not heard of a new master yet comes back at once, so it is sent away slowly.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.broker.cluster.role import MASTER_ID, Role
from rocketlake.broker.config import LiveConfig
from rocketlake.codec.record_layout import PHYSICAL_OFFSET_AT
from rocketlake.model.group import GroupConfig
from rocketlake.model.positions import QueueOffset
from rocketlake.protocol.command import Buffer
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["ReplicaChoice"]

_SLAVE_PERCENT_LESS = 10


class ReplicaChoice:
    """The choice for the pulls of one broker."""

    def __init__(
        self, config: LiveConfig, store: MessageStore, role: Role, master_is_there: Callable[[], bool]
    ) -> None:
        """`master_is_there`: asked on a slave: has its master answered it lately?"""
        self._config = config
        self._store = store
        self._role = role
        self._master_is_there = master_is_there

    @property
    def is_plain(self) -> bool:
        """True if every consumer stays with this broker, whatever it finds."""
        return self._role.is_master and not self._config.now.slave_read_enabled

    @property
    def serves(self) -> bool:
        """False on a slave whose master serves all pulls, and on one that would pass over records it has lost."""
        if self._role.is_master:
            return True
        return self._config.now.slave_read_enabled and self._store.damaged_from is None

    @property
    def is_slave(self) -> bool:
        """True if there is, or was, a master that may know more."""
        return not self._role.is_master

    def place(
        self, code: ResponseCode, result: GetResult, asked_offset: int, group: GroupConfig
    ) -> tuple[ResponseCode, int]:
        """(response code, broker id of the next pull) for a pull that has read; may change where the pull goes on."""
        if self.is_plain:
            return code, MASTER_ID
        if result.status is GetStatus.FOUND and self.is_far_behind(result.slices[0]):
            return code, group.which_broker_when_consume_slowly
        if self._role.is_master or code is ResponseCode.SUCCESS:
            return code, group.broker_id
        if code is ResponseCode.PULL_OFFSET_MOVED and not self._config.now.offset_check_in_slave:
            result.next_offset = QueueOffset(asked_offset)
            code = ResponseCode.PULL_NOT_FOUND
        return (ResponseCode.PULL_RETRY_IMMEDIATELY if self._master_is_there() else code), MASTER_ID

    def is_far_behind(self, records: Buffer) -> bool:
        """True if the record at the start of these bytes counts as too old to be read from a master."""
        percent = self._store.config.memory_max_percent
        less = 0 if self._role.is_master else _SLAVE_PERCENT_LESS
        recent_bytes = self._store.fetch.limits[0] * max(percent - less, 0) // percent
        place = int.from_bytes(records[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8], "big")
        return self._store.max_physical_offset - place > recent_bytes
