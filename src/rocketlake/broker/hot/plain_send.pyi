# Types of plain_send.pyx for Python.
from rocketlake.broker.delay.plain_time import PlainTimes
from rocketlake.broker.hot.plain_end import PlainEnds
from rocketlake.broker.hot.plain_run import AnswerParts, PlainSends
from rocketlake.broker.hot.plain_topics import PlainTopics
from rocketlake.net.request import Asker

__all__ = ["PlainSendCutter"]

class PlainSendCutter:
    def __init__(
        self,
        topics: PlainTopics,
        ends: PlainEnds | None,
        times: PlainTimes | None,
        parts: AnswerParts,
        store_host: bytes,
        added_properties: bytes,
        takes_halves: bool,
        limits: tuple[int, int, int],
    ) -> None: ...
    def cut(self, chunk: bytes, position: int, born_host: bytes, asker: Asker | None) -> PlainSends | None: ...
