"""Apache's client for Rust on our broker; it has no push consumer, no change of the invisible time, no recall."""

from __future__ import annotations

import pytest

from tests.interop.grpc_matrix import Basics

pytestmark = pytest.mark.interop


class TestRust(Basics):
    language = "rust"
