"""Owns which releases of Apache's brokers a test meets: one in the suite, both in `make ha-matrix`."""

from __future__ import annotations

import os

import pytest

from interop.apache import PeerMissing, classpath

_ASKED = os.environ.get("ROCKETLAKE_APACHE_RELEASES", "")


def releases(usual: str) -> list[str]:
    """Names of jars, `server` for 5.3.3 and `server550` for 5.5.0; `usual` is that of the suite."""
    return (_ASKED or usual).split()


def jars_of(peer: str) -> None:
    """Have these jars on this machine, else skip the test."""
    try:
        classpath(peer)
    except PeerMissing as missing:
        pytest.skip(str(missing))
