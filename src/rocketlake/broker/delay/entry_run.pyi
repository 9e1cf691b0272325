# Types of entry_run.pyx for Python.
from rocketlake.store.log_window import LogWindow
from rocketlake.store.mapped_file import Bytes
from rocketlake.store.timer.unit_run import UnitRun

__all__ = ["EntryCutter"]

class EntryCutter:
    def __init__(self, log: LogWindow, tick_ms: int, roll_ms: int) -> None: ...
    def cut(
        self,
        entries: Bytes,
        queue_offset: int,
        now_ms: int,
        first_ms: int,
        delivered: tuple[int, int],
        anew: tuple[int, int, int],
    ) -> tuple[UnitRun, int]: ...
