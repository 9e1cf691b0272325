"""Lite messages that are read in runs and one by one: the same table of light queues."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.pure_import import has_kernel

if not has_kernel("rocketlake.broker.lite.lite_run"):
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.broker.lite.lite_messages import LiteMessages
from rocketlake.broker.lite.lite_run import LiteCutter
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.topic import TopicConfig
from rocketlake.store.config import StoreConfig
from rocketlake.store.log_window import LogWindow
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage
from tests.unit.broker.lite.light_world import light_queues

PARENT = "Parent"
ROOT = Path("/store")
SMALL = StoreConfig(index_enabled=False, commit_log_file_bytes=64 * 1024, consume_queue_file_bytes=2000)

lites = st.sampled_from(["a", "b", "c", "long-" * 10, "", "\u00e9"])
numbers = st.sampled_from([*map(str, range(8)), "007", "9" * 18, "9" * 19, "-1", "x", "", "\u0663"])
before = st.sampled_from(["", "", "0 1", "x", "\u00e9"])
pairs = st.one_of(
    st.tuples(st.just("__LITE_TOPIC"), lites),
    st.tuples(st.just("INNER_MULTI_QUEUE_OFFSET"), numbers),
    st.tuples(st.just("__RL_LITE_BEFORE"), before),
    st.tuples(st.sampled_from(["KEYS", "x__LITE_TOPIC", "__LITE_TOPICS", ""]), st.sampled_from(["k", "", "\u00e9"])),
)
whole = st.builds(
    lambda lite, number, before: [("__LITE_TOPIC", lite), ("INNER_MULTI_QUEUE_OFFSET", number), *before],
    *(lites, numbers, st.sampled_from([[], [("__RL_LITE_BEFORE", "0 1")]])),
)
odd = st.sampled_from(
    [b"", b"\x02", b"\x01\x02", b"__LITE_TOPIC", b"__LITE_TOPIC\x01", b"\x02__LITE_TOPIC\x01a\x01b\x02"]
)
messages = st.one_of(whole, whole, whole, st.lists(pairs, max_size=5)).map(
    lambda found: "".join(f"{name}\x01{value}\x02" for name, value in found).encode()
)


async def table(
    store: MessageStore, topics: TopicTable, clock: ManualClock, *, in_runs: bool
) -> dict[str, dict[int, int]]:
    messages = LiteMessages(store, LiteCutter(LogWindow(store.fetch.window)) if in_runs else None)
    queues = light_queues(store, topics, clock, messages=messages)
    await queues.start()
    queues.lead()
    while not queues.is_ready:
        await clock.run_for(50)
    await queues.stop()
    return {parent: dict(chain.from_iterable(ends.steps(500))) for parent, ends in queues._ends.items()}


@given(texts=st.lists(st.one_of(messages, messages, odd), max_size=40))
@settings(max_examples=60)
async def test_both_make_the_same_table(texts: list[bytes]) -> None:
    clock = ManualClock()
    files = MemoryFiles(clock=clock)
    topics = TopicTable(ROOT / "topics.json", files, clock)
    topics.put(TopicConfig(PARENT, read_queues=2, write_queues=2, attributes={"message.type": "LITE"}))
    store = MessageStore(ROOT, SMALL, files=files, clock=clock)
    async with store:
        for number, text in enumerate(texts):
            assert store.put(PutMessage(PARENT, number % 2, b"body", properties=text)).status.is_stored
            clock.advance(number % 3 * 700)
        found = [await table(store, topics, clock, in_runs=in_runs) for in_runs in (True, False)]
        assert found[0] == found[1]


async def test_plain_messages_are_read_in_one_run() -> None:
    """Without this, both could go the ordinary way."""
    clock = ManualClock()
    store = MessageStore(ROOT, SMALL, files=MemoryFiles(clock=clock), clock=clock)
    async with store:
        for number in range(5):
            text = f"__LITE_TOPIC\x01a\x02INNER_MULTI_QUEUE_OFFSET\x01{number}\x02__RL_LITE_BEFORE\x010 1\x02"
            store.put(PutMessage(PARENT, 0, b"body", properties=text.encode()))
        await clock.settle()
        entries = store.packed_entries(PARENT, 0, store.min_offset(PARENT, 0), 9)
        found, taken = LiteCutter(LogWindow(store.fetch.window)).cut(entries, PARENT.encode())
        assert found == [("a", number, True, clock.now_ms()) for number in range(5)]
        assert taken == 5
        assert LiteCutter(LogWindow(store.fetch.window)).cut(entries, b"Other") == ([None] * 5, 5)
