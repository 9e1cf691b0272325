"""What both ends of the stream go by.

Owns        the numbers, with RocketMQ's defaults.
Must not know   where they come from (broker/config.py).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StreamSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """Settings of a leader and a follower."""

    batch_bytes: int = 32 * 1024
    """haTransferBatchSize: bytes of the log in one frame. A record is split only if it is larger."""
    heartbeat_seconds: float = 5.0
    """haSendHeartbeatInterval: an end that has written nothing for so long says where it is."""
    silence_seconds: float = 20.0
    """haHousekeepingInterval: a connection that has brought nothing for so long is closed."""
    answer_seconds: float = 20.0
    """A slave that was sent something, and does not say anything for so long, has its connection closed."""
    bytes_per_second: int = 0
    """maxHaTransferByteInSecond with haFlowControlEnable, for each slave; 0: as fast as it goes."""
    from_last_file: bool = False
    """syncFromLastFile: an empty slave gets the last file of the log only."""
    connections: int = 64
    """Most connections of slaves. When they are all taken, the host that has the most makes room for another one."""
    record_bytes_max: int = 8 * 1024 * 1024
    """The follower keeps so many bytes of a record that is not whole yet; a larger one cannot be followed."""
    reports_flushed: bool = False
    """The follower reports what is on its disk, not what it has appended."""
