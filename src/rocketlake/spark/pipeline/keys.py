"""Every key of a pipeline file, in one table per section; help for misspelt ones.

Owns        names and meanings of keys (docs/how-to/pipelines.md lists the same), the nearest name.
Must not know   the effects of keys.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from rocketlake.base.errors import UsageError
from rocketlake.spark.pipeline.yaml_text import Section

__all__ = ["KEYS", "check_keys", "nearest"]

KEYS: Mapping[str, Mapping[str, str]] = {
    "pipeline": {
        "name": "name of the pipeline; default: the file's name",
        "source": "where rows come from (required)",
        "transform": "SQL over the view `source`, or several by name, each over those before it",
        "route": "list of routes; each row goes to every route it matches",
        "sink": "where rows go; with `route`: what the sinks of all routes have in common",
        "onError": "bodies that cannot be read: `fail` (default), `skip`, or `dlq:` with a sink",
        "checkpoint": "folder for Spark's checkpoints; default: `.rocketlake/NAME` beside the file",
        "trigger": "time between micro-batches, `5 seconds`; default: as soon as there is something",
        "spark": "settings of the Spark session",
    },
    "source": {
        "format": "`rocketmq` (default), `rocketmq_store`, or any other format of Spark",
        "body": "`raw` (default), `text`, or `json`: the fields of `schema` become columns",
        "schema": "with `body: json`: the fields, as `id bigint, at timestamp`; other formats: their columns",
        "watermark": "event time column and how late a row may be, `at 10 minutes`; windows need it",
        "read": "`stream` (default) or `batch`; `rocketmq_store` is always a batch",
    },
    "sink": {
        "format": "`rocketmq` (default), `rocketmq_lake`, `parquet`, `console`, `memory`, or any other of Spark",
        "partitionBy": "columns that name folders",
        "mode": "`append` (default), `complete` or `update`; Python formats, ours too, have no `update`",
    },
    "route": {
        "name": "name of its query and checkpoint; default: made from the sink's topic, table or path",
        "from": "view whose rows are routed; default: the last one",
        "match": "column: regular expression for the whole value; several must all match",
        "where": "SQL condition",
        "otherwise": "`true`: rows that no other route takes",
        "sink": "where these rows go",
    },
    "onError": {"dlq": "sink for bad rows, with the columns `reason`, position and the raw body"},
}


def check_keys(section: Section, kind: str) -> None:
    """UsageError for a key that this kind of section does not have, with its line and the nearest name."""
    for key, where in section.key_places.items():
        if key not in KEYS[kind]:
            raise UsageError(f"{kind} has no key '{key}'", where=where, hint=_hint(key, kind))


def _hint(key: str, kind: str) -> str:
    near = nearest(key, KEYS[kind])
    if near:
        return f"did you mean '{near}'?"
    elsewhere = [other for other, keys in KEYS.items() if key in keys and other != kind]
    known = "use one of " + ", ".join(KEYS[kind])
    return f"move it to {elsewhere[0]}; {known}" if elsewhere else known


def nearest(word: str, names: Mapping[str, object]) -> str:
    """The name that the user probably meant; "" if none is near."""
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[near[0]] if near else ""
