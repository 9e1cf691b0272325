# Types of batch_body.pyx for Python.

from collections.abc import Sequence

from rocketlake.model.message import Message

__all__ = ["batch_body"]

def batch_body(messages: list[Message], texts: list[bytes], keys: Sequence[str | None]) -> bytes: ...
