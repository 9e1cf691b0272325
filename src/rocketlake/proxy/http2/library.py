"""The HTTP/2 library: which one it is, and what to do without it.

Owns        the choice.
Must not know   what an engine does.
"""

from __future__ import annotations

from rocketlake.base.errors import UsageError
from rocketlake.proxy.http2.engine import Engine, Streams
from rocketlake.proxy.http2.limits import GrpcLimits

__all__ = ["check_library", "make_engine"]


def check_library() -> None:
    """UsageError if the library is not installed."""
    try:
        import ngh2  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the gRPC port needs the package {error.name}", hint="pip install 'rocketlake[proxy]'"
        ) from None


def make_engine(streams: Streams, limits: GrpcLimits) -> Engine:
    """The engine of a new connection."""
    from rocketlake.proxy.http2.ngh2_engine import Ngh2Engine

    return Ngh2Engine(streams, limits)
