# Types of lite_run.pyx for Python.
from rocketlake.store.log_window import LogWindow
from rocketlake.store.mapped_file import Bytes

__all__ = ["LiteCutter"]

class LiteCutter:
    def __init__(self, log: LogWindow) -> None: ...
    def cut(self, entries: Bytes, parent: bytes) -> tuple[list[tuple[str, int, bool, int] | None], int]: ...
