"""Every setting of the store.

Owns        names, defaults, units, allowed ranges and the reason of each setting.
Must not know   where settings come from (base/config_file.py) or who uses them.

Source of names and defaults: Apache's MessageStoreConfig. Generated page: docs/reference/settings.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rocketlake.base.errors import UsageError

__all__ = ["WITHOUT_EFFECT", "StoreConfig"]

_MIB = 1024 * 1024
_HOUR_MS = 3_600_000


def _setting(default: Any, java: str, why: str, low: float | None = None, high: float | None = None) -> Any:
    return field(default=default, metadata={"java": java, "why": why, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Sizes in bytes, times in milliseconds, ratios in percent, unless the name says otherwise."""

    # -- behaviour: files ----------------------------------------------------------------------------------------------
    commit_log_path: str = _setting(
        "", "storePathCommitLog", "folder of the commit log; empty = commitlog in the store root")
    commit_log_file_bytes: int = _setting(
        1024 * _MIB, "mappedFileSizeCommitLog", "length of a commit log file; fixed once a store exists", 4096, 2**31 - 1)
    consume_queue_file_bytes: int = _setting(
        6_000_000, "mappedFileSizeConsumeQueue", "length of a consume queue file, rounded up to entries", 20, 2**31 - 1)
    index_slots: int = _setting(5_000_000, "maxHashSlotNum", "hash slots of a key index file", 1, 2**28)
    index_entries: int = _setting(20_000_000, "maxIndexNum", "entries of a key index file", 2, 2**30)
    index_enabled: bool = _setting(True, "messageIndexEnable", "find messages by key")
    index_safe: bool = _setting(False, "messageIndexSafe", "recovery also waits for the key index's checkpoint")

    # -- behaviour: what a message may be ------------------------------------------------------------------------------
    body_bytes_max: int = _setting(4 * _MIB, "maxMessageSize", "largest body", 10, 2**30)

    # -- behaviour: durability -----------------------------------------------------------------------------------------
    flush_disk_type: str = _setting(
        "ASYNC_FLUSH", "flushDiskType", "SYNC_FLUSH answers a send after the sync, ASYNC_FLUSH before it")
    sync_flush_timeout_ms: int = _setting(
        5000, "syncFlushTimeout", "longest wait of a send for its sync; then FLUSH_DISK_TIMEOUT", 1)
    flush_timed: bool = _setting(
        True, "flushCommitLogTimed", "async flush by the clock alone; false = also when a put wakes it")
    flush_wakes_on_put: bool = _setting(False, "wakeFlushWhenPutMessage", "a put wakes the real-time flush")
    check_crc_on_recover: bool = _setting(True, "checkCRCOnRecover", "verify bodies when a store is recovered")
    read_uncommitted: bool = _setting(
        False, "readUnCommitted", "with SYNC_FLUSH, let consumers read what is not synced yet")

    # -- behaviour: retention ------------------------------------------------------------------------------------------
    file_reserved_hours: int = _setting(72, "fileReservedTime", "age at which a commit log file expires", 0)
    delete_when: str = _setting("04", "deleteWhen", "hours of the day at which expired files go; joined by ;")
    disk_used_max_percent: int = _setting(
        75, "diskMaxUsedSpaceRatio", "above it expired files go at any hour", 10, 95)
    disk_clean_forcibly_percent: int = _setting(
        85, "diskSpaceCleanForciblyRatio", "above it files go whatever their age", 30, 99)
    disk_warning_percent: int = _setting(
        90, "diskSpaceWarningLevelRatio", "above it puts are refused until space is free", 35, 99)
    clean_forcibly: bool = _setting(True, "cleanFileForciblyEnable", "files may go before their age when the disk is full")

    # -- behaviour: reading --------------------------------------------------------------------------------------------
    transfer_bytes_max_memory: int = _setting(
        256 * 1024, "maxTransferBytesOnMessageInMemory", "bytes of one pull, recent messages", 1)
    transfer_count_max_memory: int = _setting(
        32, "maxTransferCountOnMessageInMemory", "messages of one pull, recent messages", 1)
    transfer_bytes_max_disk: int = _setting(
        64 * 1024, "maxTransferBytesOnMessageInDisk", "bytes of one pull, old messages", 1)
    transfer_count_max_disk: int = _setting(8, "maxTransferCountOnMessageInDisk", "messages of one pull, old messages", 1)
    memory_max_percent: int = _setting(
        40, "accessMessageInMemoryMaxRatio", "share of memory counted as page cache", 1, 100)
    filter_bytes_max: int = _setting(16_000, "maxFilterMessageSize", "consume queue bytes scanned by one pull", 20)
    query_count_max: int = _setting(64, "maxMsgsNumBatch", "hits of one query by key", 1)

    # -- speed: commit log ---------------------------------------------------------------------------------------------
    flush_interval_ms: int = _setting(500, "flushIntervalCommitLog", "pause between async flushes", 1)
    flush_least_pages: int = _setting(4, "flushCommitLogLeastPages", "4 KiB pages that make a flush worth it", 0)
    flush_thorough_interval_ms: int = _setting(
        10_000, "flushCommitLogThoroughInterval", "flush everything at least this often", 0)
    write_pool_enabled: bool = _setting(
        False, "transientStorePoolEnable", "append to buffers first, commit them to the file by the interval")
    write_pool_buffers: int = _setting(5, "transientStorePoolSize", "write buffers, each one commit log file long", 1)
    commit_interval_ms: int = _setting(200, "commitIntervalCommitLog", "pause between commits of the write pool", 1)
    commit_least_pages: int = _setting(4, "commitCommitLogLeastPages", "pages that make a commit worth it", 0)
    commit_thorough_interval_ms: int = _setting(
        200, "commitCommitLogThoroughInterval", "commit everything at least this often", 0)
    commit_wakes_on_put: bool = _setting(True, "wakeCommitWhenPutMessage", "a put wakes the commit")

    # -- speed: consume queues, checkpoint, clean-up -------------------------------------------------------------------
    queue_flush_interval_ms: int = _setting(1000, "flushIntervalConsumeQueue", "pause between consume queue flushes", 1)
    queue_flush_least_pages: int = _setting(2, "flushConsumeQueueLeastPages", "pages that make a flush worth it", 0)
    queue_flush_thorough_interval_ms: int = _setting(
        60_000, "flushConsumeQueueThoroughInterval", "flush all consume queues at least this often", 0)
    clean_interval_ms: int = _setting(10_000, "cleanResourceInterval", "pause between looks at age and disk", 1)
    delete_pause_ms: int = _setting(100, "deleteCommitLogFilesInterval", "pause between two deleted files", 0)
    delete_batch_max: int = _setting(10, "deleteFileBatchMax", "commit log files deleted in one round", 1)

    def __post_init__(self) -> None:
        """Raises UsageError for values that do not go together."""
        if self.flush_disk_type not in ("SYNC_FLUSH", "ASYNC_FLUSH"):
            raise UsageError(
                f"flushDiskType is {self.flush_disk_type!r}", hint="flushDiskType = SYNC_FLUSH or ASYNC_FLUSH")
        if self.disk_clean_forcibly_percent > self.disk_warning_percent:
            raise UsageError(
                f"diskSpaceCleanForciblyRatio {self.disk_clean_forcibly_percent} is above"
                f" diskSpaceWarningLevelRatio {self.disk_warning_percent}",
                hint="files must start to go before puts are refused")
        for hour in self.delete_when.split(";"):
            if not (hour.strip().isdigit() and int(hour) < 24):
                raise UsageError(f"deleteWhen has the hour {hour!r}", hint="hours 00 to 23, joined by ;")

    @property
    def sync_flush(self) -> bool:
        """True when a send is answered only after its sync."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def delete_hours(self) -> frozenset[int]:
        """Hours of the day at which expired files are deleted."""
        return frozenset(int(hour) for hour in self.delete_when.split(";"))

    @property
    def file_reserved_ms(self) -> int:
        """Age at which a commit log file expires."""
        return self.file_reserved_hours * _HOUR_MS


WITHOUT_EFFECT = frozenset(
    """
    useReentrantLockWhenPutMessage useABSLock spinLockCollisionRetreatOptimalDegree topicQueueLockNum debugLockEnable
    writeWithoutMmap putConsumeQueueDataByFileChannel warmMapedFileEnable flushLeastPagesWhenWarmMapedFile
    osPageCacheBusyTimeOutMills putMessageTimeout putMsgIndexHightWater maxRecoveryCommitlogFiles
    destroyMapedFileIntervalForcibly redeleteHangedFileInterval deleteConsumeQueueFilesInterval
    enableRunningFlagsInFlush autoMessageVersionOnTopicLen maxTopicLength diskFallRecorded dataReadAheadEnable
    mappedFileSwapEnable commitLogForceSwapMapInterval commitLogSwapMapInterval commitLogSwapMapReserveFileNum
    logicQueueForceSwapMapInterval logicQueueSwapMapInterval cleanSwapedMapInterval logicQueueSwapMapReserveFileNum
    dispatchCqThreads dispatchCqCacheNum enableAsyncReput dispatchFromSenderThread maxBatchDeleteFilesNum
    enableCleanExpiredOffset maxAsyncPutMessageRequests pullBatchMaxMessageCount maxSlaveResendLength
    enableBuildConsumeQueueConcurrently batchDispatchRequestThreadPoolNums recheckReputOffsetFromCq
    enableLogConsumeQueueRepeatedlyBuildWhenRecover
    """.split()
)
"""Keys of Apache's MessageStoreConfig that are accepted and change nothing here: locks and threads we do not have, keys
that nothing reads in Apache either, and choices that are always made (a failed flush always makes the store read-only)."""
