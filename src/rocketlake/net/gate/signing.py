"""Signing: the access key and the signature on our own requests.

Owns        which fields are added to a command, and when: last, for they cover all others.
Must not know   what a signature is (auth/signature.py), who sends.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.auth.credentials import Credentials
from rocketlake.auth.signature import ACCESS_KEY, SIGNATURE, sign
from rocketlake.protocol.command import Command
from rocketlake.protocol.header_binary import decode_binary_header, encode_binary_header

__all__ = ["Sign", "signing"]


class Sign:
    """Puts a signature on a command that is complete."""

    def __init__(self, credentials: Callable[[], Credentials | None]) -> None:
        self._credentials = credentials

    @property
    def is_needed(self) -> bool:
        """False while there are no credentials: then commands go as they are."""
        return self._credentials() is not None

    def __call__(self, command: Command) -> None:
        """Sign."""
        given = self._credentials()
        if given is None:
            return
        if command.block is not None:  # prepared fields: what they say counts as well
            command.fields = decode_binary_header(encode_binary_header(command)).fields
            command.block = None
        fields = {name: text for name, text in (command.fields or {}).items() if name != SIGNATURE}
        fields[ACCESS_KEY] = given.access_key
        body = command.body
        fields[SIGNATURE] = sign(given.secret_key, fields, body if isinstance(body, list) else (body or b"",))
        command.fields = fields


def signing(credentials: Callable[[], Credentials | None]) -> Sign:
    """Signs with what `credentials` gives at the time; nothing is added for None."""
    return Sign(credentials)
