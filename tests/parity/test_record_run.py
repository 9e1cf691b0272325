"""The kernel that encodes runs of records; what whole runs look like: test_plain_sends.py."""

from __future__ import annotations

import os

import pytest

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.codec import record_run


@pytest.mark.parametrize("name", ["", "x" * 128, "Thé"])
def test_a_topic_that_no_run_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError):
        record_run.RunTopic(name)
