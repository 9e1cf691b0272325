# Types of plain_messages.pyx for Python.
from rocketlake.proxy.convert.limits import Limits

__all__ = ["PlainMessage", "SendReader", "ack_answer", "read_acks", "send_answer"]

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

def send_answer(message_id: bytes, offset: int, transaction_id: bytes, recall_handle: bytes) -> bytes: ...
def read_acks(request: bytes) -> tuple[bytes, bytes, list[tuple[bytes, bytes]]] | None: ...
def ack_answer(entries: list[tuple[bytes, bytes]]) -> bytes: ...
