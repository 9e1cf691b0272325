from __future__ import annotations

import copy
import pickle

import pytest

from rocketlake.base.errors import (
    InternalError,
    LinkError,
    ProtocolError,
    RemoteError,
    RocketLakeError,
    StoreError,
    UsageError,
)


def test_text_says_what_where_and_the_cure():
    error = UsageError("no such topic", where="producer p", hint="create it")
    assert str(error) == "no such topic (producer p). Cure: create it"
    assert str(LinkError("gone")) == "gone"


def test_a_remote_error_names_the_peer_and_keeps_its_answer():
    error = RemoteError("refused", code=17, remark="topic not exist", address="127.0.0.1:10911")
    assert (error.code, error.remark, error.address) == (17, "topic not exist", "127.0.0.1:10911")
    assert "127.0.0.1:10911" in str(error)


def test_a_store_error_names_file_and_position():
    assert str(StoreError("bad record", path="/s/0", offset=12)) == "bad record (/s/0 at 12)"
    assert str(StoreError("no room", path="/s/0")) == "no room (/s/0)"


ALL = [
    UsageError("u", hint="h"),
    LinkError("l", where="w"),
    ProtocolError("p"),
    InternalError("i"),
    RemoteError("r", code=1, remark="x", address="a"),
    StoreError("s", path="f", offset=3),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_every_error_has_the_one_root_and_survives_a_process_border(error):
    assert isinstance(error, RocketLakeError)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own bytes
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.__dict__ == error.__dict__
