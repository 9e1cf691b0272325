# Types of plain_time.pyx for Python.
from collections.abc import Callable

__all__ = ["PlainTimes"]

class PlainTimes:
    def __init__(self, now_ms: Callable[[], int], tick_ms: int, delay_ms_max: int, broker_name: bytes) -> None: ...
