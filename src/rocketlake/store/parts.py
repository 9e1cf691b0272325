"""The parts of a store: which there are, and which part knows which.

Owns        making them; nothing is opened or started here.
Must not know   how a part works, in which order parts start (opening.py, message_store.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.worker import Worker
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.store.checkpoint import Checkpoint
from rocketlake.store.commit_log import CommitLog
from rocketlake.store.config import StoreConfig
from rocketlake.store.consume_queue.ends import QueueEnds
from rocketlake.store.consume_queue.table import ConsumeQueueTable
from rocketlake.store.deletions import Deletions
from rocketlake.store.disk_wait import DiskWait
from rocketlake.store.dispatch import Dispatch
from rocketlake.store.durability import Demands, Durability, Stage
from rocketlake.store.fetch import Fetch
from rocketlake.store.flush import LogSync
from rocketlake.store.key_index.files import KeyIndex
from rocketlake.store.late_files import LateFiles
from rocketlake.store.late_steps import LateSteps
from rocketlake.store.paths import StorePaths
from rocketlake.store.removal import Removal
from rocketlake.store.residency import Residency
from rocketlake.store.slow_work import SlowDisk
from rocketlake.store.topic_deletion import TopicDeletion

__all__ = ["WORKERS", "StoreParts"]

WORKERS = ("flush", "queues", "queue-files", "files", "delete", "notes", "reads", "watch")
"""The threads of a store, by their duties."""

_ZERO_STEP = 256 * 1024


class StoreParts:
    """All parts of one store folder."""

    def __init__(
        self, root: Path, config: StoreConfig, files: Files, clock: Clock, workers: Mapping[str, Worker]
    ) -> None:
        self.config = config
        self.disk = files
        self.clock = clock
        self.workers = workers
        self.paths = paths = StorePaths(root, Path(config.commit_log_path) if config.commit_log_path else None)
        levels = DelayLevels(config.message_delay_level)
        self.delays_ms = [levels.delay_ms(level) for level in range(1, levels.highest + 1)]
        self.late = LateSteps()
        self.slow = SlowDisk(clock)
        self.log = log = CommitLog(paths.commit_log, config, files, workers["files"])
        self.disk_wait = DiskWait()
        self.late_queue_files = LateFiles(workers["queue-files"])
        self.late_index_files = LateFiles(workers["files"])
        self.late_files = (self.late_queue_files, self.late_index_files)
        self.deletions = Deletions(files, paths.deletions)
        self.queues = ConsumeQueueTable(
            paths.consume_queue,
            files,
            file_size=config.consume_queue_file_bytes,
            began_anew=self.deletions.begins_anew,
            late=self.late_queue_files,
            wait=self.disk_wait,
        )
        self.index = KeyIndex(
            paths.index,
            files,
            clock,
            slots=config.index_slots,
            entries_max=config.index_entries,
            late=self.late_index_files,
            wait=self.disk_wait,
        )
        self.checkpoint = Checkpoint(files, paths.checkpoint)
        self.ends = QueueEnds(paths.queue_ends, files, self.queues, workers["queues"])
        self.deletion = TopicDeletion(
            self.queues,
            self.ends,
            self.deletions,
            Removal(files, paths.removed),
            makes=workers["queue-files"],
            notes=workers["notes"],
            files=workers["delete"],
        )
        self.queues.before_make(self.deletion.before_make)
        self.dispatch = Dispatch(
            log.list, self.queues, self.index if config.index_enabled else None, self.deletions, self.delays_ms
        )
        self.residency = Residency(files, clock, workers["reads"], self.late_queue_files)
        self.fetch = Fetch(log, config, self.residency, self.deletions, self.disk_wait)
        self.durability = Durability(lambda: log.max_offset, clock, is_buffered=log.pool is not None)
        self.durability.demand(_own_demands(config))
        self.sync = LogSync(log.list, workers["flush"], self.durability, lambda: log.last_store_ms, self.slow)
        self.sync.zero_step = _ZERO_STEP if config.sync_flush else 0


def _own_demands(config: StoreConfig) -> Demands:
    """The demands of a store that stands alone: SYNC_FLUSH asks for the sync."""
    if not config.sync_flush:
        return Demands()
    acks = {Stage.FLUSHED: config.sync_flush_timeout_ms}
    return Demands(acks, reads=() if config.read_uncommitted else (Stage.FLUSHED,))
