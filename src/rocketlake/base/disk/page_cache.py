"""Which parts of a file the kernel has in memory, found without a read from disk; memory that it may not swap out.

Owns        the system calls that tell: mincore for mapped pages, preadv with RWF_NOWAIT for other bytes, fstatfs for
            a file system in memory; mlock2.
Must not know   the content of files, their readers.

On a machine that cannot tell the answer is yes: a read may have to wait then, as without the question.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys

__all__ = ["address_of", "is_in_memory", "is_resident", "keep_in_memory", "read_now"]

_PAGE = mmap.PAGESIZE
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_CANNOT_TELL = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
# Quick calls: to release the interpreter lock for them would cost more time than the calls take.
_libc = ctypes.PyDLL(None, use_errno=True)
_mincore = getattr(_libc, "mincore", None)
if _mincore is not None:
    _mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)

_mlock2 = getattr(_libc, "mlock2", None) if sys.platform == "linux" else None
if _mlock2 is not None:
    _mlock2.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)
_LOCK_ON_FAULT = 1  # a page is kept from its first use on: the call fills no memory, and takes no time

_fstatfs = getattr(_libc, "fstatfs", None) if sys.platform == "linux" else None
if _fstatfs is not None:
    _fstatfs.argtypes = (ctypes.c_int, ctypes.c_char_p)
_STATFS_BYTES = 256  # more than any Linux writes; the first word is the kind of file system
_TMPFS = 0x01021994


class _Buffer(ctypes.Structure):
    """Python's Py_buffer."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def address_of(mapping: mmap.mmap) -> int:
    """The address of a mapping, valid as long as the mapping is kept."""
    # ctypes gives no address of a read-only buffer.
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(mapping), ctypes.byref(buffer), 0)
    address = int(buffer.buf)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address


def is_resident(address: int, size: int) -> bool:
    """True if all pages of this mapped stretch are in memory."""
    if _mincore is None:
        return True
    start = address - address % _PAGE
    pages = -(-(address + size - start) // _PAGE)
    states = ctypes.create_string_buffer(pages)
    if _mincore(start, address + size - start, states) != 0:
        return True
    return not states.raw.translate(None, _RESIDENT)


_RESIDENT = bytes(state for state in range(256) if state & 1)


def keep_in_memory(mapping: mmap.mmap) -> int:
    """Keep what is written into this mapping out of the swap, as long as the mapping lives. Returns 0, or an errno."""
    if _mlock2 is None:
        return errno.ENOSYS
    return 0 if _mlock2(address_of(mapping), len(mapping), _LOCK_ON_FAULT) == 0 else ctypes.get_errno()


def read_now(descriptor: int, size: int, offset: int) -> bytes | bytearray | None:
    """The bytes that `os.pread` would read, or None if some are not in memory."""
    buffer = bytearray(size)
    try:
        return buffer if os.preadv(descriptor, (buffer,), offset, _NOWAIT) == size else None
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno in _CANNOT_TELL:
            return os.pread(descriptor, size, offset)
        raise


def is_in_memory(descriptor: int) -> bool:
    """True if this file lies on a tmpfs, whose pages are the disk itself."""
    answer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _fstatfs is None or _fstatfs(descriptor, answer) != 0:
        return False
    return ctypes.c_long.from_buffer(answer).value == _TMPFS
