# Types of due_run.pyx for Python.
from array import array
from collections.abc import Callable

from rocketlake.codec.record_run import RecordRun
from rocketlake.store.log_window import LogWindow

__all__ = ["DueRunCutter", "DueTopic"]

class DueTopic:
    def __init__(self, name: str, read_queues: int) -> None: ...

class DueRunCutter:
    def __init__(self, log: LogWindow, find: Callable[[str], DueTopic | None], tick_ms: int) -> None: ...
    def forget(self) -> None: ...
    def cut(
        self, units: array[int], above: int, taken_back: frozenset[bytes], most: int, bytes_most: int
    ) -> tuple[RecordRun, int, dict[str, tuple[int, int]]] | None: ...
