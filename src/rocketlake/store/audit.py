"""Checks that commit log, consume queues and key index of a store folder agree, offline and without changing them.

Owns        the rules of agreement, and the list of findings that break a rule.
Must not know   how a store is written or recovered.

After a clean stop, and after recovery, the list is empty. Reads everything, and keeps the hashes of all keys in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.consume_queue.entry import FILLER_SIZE
from rocketlake.store.deletions import Deletions
from rocketlake.store.dispatch_scan import DispatchEntry
from rocketlake.store.key_index.file import KeyIndexFile
from rocketlake.store.key_index.files import index_names
from rocketlake.store.key_index.layout import key_hash
from rocketlake.store.reader import StoreReader

__all__ = ["Audit", "Finding", "audit_store"]

_FINDINGS_MAX = 1000
Queue = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement. `kind`: log-end, queue-gap, -missing, -wrong, -extra, index-...; `text` says all."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def audit_store(
    root: Path,
    *,
    commit_log: Path | None = None,
    files: Files | None = None,
    index_slots: int = 5_000_000,
    index_entries: int = 20_000_000,
    with_index: bool = True,
) -> list[Finding]:
    """Every disagreement in the store folder `root`, at most 1,000. Raises OSError, StoreError if it cannot be read."""
    audit = Audit(root, commit_log=commit_log, files=files)
    audit.check_queues()
    if with_index:
        audit.check_index(index_slots, index_entries)
    return audit.findings


class Audit:
    """One look at one store folder. `records` counts what was found in the log by `check_queues`."""

    def __init__(self, root: Path, *, commit_log: Path | None = None, files: Files | None = None) -> None:
        self.findings: list[Finding] = []
        self.records = 0
        self._disk: Files = files or PosixFiles()
        self._reader = StoreReader(root, commit_log=commit_log, files=self._disk)
        self._deletions = Deletions.at(self._disk, self._reader.paths.deletions)
        self._dead: set[int] = set()
        self._next: dict[Queue, int] = {}
        self._entries: dict[Queue, Iterator[tuple[int, int, int, int]]] = {}
        self._keys: Counter[tuple[int, int]] = Counter()  # (physical offset, hash)

    def _find(self, kind: str, text: str) -> None:
        if len(self.findings) < _FINDINGS_MAX:
            self.findings.append(Finding(kind, text))

    # -- queues --------------------------------------------------------------------------------------------------------

    def check_queues(self) -> None:
        """Read the whole log: every record has its entry, every entry its record, queue offsets leave no gap."""
        end = PhysicalOffset(self._reader.log.start)
        for record in self._reader.scan_log():
            self.records += 1
            end = record.physical_offset + record.size
            if self._deletions.is_dead(record.topic, record.physical_offset, record.queue_id):
                self._dead.add(record.physical_offset)  # in no queue; in the index if it was there in time
                continue
            if record.is_queued():
                self._check_entry(record)
            if record.is_indexed():
                self._keys.update((record.physical_offset, key_hash(key)) for key in record.index_keys())
        log_end = self._reader.log_end(end)
        if log_end.torn:
            self._find("log-end", f"the log ends at {log_end.physical_offset} of {log_end.path}: {log_end.torn}")
        for topic in self._reader.topics():
            for queue_id in self._reader.queue_ids(topic):
                self._check_rest((topic, queue_id))

    def _check_entry(self, record: DispatchEntry) -> None:
        queue = record.topic, record.queue_id
        expected = self._next.get(queue, record.queue_offset)
        if record.queue_offset != expected:
            self._find("queue-gap", f"{_name(queue)}: offset {record.queue_offset} follows {expected - 1} in the log")
        self._next[queue] = record.queue_offset + 1
        entry = self._entry_at(queue, record.queue_offset)
        if entry is None:
            self._find("queue-missing", f"{_name(queue)} has no entry {record.queue_offset} ({record.physical_offset})")
            return
        wanted = record.physical_offset, record.size, self._tag_code(record, entry[3])
        if entry[1:] != wanted:
            self._find("queue-wrong", f"{_name(queue)} entry {record.queue_offset} is {entry[1:]}, not {wanted}")

    def _tag_code(self, record: DispatchEntry, stored: int) -> int:
        """The entry as it should be. Of a delayed message any time of delivery is right: levels are not known here."""
        if record.topic == "SCHEDULE_TOPIC_XXXX" and stored >= record.store_ms:
            return stored
        return record.tag_code

    def _entry_at(self, queue: Queue, offset: int) -> tuple[int, int, int, int] | None:
        """Entries are asked for in rising order, so each queue is read once, from its first record in the log."""
        entries = self._entries.get(queue)
        if entries is None:
            entries = self._entries[queue] = self._reader.entries(*queue, offset, FILLER_SIZE)
        for entry in entries:
            if entry[0] == offset:
                return entry
            if entry[0] > offset:
                break
            self._find("queue-extra", f"{_name(queue)} entry {entry[0]} has no record at {entry[1]}")
        self._entries[queue] = self._reader.entries(*queue, offset + 1, FILLER_SIZE)
        return None

    def _check_rest(self, queue: Queue) -> None:
        """Report the entries of a queue behind its last record and before its first one: no record belongs to them."""
        behind = self._entries.get(queue)
        if behind is None:
            behind = self._reader.entries(*queue, self._reader.first_offset(*queue), FILLER_SIZE)
        for offset, physical_offset, _size, _tag_code in behind:
            if physical_offset >= self._reader.log.start:
                self._find("queue-extra", f"{_name(queue)} entry {offset} has no record at {physical_offset}")

    # -- index ---------------------------------------------------------------------------------------------------------

    def check_index(self, slots: int, entries_max: int) -> None:
        """After `check_queues`: every key of every record is in the index once, and can be reached from its slot."""
        folder = self._reader.paths.index
        first_physical = -1
        for name in index_names(folder, self._disk):
            try:
                file = KeyIndexFile(self._disk, folder / name, slots=slots, entries_max=entries_max, read_only=True)
            except StoreError as error:
                self._find("index-file", str(error))
                continue
            if first_physical < 0 and not file.is_empty:
                first_physical = file.begin_physical
            self._check_index_file(file)
            file.close()
        for (physical_offset, hash_code), count in self._keys.items():
            if count > 0 and physical_offset >= first_physical:
                self._find("index-missing", f"the key with hash {hash_code} of the record at {physical_offset}")

    def _check_index_file(self, file: KeyIndexFile) -> None:
        heads: dict[int, int] = {}
        name = file.path.name
        for number, (hash_code, physical_offset, _seconds, previous) in enumerate(file.entries(), start=1):
            slot = hash_code % file.slots
            if previous != heads.get(slot, 0):
                self._find("index-link", f"{name} entry {number} follows {previous}, not {heads.get(slot, 0)}")
            heads[slot] = number
            if physical_offset >= self._reader.log.start and physical_offset not in self._dead:
                self._keys[physical_offset, hash_code] -= 1
                if self._keys[physical_offset, hash_code] < 0:
                    self._find("index-extra", f"{name} entry {number}: no record at {physical_offset} has this key")
        for slot, number in heads.items():
            if file.head(slot) != number:
                self._find("index-slot", f"{name} slot {slot} names {file.head(slot)}, its newest entry is {number}")
        if file.used_slots != len(heads):
            self._find("index-header", f"{name} counts {file.used_slots} used slots, not {len(heads)}")


def _name(queue: Queue) -> str:
    return f"queue {queue[1]} of {queue[0]}"
