from __future__ import annotations

import random
import struct

from rocketlake.protocol.command import Command

NAME = "rocketlake.protocol.header_binary"
COMMANDS = [
    Command(34, language="JAVA", version=0, remark="r", fields={"k": "v"}),
    Command(-1004, opaque=-1, flag=3, language="NODE_JS", remark="grün", fields={"a": "", "": "b", "主": "é" * 300}),
    Command(32767, fields={}),
    Command(310, remark="r", block=b"\0\1k\0\0\0\1v"),
    Command(310, block=b"", fields={"k": "the block goes before"}),
    Command(0, fields={f"k{number}": "v" * number for number in range(300)}),
]


def members(command):
    return [getattr(command, name) for name in Command.__slots__]


def read_alike(pair, header, *limits):
    """Both forms read the same command or fail with the same words."""
    results = []
    for form in (pair.source, pair.compiled):
        try:
            results.append(members(form.decode_binary_header(header, *limits)))
        except Exception as error:
            results.append((type(error), str(error)))
    assert results[0] == results[1]


def test_whole_headers(twin):
    pair = twin(NAME)
    for command in COMMANDS:
        header = pair.same("encode_binary_header", command)
        for kind in (bytes, bytearray, memoryview):
            read_alike(pair, kind(header))
        read_alike(pair, header, 2)


def test_fields_of_their_own(twin):
    for command in COMMANDS:
        if command.fields is not None:
            twin(NAME).same("encode_fields", command.fields)
    for wrong in (None, [("a", "b")], {"a": 1}):
        twin(NAME).same("encode_fields", wrong)


def test_codes_that_do_not_fit(twin):
    for code in (-32769, -32768, 0, 32767, 32768, 200050):
        twin(NAME).same("fits_binary_header", code)
    twin(NAME).same("encode_binary_header", Command(200050))


def test_text_that_cannot_be_written(twin):
    assert twin(NAME).same("encode_binary_header", Command(1, fields={"a": "\ud800"}))
    assert twin(NAME).same("encode_binary_header", Command(1, fields={"k" * 40_000: "v"}))


def test_every_cut_and_every_changed_length(twin):
    pair = twin(NAME)
    header = pair.source.encode_binary_header(COMMANDS[1])
    for end in range(len(header)):
        read_alike(pair, header[:end])
    for position in range(len(header) - 3):
        for number in (-1, 0, 1, 200, 0x7FFF, 0x8000, 0x80000000 - 2**32, 0x7FFFFFFF, -(2**31)):
            broken = bytearray(header)
            struct.pack_into(">i", broken, position, number)
            read_alike(pair, bytes(broken))


def test_random_bytes(twin):
    pair = twin(NAME)
    source = random.Random(11)
    for _ in range(2000):
        read_alike(pair, source.randbytes(source.randrange(80)))
