"""Apache's client for Go on our broker."""

from __future__ import annotations

import pytest

from tests.interop.grpc_matrix import Basics, Pushes, Renewals

pytestmark = pytest.mark.interop


class TestGo(Basics, Renewals, Pushes):
    language = "go"
