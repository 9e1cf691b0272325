from __future__ import annotations

import pytest

from rocketlake.base.crc32 import crc32
from rocketlake.base.java.java_compat import string_hash


@pytest.mark.parametrize(
    ("text", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("polygenelubricants", -(2**31)),  # the well-known text whose hash is Integer.MIN_VALUE
        ("中文", 20013 * 31 + 25991),
        ("😀", 0xD83D * 31 + 0xDE00),
    ],
)
def test_string_hash_is_the_one_of_java(text, hash_code):
    assert string_hash(text) == hash_code


def test_crc32_is_never_negative():
    assert crc32(b"123456789") == 0xCBF43926 & 0x7FFFFFFF
    assert crc32(b"") == 0
