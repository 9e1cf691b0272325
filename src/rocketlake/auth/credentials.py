"""What a client, or a server as a client of others, signs its requests with.

Owns        the pair of access key and secret key, how it is read from a text, from a file, from the environment.
Must not know   requests; users and policies (accounts.py).

The secret is in no text of this value: it must not get into logs, plans or errors.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from rocketlake.base.errors import UsageError

__all__ = ["ACCESS_KEY_VARIABLE", "SECRET_KEY_VARIABLE", "Credentials"]

ACCESS_KEY_VARIABLE: Final = "ROCKETMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "ROCKETMQ_SECRET_KEY"


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key (the name of a user) and its secret key."""

    access_key: str
    secret_key: str = field(repr=False)

    @staticmethod
    def parse(text: str, where: str, names: tuple[str, str] = ("accessKey", "secretKey")) -> Credentials:
        """From JSON with these two keys. UsageError names the setting `where`, and nothing of the text."""
        try:
            values = msgspec.json.decode(text, type=dict[str, str])
            return Credentials(values[names[0]], values[names[1]])
        except (msgspec.DecodeError, KeyError):
            raise UsageError(
                f"{where} cannot be read", hint=f'write it as {{"{names[0]}":"...","{names[1]}":"..."}}'
            ) from None

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Credentials | None:
        """From ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY; None without them. UsageError if one is missing."""
        values = os.environ if environment is None else environment
        access_key, secret_key = values.get(ACCESS_KEY_VARIABLE, ""), values.get(SECRET_KEY_VARIABLE, "")
        if bool(access_key) != bool(secret_key):
            missing = SECRET_KEY_VARIABLE if access_key else ACCESS_KEY_VARIABLE
            raise UsageError(f"{missing} is not set", hint="set both variables, or none")
        return Credentials(access_key, secret_key) if access_key else None

    @staticmethod
    def from_file(path: Path) -> Credentials:
        """From a file with the lines `accessKey: ...` and `secretKey: ...`, as Apache's tools.yml has them."""
        try:
            lines = path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"credentials cannot be read: {error}", where=str(path), hint="give a file that may be read"
            ) from None
        parts = [line.partition(":") for line in lines]
        values = {name.strip(): value.strip().strip("\"'") for name, _, value in parts}
        if not values.get("accessKey") or not values.get("secretKey"):
            hint = "write a line for each, such as accessKey: me"
            raise UsageError("the file lacks accessKey or secretKey", where=str(path), hint=hint)
        return Credentials(values["accessKey"], values["secretKey"])
