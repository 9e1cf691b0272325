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
    """Settings of one store. Sizes are bytes, times milliseconds, ratios percent, unless the name says otherwise."""

    # -- behaviour: files ----------------------------------------------------------------------------------------------
    commit_log_path: str = setting(
        "", java="storePathCommitLog", why="folder of the commit log; empty: commitlog in storePathRootDir"
    )
    commit_log_file_bytes: int = setting(
        1024 * _MIB,
        java="mappedFileSizeCommitLog",
        low=4096,
        high=2**31 - 1,
        why="length of a commit log file; it cannot change once a store exists",
    )
    consume_queue_file_bytes: int = setting(
        6_000_000,
        java="mappedFileSizeConsumeQueue",
        low=20,
        high=2**31 - 1,
        why="length of a consume queue file, rounded up to whole entries of 20 bytes",
    )
    index_slots: int = setting(
        5_000_000, java="maxHashSlotNum", low=1, high=2**28, why="hash slots of a key index file"
    )
    index_entries: int = setting(20_000_000, java="maxIndexNum", low=2, high=2**30, why="entries of a key index file")
    index_enabled: bool = setting(
        True, java="messageIndexEnable", why="keep the key index, by which messages are found by key"
    )
    index_safe: bool = setting(
        False, java="messageIndexSafe", why="a start walks the log from where the key index is safe, too"
    )

    # -- behaviour: what a message may be ------------------------------------------------------------------------------
    body_bytes_max: int = setting(
        4 * _MIB, java="maxMessageSize", low=10, high=2**30, why="largest body of a message, and of a batch"
    )

    message_delay_level: str = setting(
        DEFAULT_LEVELS,
        java="messageDelayLevel",
        why="the delay of each level, from level 1 on",
    )

    # -- behaviour: messages for a time --------------------------------------------------------------------------------
    timer_enabled: bool = setting(True, java="timerWheelEnable", why="take messages that ask for a time of delivery")
    timer_precision_ms: int = setting(
        1000,
        java="timerPrecisionMs",
        low=100,
        high=1000,
        why="messages for a time come up to so much later; 100, 200, 500 or 1000; it cannot change while some wait",
    )
    timer_delay_seconds_max: int = setting(
        3 * 24 * 3600, java="timerMaxDelaySec", low=1, high=2**31 - 1, why="no message may ask for a time farther away"
    )
    timer_roll_slots: int = setting(
        2 * 24 * 3600,
        java="timerRollWindowSlot",
        low=2,
        high=7 * 24 * 3600 - 60,
        why="a message that waits for more ticks (timerPrecisionMs) is stored anew meanwhile, ahead of the retention",
    )
    timer_log_file_bytes: int = setting(
        100 * _MIB,
        java="mappedFileSizeTimerLog",
        low=4096,
        high=2**31 - 1,
        why="length of a file of the timer log; it cannot change once there is one",
    )

    # -- behaviour: durability -----------------------------------------------------------------------------------------
    flush_disk_type: str = setting(
        "ASYNC_FLUSH", java="flushDiskType", why="SYNC_FLUSH answers a send after the sync, ASYNC_FLUSH before it"
    )
    sync_flush_timeout_ms: int = setting(
        5000, java="syncFlushTimeout", low=1, why="a send that waits longer for its sync is answered FLUSH_DISK_TIMEOUT"
    )
    flush_timed: bool = setting(
        True, java="flushCommitLogTimed", why="ASYNC_FLUSH syncs by the clock alone; false: a new message wakes it, too"
    )
    flush_wakes_on_put: bool = setting(
        False, java="wakeFlushWhenPutMessage", why="with flushCommitLogTimed=false, a new message wakes it"
    )
    check_crc_on_recover: bool = setting(
        True, java="checkCRCOnRecover", why="a recovery checks the checksums of bodies"
    )
    read_uncommitted: bool = setting(
        False, java="readUnCommitted", why="with SYNC_FLUSH, consumers may read messages that are not synced yet"
    )

    # -- behaviour: retention ------------------------------------------------------------------------------------------
    file_reserved_hours: int = setting(72, java="fileReservedTime", low=0, why="age at which a commit log file expires")
    delete_when: str = setting(
        "04", java="deleteWhen", why="hours of the day at which expired files are deleted, joined by ;"
    )
    disk_used_max_percent: int = setting(
        75,
        java="diskMaxUsedSpaceRatio",
        low=10,
        high=95,
        clamped=True,
        why="used percent of the disk above which expired files are deleted at any hour",
    )
    disk_clean_forcibly_percent: int = setting(
        85,
        java="diskSpaceCleanForciblyRatio",
        low=30,
        high=99,
        why="used percent of the disk above which the oldest files are deleted whatever their age",
    )
    disk_warning_percent: int = setting(
        90,
        java="diskSpaceWarningLevelRatio",
        low=35,
        high=99,
        why="used percent of the disk above which new messages are refused",
    )
    clean_forcibly: bool = setting(
        True, java="cleanFileForciblyEnable", why="a full disk may cost messages that are younger than fileReservedTime"
    )

    # -- behaviour: reading --------------------------------------------------------------------------------------------
    transfer_bytes_max_memory: int = setting(
        1024 * 1024,
        java="maxTransferBytesOnMessageInMemory",
        low=1,
        why="most bytes in the answer to a pull, of recent messages; consumers ask for 256 KiB, Spark for more",
    )
    transfer_count_max_memory: int = setting(
        1024,
        java="maxTransferCountOnMessageInMemory",
        low=1,
        why="most messages in the answer to a pull, of recent ones; consumers ask for 32, Spark for more",
    )
    transfer_bytes_max_disk: int = setting(
        64 * 1024,
        java="maxTransferBytesOnMessageInDisk",
        low=1,
        why="most bytes in the answer to a pull, of old messages",
    )
    transfer_count_max_disk: int = setting(
        8, java="maxTransferCountOnMessageInDisk", low=1, why="most messages in the answer to a pull, of old ones"
    )
    memory_max_percent: int = setting(
        40,
        java="accessMessageInMemoryMaxRatio",
        low=1,
        high=100,
        why="percent of the machine's memory whose worth of newest messages counts as recent",
    )
    filter_bytes_max: int = setting(
        16_000, java="maxFilterMessageSize", low=20, why="consume queue bytes that one pull looks at, 20 a message"
    )
    query_count_max: int = setting(
        64, java="maxMsgsNumBatch", low=1, why="most messages in the answer to a query by key"
    )

    # -- speed: commit log ---------------------------------------------------------------------------------------------
    flush_interval_ms: int = setting(
        500, java="flushIntervalCommitLog", low=1, why="ASYNC_FLUSH: pause between syncs of the log"
    )
    flush_least_pages: int = setting(
        4, java="flushCommitLogLeastPages", low=0, why="ASYNC_FLUSH: fewer new pages of 4 KiB are not synced yet"
    )
    flush_thorough_interval_ms: int = setting(
        10_000, java="flushCommitLogThoroughInterval", low=0, why="ASYNC_FLUSH: the whole log is synced this often"
    )
    write_pool_enabled: bool = setting(
        False,
        java="transientStorePoolEnable",
        why="messages go to buffers first, and to the file by commitIntervalCommitLog; kill -9 loses those acknowledged"
        " since; no effect with SYNC_FLUSH",
    )
    write_pool_buffers: int = setting(
        5, java="transientStorePoolSize", low=1, why="write buffers of the pool, each as long as a commit log file"
    )
    write_pool_fails_fast: bool = setting(
        False,
        java="fastFailIfNoBufferInStorePool",
        why="write pool: a send is refused as busy once no buffer is free; else up to 16 MiB are written out first",
    )
    commit_interval_ms: int = setting(
        200, java="commitIntervalCommitLog", low=1, why="write pool: pause between writes of its buffers to the file"
    )
    commit_least_pages: int = setting(
        4, java="commitCommitLogLeastPages", low=0, why="write pool: fewer new pages of 4 KiB are not written yet"
    )
    commit_thorough_interval_ms: int = setting(
        200, java="commitCommitLogThoroughInterval", low=0, why="write pool: all its bytes are written this often"
    )
    commit_wakes_on_put: bool = setting(True, java="wakeCommitWhenPutMessage", why="write pool: a new message wakes it")

    # -- speed: consume queues, checkpoint, clean-up -------------------------------------------------------------------
    queue_flush_interval_ms: int = setting(
        1000, java="flushIntervalConsumeQueue", low=1, why="pause between syncs of the consume queues"
    )
    queue_flush_least_pages: int = setting(
        2, java="flushConsumeQueueLeastPages", low=0, why="a queue with fewer new pages of 4 KiB is not synced yet"
    )
    queue_flush_thorough_interval_ms: int = setting(
        60_000, java="flushConsumeQueueThoroughInterval", low=0, why="all consume queues are synced this often"
    )
    clean_interval_ms: int = setting(
        10_000, java="cleanResourceInterval", low=1, why="pause between looks at the age of files and the room on disk"
    )
    delete_batch_max: int = setting(
        10, java="deleteFileBatchMax", low=1, why="most commit log files deleted in one round"
    )

    stop_flush_ms: int = setting(
        30_000, low=1, why="longest time a stop writes consume queues; the next start builds the others from the log"
    )

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raises UsageError for values that do not go together."""
        if self.flush_disk_type not in ("SYNC_FLUSH", "ASYNC_FLUSH"):
            raise UsageError(
                f"setting flushDiskType = {self.flush_disk_type!r} is no way to flush",
                hint="give it SYNC_FLUSH or ASYNC_FLUSH",
            )
        if self.disk_clean_forcibly_percent > self.disk_warning_percent:
            raise UsageError(
                f"setting diskSpaceCleanForciblyRatio = {self.disk_clean_forcibly_percent} is above"
                f" diskSpaceWarningLevelRatio = {self.disk_warning_percent}",
                hint="set it to diskSpaceWarningLevelRatio or below: old files must go before messages are refused",
            )
        if self.timer_precision_ms not in (100, 200, 500, 1000):
            raise UsageError(
                f"setting timerPrecisionMs = {self.timer_precision_ms} is no length of a tick",
                hint="give it 100, 200, 500 or 1000",
            )
        for hour in self.delete_when.split(";"):
            if not (hour.strip().isdigit() and int(hour) < 24):
                raise UsageError(f"setting deleteWhen has the hour {hour!r}", hint="write hours 00 to 23, joined by ;")

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
