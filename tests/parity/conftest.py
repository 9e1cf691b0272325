"""What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.parity.forms import Twin


@pytest.fixture
def twin() -> Callable[[str], Twin]:
    """`twin("rocketlake.codec.property_text").same("decode", data)`; skips by name if it is not compiled."""
    return Twin
