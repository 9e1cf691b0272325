"""Packages that not every installation has, and the extra that brings each.

Owns        the table of packages and extras, the text of the error when one is missing.
Must not know   which command needs which package: any import of a missing package ends here.
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
    "obstore": "lake",
    "pyiceberg": "lake",
    "fastavro": "lake",
    "google": "lake",
    "ngh2": "proxy",
}
"""Keyed by the name in the import statement; a test compares the table with pyproject.toml."""


def missing_extra(error: ImportError) -> RocketLakeError | None:
    """The error to show instead of a traceback; None if the missing package belongs to no extra."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(package)
    if extra is None:
        return None
    return RocketLakeError(
        f"this command needs the package {package}, which is not installed",
        hint=f"pip install 'rocketlake[{extra}]'; in a working copy: pip install -e '.[{extra}]'",
    )
