from __future__ import annotations

import json

import pytest

from rocketlake.base.java.json_text import DEPTH_MAX, JsonError, parse, to_text, to_text_unquoted_keys


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1,"b":[true,false,null,1.5,-2]}', {"a": 1, "b": [True, False, None, 1.5, -2]}),
        ('{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        ("{'a':'it\\'s'}", {"a": "it's"}),
        ("{a:1,b_c:2,$x:3}", {"a": 1, "b_c": 2, "$x": 3}),
        ('{"a":1,}', {"a": 1}),
        ("[1,,2,]", [1, 2]),
        ('/* c */{"a":1 // end\n}', {"a": 1}),
        ('{"a":{"$ref":"$.b"}}', {"a": {"$ref": "$.b"}}),
        ('{{"topic":"T","queueId":3,"brokerName":"b"}:7}', {'{"brokerName":"b","queueId":3,"topic":"T"}': 7}),
        ('{{"$ref":"$.x"}:{}}', {'{"$ref":"$.x"}': {}}),
        ("{null:1,true:2}", {"null": 1, "true": 2}),
        ("{-1:'x', 1.5:'y'}", {"-1": "x", "1.5": "y"}),
        ("12L", 12),
        ("{a:1.0E10,b:.5,c:NaN,}", {"a": 1e10, "b": 0.5, "c": None}),
        ("'\\u00e9\\x41\\/\\n\\uD83D\\uDE00'", "éA/\n😀"),
        ("'\\uD83D'", "\ufffd"),
        ("\ufeff {'a':1} \0", {"a": 1}),
        ("9223372036854775807", 2**63 - 1),
        ("{a:-9223372036854775808}", {"a": -(2**63)}),
    ],
)
def test_what_java_peers_write_is_read(text, value):
    assert parse(text) == value
    assert parse(text.encode()) == value
    assert parse(memoryview(text.encode())) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "}",
        "[1",
        "{a}",
        "{a:}",
        "{a:1 b:2}",
        "[1 2]",
        "'open",
        '"open',
        "{'a':1}}",
        "nope",
        "{:1}",
        "1x",
        "--1",
        "-",
        "{'a'",
    ],
)
def test_broken_text_is_refused_with_its_position(text):
    with pytest.raises(JsonError, match=r"\d"):
        parse(text)


def test_bytes_that_are_no_utf8_are_refused():
    with pytest.raises(JsonError, match="UTF-8"):
        parse(b"{'a':'\xff'}")


@pytest.mark.parametrize("pair", ["[]", "{}"])
@pytest.mark.parametrize("lenient", ["", " 'x'"])
def test_deep_nesting_is_refused_both_ways(pair, lenient):
    key = "" if pair == "[]" else '"a":'
    deep = (pair[0] + key) * 100_000 + "1" + lenient + pair[1] * 100_000
    with pytest.raises(JsonError, match="deep"):
        parse(deep)
    for depth in (DEPTH_MAX + 2, 500):
        with pytest.raises(JsonError, match="deep"):
            parse((pair[0] + key) * depth + "1" + lenient + pair[1] * depth)
    depth = DEPTH_MAX // 2
    assert parse((pair[0] + key) * depth + "1" + pair[1] * depth)
    with pytest.raises(JsonError, match="deep"):
        parse("{" * 100_000)


def test_a_text_too_long_is_refused(monkeypatch):
    monkeypatch.setattr("rocketlake.base.java.json_text.TEXT_BYTES_MAX", 10)
    with pytest.raises(JsonError, match="limit"):
        parse(b"[" + b"1," * 10 + b"1]")


def test_a_number_of_many_digits_does_not_hang():
    with pytest.raises(JsonError):
        parse("{a:" + "9" * 100_000 + "}")


def test_written_text_is_standard():
    assert to_text({"a": [1, "é\n", None, True], 5: {}}) == b'{"a":[1,"\xc3\xa9\\n",null,true],"5":{}}'


def test_the_old_flavour_leaves_number_keys_bare():
    value = {"brokerAddrs": {0: "x:1", 1: "y:2"}, "list": [{2: []}], "empty": {}, "none": None}
    text = to_text_unquoted_keys(value)
    assert text == b'{"brokerAddrs":{0:"x:1",1:"y:2"},"list":[{2:[]}],"empty":{},"none":null}'
    assert parse(text) == {"brokerAddrs": {"0": "x:1", "1": "y:2"}, "list": [{"2": []}], "empty": {}, "none": None}


def test_a_long_table_keyed_by_objects_is_read():
    text = "{" + ",".join(f'{{"brokerName":"b","queueId":{n},"topic":"T"}}:{n}' for n in range(5000)) + "}"
    table = parse(text)
    assert len(table) == 5000
    assert table[json.dumps({"brokerName": "b", "queueId": 4999, "topic": "T"}, separators=(",", ":"))] == 4999
