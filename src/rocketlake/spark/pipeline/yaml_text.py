"""YAML with line numbers: sections, lists and texts, nothing else.

Owns        limits of a YAML file, one error form that names file and line.
Must not know   which keys a pipeline has (read.py).

Scalars stay the text that was written: `100_000`, `true` and `0x10` are read by the format that gets the option.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import yaml

from rocketlake.base.errors import UsageError

__all__ = ["Listing", "Node", "Section", "Text", "option_text", "parse_yaml", "read_yaml"]

_BYTES_MAX = 1 << 20
_DEPTH_MAX = 20


@dataclass(frozen=True)
class Text:
    """A scalar as it was written, without quotes; `where` is file and line of its first character."""

    value: str
    where: str
    line_ends: tuple[int, ...] = field(default=(), compare=False)
    """Characters other than blanks before the end of each of its lines; YAML may have joined the lines."""


@dataclass(frozen=True)
class Listing:
    """A list."""

    items: tuple[Node, ...]
    where: str


@dataclass(frozen=True)
class Section:
    """A mapping; the order of its keys is kept."""

    entries: Mapping[str, Node]
    key_places: Mapping[str, str]
    where: str


Node = Text | Listing | Section


def read_yaml(path: Path) -> Section:
    """The file as one section. UsageError if it cannot be read or is no mapping."""
    try:
        with path.open("rb") as file:
            raw = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="give the path of a pipeline file") from error
    if len(raw) > _BYTES_MAX:
        raise UsageError(f"{path} is larger than {_BYTES_MAX:,} bytes", hint="give a pipeline file: it has a few lines")
    return parse_yaml(raw, path.name)


def parse_yaml(raw: bytes, name: str) -> Section:
    """The text as one section; `name` stands for it in errors."""
    try:
        root = yaml.compose(raw.decode(), Loader=_Loader)
    except UnicodeDecodeError as error:
        where = f"{name}, byte {error.start}"
        raise UsageError("the file is not UTF-8", where=where, hint="save it as UTF-8") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"this is not YAML: {error.problem}", where=f"{name}, line {line}", hint=_CURE) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"this is not YAML: {str(error)[:200]}", where=name, hint=_CURE) from None
    node = _convert(root, name, 0) if root is not None else None
    if not isinstance(node, Section):
        raise UsageError("a pipeline is a mapping of keys", where=f"{name}, line 1", hint="begin with `source:`")
    return node


_CURE = "look for a missing blank after a colon, uneven indents, or a text with : or # that needs quotes"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        # An alias lets ten lines stand for a billion; pipelines have no need for them.
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not allowed", problem_mark=mark)
        return super().compose_node(parent, index)


def _convert(node: yaml.Node, name: str, depth: int) -> Node:
    where = f"{name}, line {node.start_mark.line + 1}"
    if depth > _DEPTH_MAX:
        raise UsageError(f"deeper than {_DEPTH_MAX} levels", where=where, hint="write it flatter")
    if isinstance(node, yaml.ScalarNode):
        return _text(node, name)
    if isinstance(node, yaml.SequenceNode):
        return Listing(tuple(_convert(item, name, depth + 1) for item in node.value), where)
    entries: dict[str, Node] = {}
    places: dict[str, str] = {}
    for key, value in node.value:
        place = f"{name}, line {key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise UsageError("a key is a plain word", where=place, hint="write `key: value`")
        if key.value in entries:
            raise UsageError(
                f"key '{key.value}' stands twice", where=place, hint=f"remove one; the first is in {places[key.value]}"
            )
        entries[key.value] = _convert(value, name, depth + 1)
        places[key.value] = place
    return Section(entries, places, where)


def _text(node: yaml.ScalarNode, name: str) -> Text:
    mark, end = node.start_mark, node.end_mark
    line = mark.line
    raw = mark.buffer[mark.pointer : end.pointer] if mark.buffer else node.value
    if node.style in ("|", ">"):
        raw, line = raw.partition("\n")[2], line + 1
    written = raw.lstrip("\r\n")
    line += raw[: len(raw) - len(written)].count("\n")
    ends = list(accumulate(len("".join(part.split())) for part in written.split("\n")))
    return Text(node.value, f"{name}, line {line + 1}", tuple(ends))


def option_text(node: Node) -> str:
    """A value for a format's option: a text as it is, a list of texts with commas, anything deeper as JSON."""
    if isinstance(node, Text):
        return node.value
    if isinstance(node, Listing) and all(isinstance(item, Text) for item in node.items):
        return ",".join(option_text(item) for item in node.items)
    return json.dumps(_plain(node))


def _plain(node: Node) -> object:
    if isinstance(node, Section):
        return {key: _plain(value) for key, value in node.entries.items()}
    if isinstance(node, Listing):
        return [_plain(item) for item in node.items]
    digits = node.value.removeprefix("-")
    return int(node.value) if digits.isascii() and digits.isdigit() else node.value
