# Types of plain_messages.pyx for Python.
from rocketlake.proxy.convert.limits import Limits

__all__ = ["PlainMessage", "SendReader", "frames"]

class PlainMessage:
    topic: bytes
    message_id: bytes
    group: bytes
    properties: bytes
    sys_flag: int
    type: int
    born_ms: int
    @property
    def body(self) -> memoryview: ...

class SendReader:
    def __init__(self, limits: Limits) -> None: ...
    def read(self, request: bytes, peer: bytes, now_ms: int) -> PlainMessage | None: ...

def frames(messages: list[PlainMessage], fixed: list[bytes], opaque: int, now_ms: int) -> bytes: ...
