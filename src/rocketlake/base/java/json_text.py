"""JSON as Java peers write it.

Owns        reading fastjson's dialect, writing standard JSON and the old flavour with unquoted number keys.
Must not know   the meaning of the JSON. Pretty text of configuration files: java_pretty.py.

Beyond JSON a reader must take: number keys without quotes, whole objects as keys (a map keyed by MessageQueue; here the
key becomes the object's JSON text, members sorted), single quotes, unquoted names, stray commas, comments, and
{"$ref": ...} (left as it is). Standard JSON is read by msgspec; only a text that msgspec refuses is read here.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

__all__ = ["DEPTH_MAX", "TEXT_BYTES_MAX", "JsonError", "join_surrogates", "parse", "to_text", "to_text_unquoted_keys"]

TEXT_BYTES_MAX = 64 * 1024 * 1024
DEPTH_MAX = 64

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()

_SKIP = re.compile(r"(?:[\s\0\ufeff]+|/\*.*?\*/|//[^\n]*)+", re.DOTALL)
_STRING = re.compile(r"""("[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*')""", re.DOTALL)
_NUMBER = re.compile(
    r"[-+]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,4})?[LSBFDlsbfd]?(?![\w.])"
)
_NAME = re.compile(r"[A-Za-z_$][\w$.-]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "NaN": None, "undefined": None}


class JsonError(ValueError):
    """The text is JSON in no dialect that we know; the error names the position."""


def parse(data: bytes | bytearray | memoryview | str) -> Any:
    """Text -> dict, list, str, int, float, bool, None. JsonError if it is broken, too long or nested too deeply."""
    if len(data) > TEXT_BYTES_MAX:
        raise JsonError(f"JSON of {len(data)} bytes, the limit is {TEXT_BYTES_MAX}")
    try:
        value = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _Reader(_as_text(data)).document()
    if _is_deeper(value, DEPTH_MAX):
        raise JsonError(f"JSON nested deeper than {DEPTH_MAX}")
    return value


def to_text(value: Any) -> bytes:
    """Standard JSON in UTF-8, no spaces; number keys are quoted."""
    return _encoder.encode(value)


def to_text_unquoted_keys(value: Any) -> bytes:
    """As to_text, but number keys stand without quotes: the form for clients before 4.9.4; some read no other."""
    parts: list[bytes] = []
    _write(msgspec.to_builtins(value), parts)
    return b"".join(parts)


def _write(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, dict):
        separator = b"{"
        for key, member in value.items():
            parts.append(separator)
            parts.append(_encoder.encode(key))
            parts.append(b":")
            _write(member, parts)
            separator = b","
        parts.append(b"}" if value else b"{}")
    elif isinstance(value, list | tuple):
        separator = b"["
        for element in value:
            parts.append(separator)
            _write(element, parts)
            separator = b","
        parts.append(b"]" if value else b"[]")
    else:
        parts.append(_encoder.encode(value))


def _as_text(data: bytes | bytearray | memoryview | str) -> str:
    if isinstance(data, str):
        return data
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise JsonError(f"JSON is not UTF-8 at byte {error.start}") from None


def _is_deeper(value: Any, depth: int) -> bool:
    if depth < 0:
        return True
    if isinstance(value, dict):
        return any(_is_deeper(member, depth - 1) for member in value.values() if isinstance(member, dict | list))
    if isinstance(value, list):
        return any(_is_deeper(element, depth - 1) for element in value if isinstance(element, dict | list))
    return False


class _Reader:
    """A recursive descent over the text, tolerant where fastjson is."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def document(self) -> Any:
        value = self._value(0)
        if self._peek():
            raise self._error("text after the end")
        return value

    def _peek(self) -> str:
        """The next character that is neither space nor comment, "" at the end."""
        text = self._text
        if self._position < len(text) and text[self._position] in " \t\r\n\0\ufeff/":
            skipped = _SKIP.match(text, self._position)
            if skipped is not None:
                self._position = skipped.end()
        return text[self._position : self._position + 1]

    def _value(self, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise JsonError(f"JSON nested deeper than {DEPTH_MAX}")
        character = self._peek()
        if character == "{":
            return self._object(depth)
        if character == "[":
            return self._array(depth)
        if character == '"' or character == "'":
            return self._string()
        if character and character in "+-.0123456789":
            return self._number()
        word = self._name()
        if word not in _WORDS:
            raise self._error(f"unknown word {word[:20]!r}")
        return _WORDS[word]

    def _object(self, depth: int) -> dict[str, Any]:
        self._position += 1
        members: dict[str, Any] = {}
        while (character := self._peek()) != "}":
            if character == ",":
                self._position += 1
                continue
            key = self._key(depth)
            if self._peek() != ":":
                raise self._error("':' expected")
            self._position += 1
            members[key] = self._value(depth + 1)
            if self._peek() not in ("}", ","):
                raise self._error("',' or '}' expected")
        self._position += 1
        return members

    def _array(self, depth: int) -> list[Any]:
        self._position += 1
        elements: list[Any] = []
        while (character := self._peek()) != "]":
            if character == ",":
                self._position += 1
                continue
            elements.append(self._value(depth + 1))
            if self._peek() not in ("]", ","):
                raise self._error("',' or ']' expected")
        self._position += 1
        return elements

    def _key(self, depth: int) -> str:
        character = self._peek()
        if character == '"' or character == "'":
            return self._string()
        if character == "{" or character == "[":
            return json.dumps(self._value(depth + 1), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        if character and character in "+-.0123456789":
            return str(self._number())
        return self._name()

    def _name(self) -> str:
        found = _NAME.match(self._text, self._position)
        if found is None:
            raise self._error("value or name expected")
        self._position = found.end()
        return found.group()

    def _number(self) -> int | float:
        found = _NUMBER.match(self._text, self._position)
        if found is None:
            raise self._error("broken number")
        self._position = found.end()
        digits = found.group().rstrip("LSBFDlsbfd")
        try:
            return int(digits)
        except ValueError:
            return float(digits)

    def _string(self) -> str:
        found = _STRING.match(self._text, self._position)
        if found is None:
            raise self._error("unclosed string")
        self._position = found.end()
        inner = found.group()[1:-1]
        if "\\" in inner:
            inner = _ESCAPE.sub(_unescape, inner)
        return join_surrogates(inner)

    def _error(self, what: str) -> JsonError:
        return JsonError(f"{what} at character {self._position} of the JSON text")


def _unescape(found: re.Match[str]) -> str:
    code = found.group(1)
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, code)


def join_surrogates(text: str) -> str:
    """Text whose characters were escaped as Java does, in halves: pairs become characters, single halves U+FFFD."""
    return _SURROGATES.sub(_joined, text)


def _joined(found: re.Match[str]) -> str:
    pair = found.group()
    if len(pair) == 2:
        return chr(0x10000 + ((ord(pair[0]) - 0xD800) << 10) + (ord(pair[1]) - 0xDC00))
    return "\ufffd"  # half a pair cannot be written as UTF-8 later
