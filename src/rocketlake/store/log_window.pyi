# Types of log_window.pyx for Python.
from collections.abc import Callable

from rocketlake.model.positions import PhysicalOffset

__all__ = ["LogWindow"]

class LogWindow:
    def __init__(
        self,
        window: Callable[[PhysicalOffset, int], tuple[memoryview, PhysicalOffset, PhysicalOffset, bytearray] | None],
    ) -> None: ...
