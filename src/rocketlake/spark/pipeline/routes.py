"""Routes: the rows of each sink, as SQL conditions.

Owns        conditions from `match`, `where` and `otherwise`; names of routes.
Must not know   Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from zlib import crc32

from rocketlake.base.errors import UsageError
from rocketlake.spark.pipeline.environment import refuse_reference
from rocketlake.spark.pipeline.formats import DESTINATIONS
from rocketlake.spark.pipeline.keys import check_keys
from rocketlake.spark.pipeline.model import BAD_ROWS, Route, Sink, View
from rocketlake.spark.pipeline.yaml_text import Listing, Node, Section, Text

__all__ = ["match_condition", "read_routes", "sql_text"]

_ROUTES_MAX = 50
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def read_routes(
    node: Node, common: Section | None, read_sink: Callable[[Section], Sink], views: tuple[View, ...]
) -> tuple[Route, ...]:
    """All routes; those that say `otherwise` get the negation of the others."""
    if not isinstance(node, Listing) or not 0 < len(node.items) <= _ROUTES_MAX:
        hint = "- match: {tags: ...}\n  sink: {topic: ...}"
        raise UsageError(f"`route` is not a list of 1 to {_ROUTES_MAX} routes", where=node.where, hint=hint)
    routes: list[Route] = []
    rest: list[Route] = []
    for item in node.items:
        route, is_rest = _route(item, common, read_sink, views)
        if route.name in {other.name for other in (*routes, *rest)} | {BAD_ROWS}:
            what = f"two routes are called '{route.name}', which also names the checkpoint"
            raise UsageError(what, where=item.where, hint="give this one a `name`")
        (rest if is_rest else routes).append(route)
    return (*routes, *(_otherwise(route, routes) for route in rest))


def _route(
    node: Node, common: Section | None, read_sink: Callable[[Section], Sink], views: tuple[View, ...]
) -> tuple[Route, bool]:
    if not isinstance(node, Section):
        raise UsageError("a route is a mapping", where=node.where, hint="give it match, where or otherwise, and a sink")
    check_keys(node, "route")
    own = node.entries.get("sink")
    if own is not None and not isinstance(own, Section):
        raise UsageError("`sink` is not a mapping", where=node.key_places["sink"], hint="write sink: {topic: NAME}")
    merged = _merged(common, own, node.where)
    sink = read_sink(merged)
    view = _word(node, "from")
    if view and view not in {"source", *(known.name for known in views)}:
        known = ", ".join(["source", *(each.name for each in views)])
        raise UsageError(
            f"there is no view '{view}'", where=node.key_places["from"], hint=f"use one of the views: {known}"
        )
    is_rest = _word(node, "otherwise") == "true"
    condition = _condition(node)
    if is_rest == bool(condition):
        hint = "`match: {tags: ...}` or `where: SQL`; `otherwise: true` alone for the rest"
        raise UsageError("a route says which rows it takes", where=node.where, hint=hint)
    name = _word(node, "name") or _name_of(sink)
    if not _NAME.fullmatch(name):
        where = node.key_places.get("name", node.where)
        raise UsageError(f"'{name}' is no name for a route", where=where, hint="use letters, digits, _ . -")
    said = next((node.entries[key] for key in ("where", "match") if key in node.entries), node)
    return Route(name, sink, condition, view, said.where), is_rest


def _merged(common: Section | None, own: Section | None, where: str) -> Section:
    sections = [section for section in (common, own) if section is not None]
    if not sections:
        raise UsageError("a route has no `sink`", where=where, hint="add sink: {topic: NAME}")
    entries = {key: value for section in sections for key, value in section.entries.items()}
    places = {key: value for section in sections for key, value in section.key_places.items()}
    return Section(entries, places, sections[-1].where)


def _word(section: Section, key: str) -> str:
    node = section.entries.get(key)
    if node is None:
        return ""
    if not isinstance(node, Text):
        raise UsageError(f"`{key}` is not a text", where=section.key_places[key], hint=f"give {key} one value")
    return node.value.strip()


def _name_of(sink: Sink) -> str:
    """The name of a route, by its sink: so routes may change places in the file and keep their checkpoints."""
    target = sink.options.text(*DESTINATIONS)
    short = re.sub(r"[^A-Za-z0-9_.-]+", "-", target.rstrip("/").rpartition("/")[2]).strip("-.")
    return short if len(short) <= 80 and short else f"{short[:60]}{sink.format}-{crc32(target.encode()):08x}"


def _condition(node: Section) -> str:
    parts = []
    match = node.entries.get("match")
    if match is not None:
        if not isinstance(match, Section) or not match.entries:
            raise UsageError(
                "`match` is not a mapping", where=node.key_places["match"], hint="write match: {tags: 'A|B'}"
            )
        for column, pattern in match.entries.items():
            if not isinstance(pattern, Text):
                raise UsageError(
                    f"the pattern of {column} is not a text", where=pattern.where, hint="write it like tags: 'A|B'"
                )
            refuse_reference(pattern.value, "a pattern", pattern.where)
            parts.append(match_condition(column, pattern.value))
    where = _word(node, "where")
    if where:
        refuse_reference(where, "a condition", node.key_places["where"])
        parts.append(f"({where})")
    return " AND ".join(parts)


def _otherwise(route: Route, others: list[Route]) -> Route:
    taken = [f"coalesce({other.condition}, false)" for other in others if other.view == route.view]
    condition = f"NOT ({' OR '.join(taken)})" if taken else ""
    return Route(route.name, route.sink, condition, route.view, route.where)


def match_condition(column: str, pattern: str) -> str:
    """SQL: the whole value of the column matches the (Java) regular expression."""
    names = ".".join("`" + part.replace("`", "``") + "`" for part in column.split("."))
    return f"coalesce(cast({names} as string) RLIKE {sql_text(f'^(?:{pattern})$')}, false)"


def sql_text(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
