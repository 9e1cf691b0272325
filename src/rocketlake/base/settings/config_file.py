"""Settings: the properties file users already have, and overrides, into a frozen dataclass.

Owns        the properties format, conversion by field type, range checks, the text of setting errors.
Must not know   single settings. They are dataclass fields made with `setting(...)`, each beside its part.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import re
import typing
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import UsageError
from rocketlake.base.java.json_text import join_surrogates
from rocketlake.base.logs import get_logger

__all__ = [
    "java_name",
    "load",
    "load_together",
    "parse_properties",
    "read_properties",
    "setting",
    "setting_texts",
    "to_properties",
]

_log = get_logger(__name__)

C = TypeVar("C")

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_SEPARATOR = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def setting(
    default: Any,
    *,
    java: str = "",
    low: float | None = None,
    high: float | None = None,
    clamped: bool = False,
    secret: bool = False,
    why: str = "",
) -> Any:
    """A dataclass field that is a setting: its Java name (default: the camelCase of its own), its range, its reason.

    `clamped`: a value outside of the range counts as the nearest end of the range, as in RocketMQ.
    `secret`: the value is shown nowhere.
    """
    metadata = {"java": java, "low": low, "high": high, "clamped": clamped, "secret": secret, "why": why}
    if callable(default) and not isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def java_name(field: dataclasses.Field[Any]) -> str:
    """The name of a setting in a properties file."""
    if field.metadata.get("java"):
        return str(field.metadata["java"])
    first, *rest = field.name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def parse_properties(text: str) -> dict[str, str]:
    """The text of a Java properties file: key -> value. Later keys win; broken lines cannot occur in this format."""
    return {key: value for _, key, value in _entries(text)}


def to_properties(values: Mapping[str, str]) -> str:
    """The text of a properties file that parse_properties reads back as `values` (white space at the ends goes)."""
    return "".join(f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}\n" for key, value in values.items())


def setting_texts(settings: Any) -> dict[str, str]:
    """Every setting of a settings object by its Java name, as the text a properties file would hold."""
    return {java_name(field): _shown(settings, field) for field in dataclasses.fields(settings)}


def _shown(settings: Any, field: dataclasses.Field[Any]) -> str:
    text = _to_text(getattr(settings, field.name))
    return "***" if text and field.metadata.get("secret") else text


def read_properties(path: Path, files: Files | None = None) -> dict[str, str]:
    """Read a properties file. UsageError if it is not there. UTF-8, or Latin-1 as Java would read it."""
    return parse_properties(_read_text(path, files))


def _read_text(path: Path, files: Files | None) -> str:
    try:
        data = (files or PosixFiles()).read_bytes(path)
    except OSError as error:
        hint = "give the path of a file that is there and may be read"
        raise UsageError(f"settings cannot be read: {error.strerror}", where=str(path), hint=hint) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def load(cls: type[C], path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> C:
    """One settings object: defaults, then the file, then `overrides` (Java or Python names; text or values)."""
    (loaded,) = load_together([cls], path, overrides)
    return typing.cast(C, loaded)


def load_together(
    classes: Sequence[type[Any]],
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    without_effect: Collection[str] = (),
    not_supported: Mapping[str, Collection[str]] | None = None,
    files: Files | None = None,
) -> tuple[Any, ...]:
    """Several settings objects out of one file, as broker.conf holds those of broker and store.

    UsageError names every unknown key (with the nearest known one) and every value out of range. Keys in
    `without_effect` are known to RocketMQ but mean nothing here: they are accepted, with one warning for all. Keys in
    `not_supported` promise something we do not have: they are accepted only with the values given there.
    """
    not_supported = not_supported or {}
    given: list[tuple[str, Any, str]] = []
    if path is not None:
        last = {key: (value, f"{path}, line {number}") for number, key, value in _entries(_read_text(path, files))}
        given += [(key, value, where) for key, (value, where) in last.items()]
    given += [(key, value, "settings that were given") for key, value in (overrides or {}).items()]

    known = {name: (cls, field) for cls in classes for field in dataclasses.fields(cls) for name in _names(field)}
    chosen: dict[type[Any], dict[str, Any]] = {cls: {} for cls in classes}
    ignored = [key for key, _, _ in given if key not in known and key not in not_supported and key in without_effect]
    if ignored:
        where = "the given values" if path is None else str(path)
        _log.warning("%s: these settings of RocketMQ change nothing here: %s", where, ", ".join(dict.fromkeys(ignored)))
    for key, value, source in given:
        if key not in known:
            if key in not_supported:
                _check_harmless(key, value, source, not_supported[key])
                continue
            if key in without_effect:
                continue
            raise _unknown(key, source, [*known, *not_supported, *without_effect])
        cls, field = known[key]
        chosen[cls][field.name] = _convert(cls, field, value, source)
    return tuple(_make(cls, chosen[cls]) for cls in classes)


def _names(field: dataclasses.Field[Any]) -> set[str]:
    return {field.name, java_name(field)} if field.init else set()


def _make(cls: type[Any], values: dict[str, Any]) -> Any:
    made = cls(**values)
    validate = getattr(made, "validate", None)
    if callable(validate):
        validate()
    return made


def _unknown(key: str, source: str, known: Collection[str]) -> UsageError:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else "write NAME=VALUE with a name that docs/reference/settings.md lists"
    return UsageError(f"unknown setting {key}", where=source, hint=hint)


def _check_harmless(key: str, value: Any, source: str, allowed: Collection[str]) -> None:
    if str(value).strip() not in allowed:
        raise UsageError(
            f"setting {key} = {value}: RocketLake does not have that",
            where=source,
            hint=" or ".join(["remove it", *(f"set it to {text}" for text in allowed if text)]),
        )


def _convert(cls: type[Any], field: dataclasses.Field[Any], value: Any, source: str) -> Any:
    wanted = typing.get_type_hints(cls)[field.name]
    name = java_name(field)
    try:
        converted = _to_type(wanted, value)
    except (ValueError, TypeError, KeyError):
        kind = _type_name(wanted)
        raise UsageError(f"setting {name} = {value!r} is not {kind}", where=source, hint=f"give it {kind}") from None
    if isinstance(converted, int | float) and not isinstance(converted, bool):
        low, high = field.metadata.get("low"), field.metadata.get("high")
        if field.metadata.get("clamped") and low is not None and high is not None and not low <= converted <= high:
            inside: int | float = max(low, min(converted, high))
            _log.warning("setting %s = %s counts as %s, as in RocketMQ (%s)", name, converted, inside, source)
            return inside
        if (low is not None and converted < low) or (high is not None and converted > high):
            allowed = f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
            raise UsageError(
                f"setting {name} = {converted} is out of range; it means: {field.metadata['why']}",
                where=source,
                hint=f"give it {allowed}",
            )
    return converted


def _to_type(wanted: Any, value: Any) -> Any:
    options = [option for option in typing.get_args(wanted) if option is not type(None)]
    if typing.get_origin(wanted) in (tuple, list):
        items = [item.strip() for item in re.split(r"[;,]", value)] if isinstance(value, str) else value
        kind = options[0] if options else str
        return typing.get_origin(wanted)(_to_type(kind, item) for item in items if item != "")
    if options:  # X | None
        return None if value is None or value == "" else _to_type(options[0], value)
    if not isinstance(value, str):
        if isinstance(wanted, type) and not isinstance(value, wanted | (int if wanted is float else wanted)):
            return wanted(value) if wanted is Path else _refuse(value)
        return value
    if wanted is bool:
        return {"true": True, "false": False}[value.lower()]
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return wanted[value]
    return wanted(value)


def _refuse(value: Any) -> Any:
    raise TypeError(value)


def _type_name(wanted: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", Path: "a path"}
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return "one of " + ", ".join(wanted.__members__)
    return names.get(wanted, str(wanted))


def _to_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return value.name
    return ";".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _entries(text: str) -> typing.Iterator[tuple[int, str, str]]:
    """Number of the line (from 1), key, value."""
    for number, line in _logical_lines(text):
        found = _SEPARATOR.fullmatch(line)
        if found is not None:
            yield number, _unescape(found.group(1)), _unescape(found.group(2)).strip()


def _logical_lines(text: str) -> typing.Iterator[tuple[int, str]]:
    """Lines without comments and blanks, by the number of their first part; a line that ends in an odd number of
    backslashes goes on in the next one."""
    pending = ""
    first = 0
    for number, raw in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        first = first if pending else number
        line = pending + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        pending = ""
        yield first, line
    if pending:
        yield first, pending


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return join_surrogates(_ESCAPE.sub(lambda found: _unescape_one(found.group(1)), text))


def _unescape_one(code: str) -> str:
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)


def _escape(text: str, *, is_key: bool) -> str:
    for plain, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\f", "\\f")):
        text = text.replace(plain, escaped)
    if is_key:
        return re.sub(r"([=:\s#!])", r"\\\1", text)
    return re.sub(r"^([=:])", r"\\\1", text)  # what the reader would take for the separator
