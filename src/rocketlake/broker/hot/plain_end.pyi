# Types of plain_end.pyx for Python.
from collections.abc import Callable

from rocketlake.broker.hot.plain_topics import PlainTopics
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.net.request import Asker
from rocketlake.store.log_window import LogWindow

__all__ = ["PlainEnds"]

class PlainEnds:
    def __init__(
        self,
        topics: PlainTopics,
        log: LogWindow,
        admit: Callable[[Asker], tuple[int, PhysicalOffset] | None],
        stands_alone: Callable[[QueueOffset], bool],
    ) -> None: ...
