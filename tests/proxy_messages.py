"""Messages of gRPC clients, drawn."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rocketlake.model import property_names as names
from rocketlake.proxy.convert.times import timestamp
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import Encoding, MessageType

NOW = 1_700_000_000_000
any_text = st.text(max_size=20)
words = st.text(st.characters(blacklist_categories=("Cc", "Cs")), min_size=1, max_size=20).filter(
    lambda text: not text.isspace()
)
keys = words.filter(lambda text: " " not in text)
own_names = words.filter(lambda text: text not in names.SYSTEM)


@st.composite
def messages(draw: st.DrawFn, text: Any, key: Any, name: Any) -> Any:
    """A v2.Message whose fields are set or not."""
    fields: dict[str, Any] = {"message_id": draw(text), "keys": draw(st.lists(key, max_size=3))}
    optional = {
        "tag": text.map(lambda tag: tag.replace("|", "/")),
        "message_group": text,
        "trace_context": text,
        "born_host": text,
        "lite_topic": st.from_regex(r"\A[a-z0-9_-]{1,20}\Z"),
        "priority": st.integers(0, 9),
        "delivery_timestamp": st.integers(0, NOW).map(timestamp),
        "born_timestamp": st.integers(0, NOW).map(timestamp),
        "message_type": st.sampled_from([MessageType.NORMAL, MessageType.FIFO, MessageType.TRANSACTION]),
        "body_encoding": st.sampled_from([Encoding.IDENTITY, Encoding.GZIP]),
        "queue_id": st.integers(0, 9),
    }
    for field in draw(st.sets(st.sampled_from(sorted(optional)))):
        fields[field] = draw(optional[field])
    return v2.Message(
        topic=v2.Resource(name="T"),
        user_properties=draw(st.dictionaries(name, text, max_size=4)),
        system_properties=v2.SystemProperties(**fields),
        body=draw(st.binary(max_size=50)),
    )
