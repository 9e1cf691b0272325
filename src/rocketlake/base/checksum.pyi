# Types of checksum.pyx for Python.
__all__ = ["crc32"]

def crc32(data: bytes | bytearray | memoryview) -> int: ...
