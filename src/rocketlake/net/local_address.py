"""This machine's address, as others would see it.

Owns        finding it without sending anything.
Must not know   its callers.
"""

from __future__ import annotations

import socket

__all__ = ["host_name", "local_address"]


def local_address() -> str:
    """The IPv4 address that connections to the outside would come from; 127.0.0.1 on a machine without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation address: connecting a datagram socket sends no packet
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def host_name() -> str:
    """The name of this machine, "" if it has none."""
    return socket.gethostname()
