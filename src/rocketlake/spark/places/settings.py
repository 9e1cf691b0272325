"""The options of object stores: Iceberg's names, translated for each library.

Owns        names, which of them are secrets, reading secrets from where they are named, the words of each library.
Must not know   locations, tables.

A secret is named, not given: `env:NAME` or `file:/path`. Spark shows options in plans and logs, and sends them to
workers; each process reads the secret where it needs it. Without keys the libraries find their own: AWS_* variables,
web identity, the roles of containers and machines.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from rocketlake.base.errors import UsageError

__all__ = ["STORE_OPTIONS", "Settings", "check_secret", "library_options", "make_store", "resolved", "store_settings"]

STORE_OPTIONS: dict[str, str] = {
    "s3.endpoint": "address of a store that is not Amazon's, `http://127.0.0.1:9000`",
    "s3.region": "region of the bucket; default `AWS_REGION`, else `us-east-1`",
    "s3.access-key-id": "name of the key: `env:NAME` or `file:/path`, read on driver and workers",
    "s3.secret-access-key": "name of the secret: `env:NAME` or `file:/path`",
    "s3.session-token": "name of the token of temporary keys: `env:NAME` or `file:/path`",
    "s3.force-virtual-addressing": "`true`: the bucket stands in the host name; default `false` with `s3.endpoint`",
    "s3.connect-timeout": "seconds; default 5",
    "s3.request-timeout": "seconds for a whole request; default 30",
    "adls.account-name": "Azure's storage account",
    "adls.account-key": "name of its key: `env:NAME` or `file:/path`",
    "adls.sas-token": "name of a token: `env:NAME` or `file:/path`",
}

_SECRETS = frozenset(
    {"s3.access-key-id", "s3.secret-access-key", "s3.session-token", "adls.account-key", "adls.sas-token"}
)
_CRATE = {
    "s3.endpoint": "aws_endpoint",
    "s3.region": "aws_region",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.force-virtual-addressing": "aws_virtual_hosted_style_request",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_key",
}
"""Our name -> that of the object_store crate, which obstore and deltalake share."""

_TIMES = {"s3.connect-timeout": ("connect_timeout", 5), "s3.request-timeout": ("timeout", 30)}
_RETRIES = {"max_retries": "3", "retry_timeout": "60s"}

Settings = tuple[tuple[str, str], ...]


def store_settings(options: Mapping[str, str]) -> Settings:
    """Those of the options that are about stores, checked; UsageError for a secret that is given instead of named."""
    by_lower = {name.lower(): value for name, value in options.items()}
    found = tuple((name, by_lower[name].strip()) for name in STORE_OPTIONS if by_lower.get(name, "").strip())
    _check(found)
    return found


def check_secret(name: str, value: str) -> None:
    """UsageError for a secret that is given instead of named; the error does not repeat it."""
    if not value.startswith(("env:", "file:/")):
        raise UsageError(
            f"option '{name}' holds a value, and options are shown in plans and logs",
            hint=f"name where the value is kept: {name} = env:NAME (an environment variable), or file:/path",
        )


def _check(settings: Settings) -> None:
    for name, value in settings:
        if name in _SECRETS:
            check_secret(name, value)
        if name in _TIMES and not (value.isascii() and value.isdigit() and 0 < int(value) <= 3600):
            raise UsageError(f"option '{name}' is '{value}'", hint="give a whole number of seconds from 1 to 3600")
        if name == "s3.force-virtual-addressing" and value.lower() not in ("true", "false"):
            raise UsageError(f"option '{name}' is '{value}'", hint="write true or false")
        if name == "s3.endpoint" and not value.startswith(("http://", "https://")):
            raise UsageError(f"option '{name}' is '{value}'", hint="write it like https://store.example:9000")


def _secret(name: str, value: str) -> str:
    """The secret itself. UsageError if it is not where the option says, without a word of any secret."""
    kind, _, rest = value.partition(":")
    if kind == "env":
        found = os.environ.get(rest, "")
        if not found:
            raise UsageError(
                f"option '{name}' names the environment variable {rest}, which is not set in this process",
                hint=f"set {rest} for the driver and for the workers (spark.executorEnv.{rest})",
            )
        return found
    try:
        return Path(rest).read_text().strip()
    except OSError as error:
        raise UsageError(
            f"option '{name}' names the file {rest}, which cannot be read: {error.strerror}",
            hint="put it on the driver and on each worker, readable for Spark's user only",
        ) from None


def resolved(settings: Settings, more: frozenset[str] = frozenset()) -> dict[str, str]:
    """The settings with secrets (and those of `more`) instead of their names. In clear: never keep or show them."""
    named = {name for name, value in settings if name in _SECRETS | more and value.startswith(("env:", "file:/"))}
    return {name: _secret(name, value) if name in named else value for name, value in settings}


def _crate_options(scheme: str, settings: Settings) -> dict[str, str]:
    given = resolved(settings)
    family = {"s3": "s3.", "abfss": "adls."}.get(scheme, " ")
    options = {_CRATE[name]: value for name, value in given.items() if name in _CRATE and name.startswith(family)}
    if scheme == "s3" and "aws_region" not in options and not os.environ.get("AWS_REGION"):
        options["aws_region"] = os.environ.get("AWS_DEFAULT_REGION", "us-east-1")
    return options


def _client_options(settings: Settings) -> dict[str, str]:
    given = dict(settings)
    times = {theirs: f"{given.get(ours, default)}s" for ours, (theirs, default) in _TIMES.items()}
    plain = given.get("s3.endpoint", "").startswith("http://")
    return times | ({"allow_http": "true"} if plain else {})


def library_options(scheme: str, settings: Settings) -> dict[str, str]:
    """`storage_options` of deltalake. Secrets in clear."""
    return _crate_options(scheme, settings) | _client_options(settings) | _RETRIES


def make_store(scheme: str, bucket: str, settings: Settings) -> Any:
    """obstore's store of a bucket. Secrets in clear inside: it must not be pickled."""
    from obstore.store import AzureStore, GCSStore, S3Store

    given = dict(settings)
    client: Any = {
        theirs: timedelta(seconds=int(given.get(ours, default))) for ours, (theirs, default) in _TIMES.items()
    }
    if given.get("s3.endpoint", "").startswith("http://"):
        client["allow_http"] = True
    retry: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
    config: Any = _crate_options(scheme, settings)
    if scheme == "s3":
        return S3Store(bucket, config=config, client_options=client, retry_config=retry)
    if scheme == "gs":
        return GCSStore(bucket, config=config, client_options=client, retry_config=retry)
    return AzureStore(bucket, config=config, client_options=client, retry_config=retry)
