"""Apache's client for Node on our broker."""

from __future__ import annotations

import pytest

from tests.interop.grpc_matrix import Basics, Pushes, Recalls, Renewals

pytestmark = pytest.mark.interop


class TestNode(Basics, Renewals, Pushes, Recalls):
    language = "node"

    async def test_a_message_with_a_priority_is_refused(self) -> None:
        await self.create("Urgent")
        (refusal,) = self.send("Urgent", {"body": "urgent", "priority": 3})
        assert "not match with topic accept message types" in refusal
