"""The proof of a user on a stream that has no requests, so no signatures: a question of the server, an answer to it.

Owns        the bytes of both, what is proven, how the other end finds them in its stream.
Must not know   users and rules (accounts.py), what is in the stream beside them.

    question    MARK, 32 bytes that nobody has seen before
    answer      MARK, u2 length of the user's name, the name, HMAC-SHA256 over a text of its own, question and name

An answer is good for one question only, so what was heard on a network cannot be sent again. Who sits between the two
can still hand it on: encrypt the stream.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final, NamedTuple

from rocketlake.auth.credentials import Credentials
from rocketlake.base.errors import ProtocolError

__all__ = ["ANSWER_BYTES_MAX", "MARK", "Proof", "answer", "is_proven", "new_question", "question_in", "read_answer"]

MARK: Final = b"\xffRocketLakeAsks\n"
"""Its first byte begins no frame of a master, and stands nowhere else in it."""
_NONCE_BYTES: Final = 32
_DIGEST_BYTES: Final = 32
_PURPOSE: Final = b"RocketLake: the log of a broker\0"
"""An answer is a signature of nothing else."""
_NAME_BYTES_MAX: Final = 128
ANSWER_BYTES_MAX: Final = len(MARK) + 2 + _NAME_BYTES_MAX + _DIGEST_BYTES


class Proof(NamedTuple):
    """An answer."""

    user: str
    digest: bytes


def new_question() -> bytes:
    """A question."""
    return MARK + secrets.token_bytes(_NONCE_BYTES)


def question_in(data: bytes) -> bytes | None:
    """The question with which `data` begins; b"" if more bytes must tell; None: it begins with something else."""
    if data[: len(MARK)] != MARK[: len(data)]:
        return None
    size = len(MARK) + _NONCE_BYTES
    return data[:size] if len(data) >= size else b""


def answer(question: bytes, credentials: Credentials) -> bytes:
    """What this user answers."""
    name = credentials.access_key.encode()
    return MARK + len(name).to_bytes(2, "big") + name + _digest(question, name, credentials.secret_key)


def read_answer(data: bytes) -> tuple[bytes, Proof, bytes] | None:
    """What stands before the answer in `data`, the answer, what stands behind it; None while bytes are missing.

    Raises ProtocolError: it is none.
    """
    before, mark, rest = data.partition(MARK)
    if not mark or len(rest) < 2:
        return None
    size = int.from_bytes(rest[:2], "big")
    if not 1 <= size <= _NAME_BYTES_MAX:
        raise ProtocolError(f"it answers with a name of {size} bytes")
    end = 2 + size + _DIGEST_BYTES
    if len(rest) < end:
        return None
    return before, Proof(rest[2 : 2 + size].decode("utf-8", "replace"), rest[2 + size : end]), rest[end:]


def is_proven(question: bytes, proof: Proof, secret: str) -> bool:
    """True if the answer was made with this secret. Takes the same time for each wrong one."""
    return hmac.compare_digest(_digest(question, proof.user.encode(), secret), proof.digest)


def _digest(question: bytes, name: bytes, secret: str) -> bytes:
    return hmac.digest(secret.encode(), _PURPOSE + question + name, "sha256")
