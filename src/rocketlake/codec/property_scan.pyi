# Types of property_scan.pyx for Python.

__all__ = ["leaves_plain"]

def leaves_plain(name: bytes) -> bool: ...
