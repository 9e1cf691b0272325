"""The file of a history of epochs, in Apache's format: a text that its broker reads and writes.

Owns        the text, its checksum, the order of the steps that replace it.
Must not know   what epochs mean, when the file is written.

Apache's broker copies the old text to `.bak` and writes the new one in place, without a sync. We write a new file, sync
it and rename it. A text that is damaged is not replaced by its older copy: bytes of an epoch that the copy lacks would
count as those of the epoch before, and could be taken for bytes of another master.

Bytes: docs/internals/replication.md, "The epoch file".
"""

from __future__ import annotations

from pathlib import Path

from rocketlake.base.crc32 import crc32
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import ProtocolError, StoreError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.epochs.history import Epoch, EpochHistory

__all__ = ["decode", "encode", "load", "save"]

_CRC_MASK = 0x7FFF_FFFF
_NOT_CHECKED = 0


def encode(history: EpochHistory) -> bytes:
    """The text of a history: number of entries, checksum of their lines, one line `epoch-start` for each."""
    lines = "".join(f"{number}-{start}\n" for number, start in history.epochs).encode()
    return b"%d\n%d\n" % (len(history.epochs), crc32(lines) & _CRC_MASK) + lines


def decode(text: bytes) -> EpochHistory:
    """The history of a text. Raises ValueError, ProtocolError: it is damaged."""
    count, checksum, *lines = text.decode().splitlines()
    if len(lines) != int(count):
        raise ValueError(f"it has {len(lines)} of {int(count)} entries")
    joined = "".join(f"{line}\n" for line in lines).encode()
    if int(checksum) not in (_NOT_CHECKED, crc32(joined) & _CRC_MASK):
        raise ValueError("its checksum is wrong")
    parts = [line.split("-") for line in lines]
    return EpochHistory(Epoch(int(number), PhysicalOffset(int(start))) for number, start in parts)


def load(files: Files, path: Path) -> EpochHistory:
    """The history that was saved; an empty one if there is no file. Raises StoreError if it is damaged, OSError."""
    if not files.exists(path):
        return EpochHistory()
    try:
        return decode(files.read_bytes(path))
    except (ValueError, ProtocolError) as error:
        raise StoreError(
            f"the history of epochs is damaged: {error}",
            path=str(path),
            hint="empty the store of this replica and have it filled anew by its master",
        ) from error


def save(files: Files, path: Path, history: EpochHistory) -> None:
    """Replace the file; after return it survives a power cut. OSError if the disk refuses: the old one stays.

    An empty history has no file: Apache's broker would read an older copy instead of a text without entries.
    """
    if not history.epochs:
        for old in (path.with_name(path.name + ".bak"), path):
            if files.exists(old):
                files.remove(old)
    else:
        fresh = path.with_name(path.name + ".tmp")
        files.make_dirs(path.parent)
        files.write_bytes(fresh, encode(history))
        files.rename(fresh, path)
    files.sync_dir(path.parent)
