"""Packages that not every installation has, and the extra that brings each.

Owns        the table of packages and extras, the text of the error when one is missing.
Must not know   which command needs what: whatever imports a missing package ends up here.
"""

from __future__ import annotations

from rocketlake.base.errors import RocketLakeError

__all__ = ["EXTRA_OF", "missing_extra"]

EXTRA_OF = {
    "pyspark": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "numpy": "spark",
    "yaml": "spark",
    "prometheus_client": "spark",
    "deltalake": "lake",
    "pyiceberg": "lake",
    "fastavro": "lake",
    "google": "lake",
}
"""By the name that is imported; a test compares it with pyproject.toml."""


def missing_extra(error: ImportError) -> RocketLakeError | None:
    """The error to show instead of a traceback; None if what is missing belongs to no extra."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(package)
    if extra is None:
        return None
    return RocketLakeError(
        f"this command needs the package {package}, which is not installed",
        hint=f"pip install 'rocketlake[{extra}]'; in a working copy: pip install -e '.[{extra}]'",
    )
