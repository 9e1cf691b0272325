"""The kernel of signatures and Python's hmac make the same ones."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketlake.base.pure_import import has_kernel

if not has_kernel("rocketlake.auth.keyed_sha1"):
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.auth.keyed_sha1 import KeyedSha1


@given(
    key=st.binary(max_size=200),
    texts=st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=300)), max_size=4),
    with_libcrypto=st.booleans(),
)
def test_both_sign_the_same(key: bytes, texts: list[tuple[bytes, bytes]], with_libcrypto: bool) -> None:
    signing = KeyedSha1(key, with_libcrypto=with_libcrypto)
    assert [signing.digest(*pieces) for pieces in texts] == [
        hmac.digest(key, b"".join(pieces), "sha1") for pieces in texts
    ]
