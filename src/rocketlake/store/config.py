"""Every setting of the store.

Owns        names, defaults, units, allowed ranges and the reason of each setting.
Must not know   where settings come from (base/settings/config_file.py) or which part uses them.

Source of names and defaults: Apache's MessageStoreConfig. Generated page: docs/reference/settings.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import setting
from rocketlake.model.delay_levels import DEFAULT_LEVELS

__all__ = ["WITHOUT_EFFECT", "StoreConfig"]

_MIB = 1024 * 1024
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Sizes in bytes, times in milliseconds, ratios in percent, unless the name says otherwise."""

    # -- behaviour: files ----------------------------------------------------------------------------------------------
    commit_log_path: str = setting(
        "", java="storePathCommitLog", why="folder of the commit log; empty = commitlog in the store root"
    )
    commit_log_file_bytes: int = setting(
        1024 * _MIB,
        java="mappedFileSizeCommitLog",
        low=4096,
        high=2**31 - 1,
        why="length of a commit log file; fixed once a store exists",
    )
    consume_queue_file_bytes: int = setting(
        6_000_000,
        java="mappedFileSizeConsumeQueue",
        low=20,
        high=2**31 - 1,
        why="length of a consume queue file, rounded up to entries",
    )
    index_slots: int = setting(
        5_000_000, java="maxHashSlotNum", low=1, high=2**28, why="hash slots of a key index file"
    )
    index_entries: int = setting(20_000_000, java="maxIndexNum", low=2, high=2**30, why="entries of a key index file")
    index_enabled: bool = setting(True, java="messageIndexEnable", why="find messages by key")
    index_safe: bool = setting(False, java="messageIndexSafe", why="recovery also waits for the key index's checkpoint")

    # -- behaviour: what a message may be ------------------------------------------------------------------------------
    body_bytes_max: int = setting(4 * _MIB, java="maxMessageSize", low=10, high=2**30, why="largest body")

    message_delay_level: str = setting(
        DEFAULT_LEVELS,
        java="messageDelayLevel",
        why="how long each delay level waits; gives the tag code of delayed messages",
    )

    # -- behaviour: durability -----------------------------------------------------------------------------------------
    flush_disk_type: str = setting(
        "ASYNC_FLUSH", java="flushDiskType", why="SYNC_FLUSH answers a send after the sync, ASYNC_FLUSH before it"
    )
    sync_flush_timeout_ms: int = setting(
        5000, java="syncFlushTimeout", low=1, why="longest wait of a send for its sync; then FLUSH_DISK_TIMEOUT"
    )
    flush_timed: bool = setting(
        True, java="flushCommitLogTimed", why="async flush by the clock alone; false = a put wakes it, too"
    )
    flush_wakes_on_put: bool = setting(False, java="wakeFlushWhenPutMessage", why="a put wakes the real-time flush")
    check_crc_on_recover: bool = setting(True, java="checkCRCOnRecover", why="verify bodies when a store is recovered")
    read_uncommitted: bool = setting(
        False, java="readUnCommitted", why="with SYNC_FLUSH, let consumers read what is not synced yet"
    )

    # -- behaviour: retention ------------------------------------------------------------------------------------------
    file_reserved_hours: int = setting(72, java="fileReservedTime", low=0, why="age at which a commit log file expires")
    delete_when: str = setting("04", java="deleteWhen", why="hours of the day at which expired files go; joined by ;")
    disk_used_max_percent: int = setting(
        75, java="diskMaxUsedSpaceRatio", low=10, high=95, clamped=True, why="above it expired files go at any hour"
    )
    disk_clean_forcibly_percent: int = setting(
        85, java="diskSpaceCleanForciblyRatio", low=30, high=99, why="above it files go whatever their age"
    )
    disk_warning_percent: int = setting(
        90, java="diskSpaceWarningLevelRatio", low=35, high=99, why="above it puts are refused until space is free"
    )
    clean_forcibly: bool = setting(
        True, java="cleanFileForciblyEnable", why="files may go before their age when the disk is full"
    )

    # -- behaviour: reading --------------------------------------------------------------------------------------------
    transfer_bytes_max_memory: int = setting(
        256 * 1024, java="maxTransferBytesOnMessageInMemory", low=1, why="bytes of one pull, recent messages"
    )
    transfer_count_max_memory: int = setting(
        32, java="maxTransferCountOnMessageInMemory", low=1, why="messages of one pull, recent messages"
    )
    transfer_bytes_max_disk: int = setting(
        64 * 1024, java="maxTransferBytesOnMessageInDisk", low=1, why="bytes of one pull, old messages"
    )
    transfer_count_max_disk: int = setting(
        8, java="maxTransferCountOnMessageInDisk", low=1, why="messages of one pull, old messages"
    )
    memory_max_percent: int = setting(
        40, java="accessMessageInMemoryMaxRatio", low=1, high=100, why="share of memory counted as page cache"
    )
    filter_bytes_max: int = setting(
        16_000, java="maxFilterMessageSize", low=20, why="consume queue bytes scanned by one pull"
    )
    query_count_max: int = setting(64, java="maxMsgsNumBatch", low=1, why="hits of one query by key")

    # -- speed: commit log ---------------------------------------------------------------------------------------------
    flush_interval_ms: int = setting(500, java="flushIntervalCommitLog", low=1, why="pause between async flushes")
    flush_least_pages: int = setting(
        4, java="flushCommitLogLeastPages", low=0, why="4 KiB pages that make a flush worth it"
    )
    flush_thorough_interval_ms: int = setting(
        10_000, java="flushCommitLogThoroughInterval", low=0, why="flush everything at least this often"
    )
    write_pool_enabled: bool = setting(
        False,
        java="transientStorePoolEnable",
        why="append to buffers first, commit them to the file by the interval; kill -9 loses what was acknowledged"
        " since; no effect with SYNC_FLUSH",
    )
    write_pool_buffers: int = setting(
        5, java="transientStorePoolSize", low=1, why="write buffers, each one commit log file long"
    )
    commit_interval_ms: int = setting(
        200, java="commitIntervalCommitLog", low=1, why="pause between commits of the write pool"
    )
    commit_least_pages: int = setting(
        4, java="commitCommitLogLeastPages", low=0, why="pages that make a commit worth it"
    )
    commit_thorough_interval_ms: int = setting(
        200, java="commitCommitLogThoroughInterval", low=0, why="commit everything at least this often"
    )
    commit_wakes_on_put: bool = setting(True, java="wakeCommitWhenPutMessage", why="a put wakes the commit")

    # -- speed: consume queues, checkpoint, clean-up -------------------------------------------------------------------
    queue_flush_interval_ms: int = setting(
        1000, java="flushIntervalConsumeQueue", low=1, why="pause between consume queue flushes"
    )
    queue_flush_least_pages: int = setting(
        2, java="flushConsumeQueueLeastPages", low=0, why="pages that make a flush worth it"
    )
    queue_flush_thorough_interval_ms: int = setting(
        60_000, java="flushConsumeQueueThoroughInterval", low=0, why="flush all consume queues at least this often"
    )
    clean_interval_ms: int = setting(
        10_000, java="cleanResourceInterval", low=1, why="pause between looks at age and disk"
    )
    delete_batch_max: int = setting(10, java="deleteFileBatchMax", low=1, why="commit log files deleted in one round")

    stop_flush_ms: int = setting(
        30_000, low=1, why="how long a stop writes consume queues; what is left the next start builds from the log"
    )

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raises UsageError for values that do not go together."""
        if self.flush_disk_type not in ("SYNC_FLUSH", "ASYNC_FLUSH"):
            raise UsageError(
                f"flushDiskType is {self.flush_disk_type!r}", hint="flushDiskType = SYNC_FLUSH or ASYNC_FLUSH"
            )
        if self.disk_clean_forcibly_percent > self.disk_warning_percent:
            raise UsageError(
                f"diskSpaceCleanForciblyRatio {self.disk_clean_forcibly_percent} is above"
                f" diskSpaceWarningLevelRatio {self.disk_warning_percent}",
                hint="set it to diskSpaceWarningLevelRatio or below: files go before puts are refused",
            )
        for hour in self.delete_when.split(";"):
            if not (hour.strip().isdigit() and int(hour) < 24):
                raise UsageError(f"deleteWhen has the hour {hour!r}", hint="write hours 00 to 23, joined by ;")

    @property
    def sync_flush(self) -> bool:
        """True when a send is answered only after its sync."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def uses_write_pool(self) -> bool:
        """True when appends go to the write pool: as with Apache never with SYNC_FLUSH, which waits for the file."""
        return self.write_pool_enabled and not self.sync_flush

    @property
    def delete_hours(self) -> frozenset[int]:
        """Hours of the day at which expired files are deleted."""
        return frozenset(int(hour) for hour in self.delete_when.split(";"))

    @property
    def file_reserved_ms(self) -> int:
        """Age at which a commit log file expires."""
        return self.file_reserved_hours * _HOUR_MS


