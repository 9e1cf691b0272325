"""The recorded state of a group: its JSON is fixed, and what is broken or newer is refused."""

from __future__ import annotations

import pytest

from rocketlake.base.errors import StoreError
from rocketlake.controller.group import EMPTY, Group, Member, from_json, group_key, to_json

THREE = Group(
    cluster="c",
    next_id=4,
    members={
        2: Member(address="b:2"),
        1: Member(address="a:1", ha_address="a:2", check_code="a:1;7", boot_id="x", host="d", life="l", min_in_sync=2),
        3: Member(address="c:3"),
    },
    master=1,
    master_epoch=5,
    masters={5: 1, 4: None},
    put_back=4,
    given_again=3,
    in_sync=frozenset({1}),
    in_sync_epoch=9,
    eligible=frozenset({3, 2}),
    min_in_sync=2,
    by="n0/17",
)
TEXT = (
    b'{"v":1,"cluster":"c","nextId":4,'
    b'"members":{"1":{"addr":"a:1","ha":"a:2","check":"a:1;7","boot":"x","host":"d","life":"l","min":2},'
    b'"2":{"addr":"b:2","ha":"","check":"","boot":"","host":"","life":"","min":1},'
    b'"3":{"addr":"c:3","ha":"","check":"","boot":"","host":"","life":"","min":1}},'
    b'"master":1,"masterEpoch":5,"masters":{"4":null,"5":1},"putBack":4,"again":3,'
    b'"sss":[1],"sssEpoch":9,"elr":[2,3],"doubt":[],"minIsr":2,"by":"n0/17"}'
)


def test_the_json_form_is_fixed() -> None:
    assert to_json(THREE) == TEXT
    assert from_json(TEXT) == THREE
    assert from_json(TEXT.replace(b'"host":"",', b"")) == THREE  # an earlier controller wrote it
    assert from_json(to_json(EMPTY)) == EMPTY
    assert group_key("broker-a") == "groups/broker-a"


def test_a_newer_format_is_refused_with_the_cure() -> None:
    with pytest.raises(StoreError, match=r"format 2.*upgrade this controller"):
        from_json(b'{"v":2,"shape":"unheard of"}', "groups/b")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"v":1', b'"v":1,"more":0'),
        (b'"sss":[1]', b'"sss":[1,4]'),
        (b'"sss":[1]', b'"sss":[2]'),
        (b'"sss":[1]', b'"sss":"1"'),
        (b'"doubt":[]', b'"doubt":[1]'),
        (b'"elr":[2,3]', b'"elr":[1,3]'),
        (b'"nextId":4', b'"nextId":3'),
        (b"}", b""),
        (b'"c"', b'"\xff"'),
    ],
)
def test_broken_text_is_refused_and_its_key_named(old: bytes, new: bytes) -> None:
    assert old in TEXT
    with pytest.raises(StoreError, match=r"broken.*groups/b"):
        from_json(TEXT.replace(old, new), "groups/b")
