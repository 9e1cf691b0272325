"""Options of a Spark format: their names, help with misspelt ones, their values as numbers, flags and addresses.

Owns        proper names from any case, the nearest name to a wrong one, errors that name option, value and cure.
Must not know   the meaning of an option.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rocketlake.base.errors import UsageError

__all__ = ["Given", "OptionNames", "local_path", "options_of_new_table", "scheme_of"]

_SIZES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_NEW_TABLE_PREFIX = "option."
_CLIENT_HINT = (
    "client.* settings cannot be passed through: set 'tlsConfigFile' to encrypt and 'credentialsFile' to sign; a "
    "secret must never stand in an option: Spark shows options in plans and logs"
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_DURATIONS = {"": 1, "ms": 1, "s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class OptionNames:
    """The options of one format, other names for them, and answers to options of other connectors."""

    format: str
    descriptions: Mapping[str, str]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other name, lower case -> option."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Option of another connector, lower case -> the cure here."""

    def given(self, options: Mapping[str, str]) -> Given:
        """The options by their proper names. UsageError for an unknown one, with the nearest or the right name."""
        by_lower = {name.lower(): name for name in self.descriptions} | dict(self.aliases)
        values: dict[str, str] = {}
        # A new table's options stand among its properties.
        for raw, value in (options_of_new_table(options) or options).items():
            name = by_lower.get(raw.lower())
            if name is None:
                raise UsageError(
                    f"option '{raw}' is not known to format(\"{self.format}\")", hint=self._hint(raw.lower(), by_lower)
                )
            if name in values and values[name] != value:
                raise UsageError(f"option '{name}' is given twice, as '{values[name]}' and '{value}'", hint="keep one")
            values[name] = value
        return Given(values)

    def _hint(self, lower: str, by_lower: Mapping[str, str]) -> str:
        if lower in self.elsewhere:
            return self.elsewhere[lower]
        if lower.startswith("kafka."):
            return "kafka.* settings mean nothing to RocketMQ; remove it"
        if lower.startswith("client."):
            return _CLIENT_HINT
        near = difflib.get_close_matches(lower, by_lower, n=1)
        if near:
            return f"did you mean '{by_lower[near[0]]}'?"
        return "known options: " + ", ".join(sorted(self.descriptions))


def options_of_new_table(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a table that is being made; empty if no table is."""
    return {
        name[len(_NEW_TABLE_PREFIX) :]: value
        for name, value in options.items()
        if name.lower().startswith(_NEW_TABLE_PREFIX)
    }


def scheme_of(text: str) -> str:
    """`s3` of `s3://bucket/orders`, in lower case; empty for a path."""
    scheme = _SCHEME.match(text)
    return scheme[1].lower() if scheme else ""


def local_path(text: str, *, or_store: bool = False) -> str:
    """The path without `file:`. UsageError for another file system; `or_store`: the place of an object store, too."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return text
    if scheme[1].lower() != "file":
        raise UsageError(
            f"'{text}' lies on another file system ({scheme[1]}:)",
            hint="give a local or mounted folder, /data/orders"
            + ("; or s3://bucket/folder" if or_store else "; this option takes no object store"),
        )
    return text[len("file:") :].removeprefix("//localhost").removeprefix("//")


class Given:
    """The options that were given, by proper name; each method checks one value."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, default: str = "") -> str:
        """Without the blanks around it."""
        return self.values.get(name, default).strip()

    def path(self, name: str) -> str:
        """A file or folder of this machine; `file:` in front is left out."""
        try:
            return local_path(self.text(name))
        except UsageError as error:
            raise UsageError(f"option '{name}': {error.what}", hint=error.hint) from None

    def flag(self, name: str, *, default: bool) -> bool:
        """`true` or `false`."""
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise UsageError(f"option '{name}' is '{self.values[name]}'", hint="write true or false")
        return text == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of `choices`; the first is the default."""
        text = self.text(name, choices[0])
        if text not in choices:
            raise UsageError(f"option '{name}' is '{text}'", hint="write one of " + ", ".join(choices))
        return text

    def number(self, name: str, default: int, *, low: int, high: int) -> int:
        """A whole number from low to high."""
        text = self.text(name, str(default))
        if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
            raise UsageError(f"option '{name}' is '{text}'", hint=f"give a whole number from {low} to {high}")
        return int(text)

    def optional_number(self, name: str) -> int | None:
        """A whole number from 1 on, None if it is not given."""
        return self.number(name, 0, low=1, high=2**53) if name in self.values else None

    def size(self, name: str) -> int | None:
        """A number of bytes, plain or like `64m` (k, m, g, t: powers of 1024); None if it is not given."""
        if name not in self.values:
            return None
        text = self.text(name).lower()
        found = re.fullmatch(r"([0-9]{1,18})\s*(?:([kmgt])(?:i?b)?|b)?", text)
        number = int(found[1]) * _SIZES[found[2] or ""] if found else 0
        if not 1 <= number < 2**63:
            raise UsageError(f"option '{name}' is '{text}'", hint="give a number of bytes, like 64m or 67108864")
        return number

    def duration_ms(self, name: str, default: str) -> int:
        """Milliseconds of `500ms`, `30s`, `15m`, `1h`, `7d`; a number alone is milliseconds."""
        text = self.text(name, default).lower()
        found = re.fullmatch(r"([0-9]{1,12})\s*(ms|s|sec|m|min|h|d|)", text)
        if not found:
            raise UsageError(f"option '{name}' is '{text}'", hint="give a time like 500ms, 30s, 15m, 1h or 7d")
        return int(found[1]) * _DURATIONS[found[2]]

    def namesrv(self) -> str:
        """`namesrvAddr`, as `host:port;host:port`."""
        text = self.text("namesrvAddr")
        if not text:
            raise UsageError("option 'namesrvAddr' is missing", hint='give .option("namesrvAddr", "127.0.0.1:9876")')
        addresses = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
        for address in addresses:
            host, colon, port = address.rpartition(":")
            if not (colon and host and port.isdigit() and 0 < int(port) < 65536):
                raise UsageError(
                    f"option 'namesrvAddr' holds '{address}', which is not host:port",
                    hint="write it like 127.0.0.1:9876",
                )
        return ";".join(addresses)