WITHOUT_EFFECT = frozenset(
    (
        "useReentrantLockWhenPutMessage",
        "useABSLock",
        "spinLockCollisionRetreatOptimalDegree",
        "topicQueueLockNum",
        "debugLockEnable",
        "writeWithoutMmap",
        "putConsumeQueueDataByFileChannel",
        "warmMapedFileEnable",
        "flushLeastPagesWhenWarmMapedFile",
        "osPageCacheBusyTimeOutMills",
        "putMessageTimeout",
        "putMsgIndexHightWater",
        "maxRecoveryCommitlogFiles",
        "destroyMapedFileIntervalForcibly",
        "redeleteHangedFileInterval",
        "deleteCommitLogFilesInterval",
        "deleteConsumeQueueFilesInterval",
        "enableRunningFlagsInFlush",
        "autoMessageVersionOnTopicLen",
        "maxTopicLength",
        "diskFallRecorded",
        "dataReadAheadEnable",
        "mappedFileSwapEnable",
        "commitLogForceSwapMapInterval",
        "commitLogSwapMapInterval",
        "commitLogSwapMapReserveFileNum",
        "logicQueueForceSwapMapInterval",
        "logicQueueSwapMapInterval",
        "cleanSwapedMapInterval",
        "logicQueueSwapMapReserveFileNum",
        "dispatchCqThreads",
        "dispatchCqCacheNum",
        "enableAsyncReput",
        "dispatchFromSenderThread",
        "maxBatchDeleteFilesNum",
        "enableCleanExpiredOffset",
        "maxAsyncPutMessageRequests",
        "pullBatchMaxMessageCount",
        "maxSlaveResendLength",
        "enableBuildConsumeQueueConcurrently",
        "batchDispatchRequestThreadPoolNums",
        "recheckReputOffsetFromCq",
        "enableLogConsumeQueueRepeatedlyBuildWhenRecover",
    )
)
"""Keys of Apache's MessageStoreConfig that are accepted and change nothing here: locks and threads we do not have, keys
that nothing reads in Apache either, and choices that are always made (a failed flush always stops the writing)."""
