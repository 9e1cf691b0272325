"""Catalogs in which Iceberg tables have a name: their options.

Owns        names of options, which of them are secrets, the words of pyiceberg.
Must not know   tables; pyiceberg is called in tables/iceberg_catalog.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketlake.base.errors import UsageError
from rocketlake.spark.places.settings import STORE_OPTIONS, Settings, check_secret, resolved

__all__ = ["CATALOG_OPTIONS", "catalog_properties", "catalog_settings", "namespace_of"]

CATALOG_OPTIONS: dict[str, str] = {
    "catalog.type": "iceberg: `rest` or `sql`; without it the catalog is a file beside the data, on a disk",
    "catalog.uri": "address of the catalog, `https://host/api` or `sqlite:////data/catalog.db`; if it holds a "
    "password, its name: `env:NAME` or `file:/path`",
    "catalog.warehouse": "the warehouse, for a REST catalog that has several",
    "catalog.credential": "rest: name of `id:secret`, as `env:NAME` or `file:/path`",
    "catalog.token": "rest: name of a token, as `env:NAME` or `file:/path`",
    "catalog.namespace": "namespace of the tables, default `lake`; a table has the name of its folder",
}

_SECRETS = frozenset({"catalog.credential", "catalog.token"})
_TYPES = ("rest", "sql")


def catalog_settings(options: Mapping[str, str]) -> Settings:
    """Those of the options that are about catalogs, checked."""
    by_lower = {name.lower(): value.strip() for name, value in options.items()}
    found = {name: by_lower[name] for name in CATALOG_OPTIONS if by_lower.get(name)}
    if not found:
        return ()
    if found.get("catalog.type") not in _TYPES:
        raise UsageError(
            f"option 'catalog.type' is '{found.get('catalog.type', '')}'", hint=f"write one of {', '.join(_TYPES)}"
        )
    if "catalog.uri" not in found:
        raise UsageError("option 'catalog.uri' is missing", hint=f"give {CATALOG_OPTIONS['catalog.uri']}")
    for name, value in found.items():
        if name in _SECRETS or (name == "catalog.uri" and "@" in value):
            check_secret(name, value)
    return tuple(found.items())


def namespace_of(settings: Settings) -> str:
    """The namespace of all tables."""
    return dict(settings).get("catalog.namespace", "lake")


def catalog_properties(settings: Settings) -> dict[str, str]:
    """Properties of pyiceberg's catalog, which are those of its files, too. Secrets in clear."""
    whole = resolved(settings, _SECRETS | {"catalog.uri"})
    prefix = "catalog."
    said = {name.removeprefix(prefix): value for name, value in whole.items() if name.startswith(prefix)}
    said.pop("namespace", None)
    store = {name: value for name, value in whole.items() if name in STORE_OPTIONS}
    if any(name.startswith("s3.") for name in store):
        store.setdefault("s3.region", "us-east-1")
    return said | store | {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
