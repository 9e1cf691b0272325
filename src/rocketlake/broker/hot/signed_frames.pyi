# Types of signed_frames.pyx for Python.
from collections.abc import Callable

__all__ = ["SignedFrames"]

class SignedFrames:
    def __init__(
        self,
        user: str,
        secret: str,
        allows: Callable[[str, str | None], bool],
        frame_bytes_max: int,
        header_bytes_max: int,
    ) -> None: ...
    def end(self, chunk: bytes, position: int) -> int: ...
