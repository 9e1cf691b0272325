"""A folder of files named by offset, to be read only: the files of another process stay as they are.

Owns        which file holds which offset, a bounded number of open files and mappings.
Must not know   records, entries, whether a broker writes the files, and which one.

Names and lengths: docs/internals/store_layout.md, "Offset files".
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from rocketlake.base.disk.seam import File, Files
from rocketlake.store.paths import offset_file_name

__all__ = ["OffsetFiles", "queue_folders"]

_OPEN_MAX = 8


def queue_folders(folder: Path, files: Files) -> Iterator[tuple[str, int, Path]]:
    """(topic, queue id, folder) of each queue below `folder`; other names are passed over, as Apache does."""
    for topic in files.list_dir(folder):
        if not files.is_dir(folder / topic):
            continue
        for name in files.list_dir(folder / topic):
            path = folder / topic / name
            if name.isascii() and name.isdigit() and files.is_dir(path):
                yield topic, int(name), path


class OffsetFiles:
    """The files of one log as they lie there now; `refresh` looks again. Offsets count bytes from the log's begin.

    The last file may be shorter than the others (a copy that was cut off). With `with_gaps` any file may be shorter or
    missing, and a read there finds nothing.
    """

    def __init__(self, folder: Path, files: Files, *, with_gaps: bool = False) -> None:
        self.folder = folder
        self.starts: list[int] = []
        """First offset of each file, in order; files before a gap are left out, unless `with_gaps`."""
        self.file_size = 0
        self.end = 0
        """Offset behind the last file (written or not)."""
        self._disk = files
        self._with_gaps = with_gaps
        self._open: OrderedDict[int, File] = OrderedDict()  # by start, least recently used first
        self.refresh()

    def refresh(self) -> None:
        """List the folder again. Raises OSError."""
        self.close()
        sizes = {
            int(name): self._disk.size(self.folder / name)
            for name in self._disk.list_dir(self.folder)
            if name.isascii() and name.isdigit()
        }
        self.starts = []
        for start in sorted(start for start, size in sizes.items() if size > 0):
            if start != self.end and not self._with_gaps:
                self.starts.clear()
            self.starts.append(start)
            self.end = start + sizes[start]
        self.file_size = max(sizes[start] for start in self.starts) if self.starts else 0

    @property
    def start(self) -> int:
        """First offset that is there."""
        return self.starts[0] if self.starts else 0

    def file_start(self, offset: int) -> int:
        """Start of the file that holds `offset`; of the last file for offsets behind it."""
        if not self.starts:
            return 0
        return self.starts[max(0, bisect_right(self.starts, offset) - 1)]

    def file_end(self, offset: int) -> int:
        """Where the next file starts; for offsets in the last file, its end."""
        number = bisect_right(self.starts, offset)
        return self.starts[number] if number < len(self.starts) else self.end

    def path(self, offset: int) -> Path:
        """The file that holds `offset`."""
        return self.folder / offset_file_name(self.file_start(offset))

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes at `offset`, of one file; nothing if the file is not (or no longer) there."""
        file = self._file_at(offset)
        return b"" if file is None else file.pread(size, offset - self.file_start(offset))

    def view(self, offset: int, size: int) -> memoryview:
        """As `read`, mostly without copying; stays valid as long as it is held."""
        file = self._file_at(offset)
        if file is None:
            return memoryview(b"")
        position = offset - self.file_start(offset)
        if file.holes_take_space:
            return memoryview(file.pread(size, position))
        return file.view()[position : position + size]

    def is_zero_from(self, offset: int) -> bool:
        """True if the rest of this file is zero. Holes are seen without reading them."""
        file = self._file_at(offset)
        return file is None or file.is_zero_from(offset - self.file_start(offset))

    def _file_at(self, offset: int) -> File | None:
        if not self.start <= offset < self.end:
            return None
        start = self.file_start(offset)
        file = self._open.pop(start, None)
        if file is None:
            try:
                file = self._disk.open(self.path(start), read_only=True)
            except FileNotFoundError:  # a live broker dropped it meanwhile
                return None
            if len(self._open) >= _OPEN_MAX:
                self._open.popitem(last=False)[1].close()
        self._open[start] = file
        return file

    def close(self) -> None:
        """Close the open files; views stay valid."""
        while self._open:
            self._open.popitem()[1].close()
