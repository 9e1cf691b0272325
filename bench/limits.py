"""Owns the limits of this machine: bytes a second over loopback, through write(), memcpy; fdatasync a second.

Measured in the same run as the loads, so that a load's bytes a second can be held against them.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from pathlib import Path

KIB, MIB = 1024, 1024 * 1024


def measure(folder: Path, seconds: float = 1.0) -> dict[str, float]:
    """All limits; `folder` is on the disk where the stores will be."""
    return {
        "loopback_mb_per_second": loopback(seconds),
        "write_1k_mb_per_second": writes(folder, KIB, seconds),
        "write_64k_mb_per_second": writes(folder, 64 * KIB, seconds),
        "fdatasync_per_second": fdatasyncs(folder, seconds),
        "memcpy_mb_per_second": memcpy(seconds),
    }


def loopback(seconds: float) -> float:
    """One connection, one thread that sends 64 KiB pieces and one that takes them."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    end = time.monotonic() + seconds

    def send() -> None:
        piece = bytes(64 * KIB)
        with sender:
            while time.monotonic() < end:
                sender.sendall(piece)

    thread = threading.Thread(target=send)
    began, taken, space = time.monotonic(), 0, bytearray(MIB)
    thread.start()
    with receiver:
        while size := receiver.recv_into(space):
            taken += size
    thread.join()
    return round(taken / (time.monotonic() - began) / 1e6, 1)


def writes(folder: Path, piece_bytes: int, seconds: float, file_bytes: int = 256 * MIB) -> float:
    """pwrite() one after the other into the page cache, round and round a file that has its pages already."""
    piece = bytes(piece_bytes)
    with tempfile.TemporaryFile(dir=folder) as file:
        number = file.fileno()
        for at in range(0, file_bytes, MIB):
            os.pwrite(number, bytes(MIB), at)
        began, written = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            for _ in range(1000):
                os.pwrite(number, piece, written % file_bytes)
                written += piece_bytes
        return round(written / (time.monotonic() - began) / 1e6, 1)


def fdatasyncs(folder: Path, seconds: float) -> float:
    """1 KiB written, then synced, again and again in a file of fixed length: what one SYNC_FLUSH send must wait for."""
    with tempfile.TemporaryFile(dir=folder) as file:
        number = file.fileno()
        os.pwrite(number, bytes(16 * MIB), 0)
        os.fsync(number)
        began, count = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            os.pwrite(number, bytes(KIB), count * KIB % (16 * MIB))
            os.fdatasync(number)
            count += 1
        return round(count / (time.monotonic() - began), 1)


def memcpy(seconds: float) -> float:
    source, target = memoryview(bytes(64 * MIB)), memoryview(bytearray(64 * MIB))
    began, copied = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        target[:] = source
        copied += len(source)
    return round(copied / (time.monotonic() - began) / 1e6, 1)
