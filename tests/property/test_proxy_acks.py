"""The frame of an acknowledgement that the proxy writes without a command, against the command's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketlake.model.pop import NO_RETRY, RETRY_V1, RETRY_V2, PopHandle
from rocketlake.protocol.frame import encode_command
from rocketlake.proxy.convert.receipts import Receipt
from rocketlake.proxy.services.received import ack_frame, ack_request

longs = st.integers(-(1 << 63) + 1, (1 << 63) - 1)
ints = st.integers(-(1 << 31) + 1, (1 << 31) - 1)
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
marks = st.sampled_from((NO_RETRY, RETRY_V1, RETRY_V2))
handles = st.builds(PopHandle, longs, longs, longs, ints, marks, texts, ints, longs)


@given(texts, texts, st.builds(Receipt, handles), st.integers(0, (1 << 31) - 1))
def test_an_acknowledgement_has_the_bytes_of_its_command(topic: str, group: str, receipt: Receipt, opaque: int) -> None:
    command = ack_request(topic, group, receipt)
    command.opaque = opaque
    assert ack_frame(topic, group, receipt, opaque) == b"".join(map(bytes, encode_command(command)))
