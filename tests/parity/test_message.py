from __future__ import annotations

import copy
import pickle
from functools import partial

import pytest

NAME = "rocketlake.model.message"
MESSAGE = ("body", "flag", "properties", "topic")
STORED = (
    *MESSAGE, "body_crc", "born_host", "born_ms", "broker_name", "physical_offset", "prepared_transaction_offset",
    "queue_id", "queue_offset", "reconsume_times", "store_host", "store_ms", "store_size", "sys_flag",
    "message_id", "offset_message_id", "message_queue", "tags", "keys", "key_list", "delay_level", "wait_store_ok",
    "unique_key", "sharding_key", "retry_topic", "user_properties",
)  # fmt: skip


def alike(pair, kind, members, change, *args, **kwargs):
    """Both forms make the same object, change it in the same way, or fail in the same way."""
    results = []
    for form in (pair.source, pair.compiled):
        try:
            message = getattr(form, kind)(*args, **kwargs)
            change(message)
            results.append(([getattr(message, name) for name in members], repr(message)))
        except Exception as error:
            results.append((type(error), None if isinstance(error, TypeError | AttributeError) else str(error)))
    assert results[0] == results[1]
    return results[0]


def nothing(message):
    pass


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("T",), {}),
        (("T", bytearray(b"x")), {"tags": "a", "keys": ["k", "l"], "properties": {"m": "n"}, "flag": 3}),
        (("T", memoryview(b"x")), {"keys": "k l", "delay_level": 5, "sharding_key": "s"}),
        ((), {}),
        (("T", "text"), {}),
        (("T", 5), {}),
        (("T", b"", "tag"), {}),
        (("T",), {"keys": 7}),
        (("T",), {"properties": 7}),
        (("T",), {"unknown": 1}),
        ((None, None), {}),
    ],
)
def test_messages_are_made_alike(twin, args, kwargs):
    alike(twin(NAME), "Message", MESSAGE, nothing, *args, **kwargs)


def test_stored_messages_are_made_alike(twin):
    pair = twin(NAME)
    alike(pair, "StoredMessage", STORED, nothing, "T")
    made = {"properties": {"KEYS": "a b", "UNIQ_KEY": "u"}, "broker_name": "b", "queue_id": 2**40, "store_size": -1}
    alike(pair, "StoredMessage", STORED, nothing, "T", b"x", **made)
    assert alike(pair, "StoredMessage", STORED, nothing, "T", b"", "properties")[0] is TypeError


@pytest.mark.parametrize(
    ("name", "value"),
    [("tags", None), ("keys", "k"), ("delay_level", 0), ("delay_level", 9), ("wait_store_ok", False), ("flag", "odd"),
     ("unique_key", "u"), ("sharding_key", "s"), ("topic", None), ("properties", {"a": "b"}), ("nothing_known", 1),
     ("retry_topic", "read only")],
)  # fmt: skip
def test_attributes_are_set_alike(twin, name, value):
    alike(twin(NAME), "StoredMessage", STORED, lambda message: setattr(message, name, value), "T", properties={"a": ""})


@pytest.mark.parametrize(("name", "value"), [("mine", "v"), ("KEYS", "v"), ("", "v"), ("n\x01", "v"), ("n", 5)])
def test_user_properties_are_put_alike(twin, name, value):
    alike(twin(NAME), "Message", MESSAGE, lambda message: message.put_user_property(name, value), "T")


def test_properties_are_read_when_asked_for(twin):
    for form in (twin(NAME).source, twin(NAME).compiled):
        calls = []
        message = form.StoredMessage("T")
        message.lazy_properties = lambda calls=calls: calls.append(1) or {"TAGS": "a"}
        assert not calls
        assert (message.tags, message.tags) == ("a", "a")
        assert calls == [1]
        message.tags = "b"
        assert message.properties == {"TAGS": "b"}


def test_equality_and_copies(twin):
    for form in (twin(NAME).source, twin(NAME).compiled):
        one = form.StoredMessage("T", b"x", properties={"a": "b"}, queue_offset=5)
        lazy = form.StoredMessage("T", b"x", queue_offset=5)
        lazy.lazy_properties = partial(dict, a="b")
        assert one == lazy
        assert one != form.StoredMessage("T", b"x", queue_offset=6)
        assert form.Message("T", b"x") != form.StoredMessage("T", b"x")
        assert copy.copy(one) == one == copy.deepcopy(one)
        with pytest.raises(TypeError):
            hash(one)
    stored = twin(NAME).compiled.StoredMessage("T", b"x", properties={"a": "b"}, queue_offset=5)
    assert pickle.loads(pickle.dumps(stored)) == stored  # noqa: S301 - our own bytes


def test_messages_can_be_subclassed(twin):
    for form in (twin(NAME).source, twin(NAME).compiled):

        class Own(form.Message):
            pass

        own = Own("T", b"x", tags="a")
        own.more = 1
        assert (own.tags, own.more) == ("a", 1)
