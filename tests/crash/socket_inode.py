"""The number of a TCP socket of this machine, by which /proc tells whose it is.

The kernel is asked for this one socket, by netlink's sock_diag. The table of all of them, /proc/net/tcp, costs a walk
over each socket of the machine: a tenth of a second on a busy one.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Final

Address = tuple[str, int]

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
"""The kind of the question, and of its answer."""
_IS_ERROR: Final = 2
_IS_REQUEST: Final = 1
_HEAD = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBxxI")
_ENDS = struct.Struct("!HH4s12x4s12x")
_ANYWHERE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
"""Any interface, any cookie."""
_INODE = struct.Struct("=I")
_ERRNO = struct.Struct("=i")
"""Behind the head of an error: below 0."""
_INODE_AT: Final = _HEAD.size + 4 + _ENDS.size + len(_ANYWHERE) + 16


def socket_inode(own: Address, peer: Address) -> int:
    """The number of the IPv4 socket at `own` that is connected to `peer`; 0 if it is gone, or closed by its process.

    Raises OSError: this kernel does not answer such questions.
    """
    ends = _ENDS.pack(own[1], peer[1], socket.inet_aton(own[0]), socket.inet_aton(peer[0]))
    body = _QUESTION.pack(socket.AF_INET, socket.IPPROTO_TCP, 0xFFFFFFFF) + ends + _ANYWHERE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.send(_HEAD.pack(_HEAD.size + len(body), _BY_FAMILY, _IS_REQUEST, 1, 0) + body)
        answer = kernel.recv(4096)
    kind: int = _HEAD.unpack_from(answer)[1]
    if kind == _IS_ERROR:
        error: int = -_ERRNO.unpack_from(answer, _HEAD.size)[0]
        if error == errno.ENOENT:
            return 0
        raise OSError(error, f"no answer by netlink's sock_diag: {os.strerror(error)}")
    inode: int = _INODE.unpack_from(answer, _INODE_AT)[0]
    return inode
