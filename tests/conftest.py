"""What several folders of tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from interop.apache import PeerMissing, compiled_drivers

# Both measure this machine, not the code: with both cores busy they fail tests at random.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# A shell that starts the tests in the background has them ignore Ctrl-C, with all programs that they start. Some tests
# press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the 11,000 tests themselves from Python's garbage collector: it looked at them again and again, held all
    threads for two to four seconds with three processes at work, and what a test waited for in that time failed."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def apache_jars() -> None:
    """Fetch and compile what the peers need; a missing peer is a skip by name, and a failure under CI=true."""
    try:
        for name in ("server", "client49"):
            compiled_drivers(name)
    except PeerMissing as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI needs this peer: {reason}")
        pytest.skip(str(reason))
