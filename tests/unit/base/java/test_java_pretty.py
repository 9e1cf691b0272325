from __future__ import annotations

import pytest

from rocketlake.base.java.java_pretty import to_pretty_text


def test_text_keys_stand_on_lines_of_their_own_with_tabs_and_no_space_after_the_colon() -> None:
    assert to_pretty_text({"a": 1, "b": {"c": "x"}}) == '{\n\t"a":1,\n\t"b":{\n\t\t"c":"x"\n\t}\n}'


def test_number_keys_are_unquoted_and_stay_on_the_line() -> None:
    # Copied from a consumerOffset.json: {0:250,1:251 and the closing brace on the next line.
    assert to_pretty_text({"T@g": {0: 250, 1: 251}}) == '{\n\t"T@g":{0:250,1:251\n\t}\n}'


def test_a_member_without_a_value_is_left_out() -> None:
    assert to_pretty_text({"a": None, "b": 1}) == '{\n\t"b":1\n}'


def test_empty_maps_and_lists_take_one_line() -> None:
    assert to_pretty_text({"a": {}, "b": [], "c": set()}) == '{\n\t"a":{},\n\t"b":[],\n\t"c":[]\n}'


def test_lists_have_a_line_per_element_and_sets_one_line() -> None:
    assert to_pretty_text([1, True]) == "[\n\t1,\n\ttrue\n]"
    assert to_pretty_text({"b", "a"}) == '["a","b"]'


def test_text_keeps_letters_and_escapes_control_characters() -> None:
    assert to_pretty_text('Grüße "\x01"') == '"Grüße \\"\\u0001\\""'


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="no JSON form for object"):
        to_pretty_text(object())
