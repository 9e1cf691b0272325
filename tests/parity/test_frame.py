from __future__ import annotations

import random

from rocketlake.protocol.command import Command

NAME = "rocketlake.protocol.frame"
COMMANDS = [
    Command(34, remark="r", fields={"k": "v"}),
    Command(310, opaque=7, fields={"i": "a\x01b\x02"}, body=b"x" * 1000),
    Command(200050, body=[memoryview(b"one"), memoryview(b"two")]),
    Command(1, remark="y" * 20_000, body=b""),
    Command(310, block=b"\0\1k\0\0\0\1v", body=b"x"),
]


def fed(form, chunks, *limits):
    """What a reader of this form makes of the chunks, and its words when it refuses."""
    reader = form.FrameReader(*limits)
    frames = []
    try:
        for chunk in chunks:
            frames += reader.feed(chunk)
    except Exception as error:
        return frames, type(error), str(error), reader.pending_bytes
    return frames, type(reader.error), str(reader.error), reader.pending_bytes


def cut_alike(pair, chunks, *limits):
    assert fed(pair.compiled, chunks, *limits) == fed(pair.source, chunks, *limits)


def stream(pair, codec=0):
    parts = []
    for command in COMMANDS:
        parts += pair.same("encode_command", command, codec)
    return b"".join(parts)


def test_commands_are_written_alike(twin):
    for codec in (0, 1):
        assert stream(twin(NAME), codec)
    twin(NAME).same("encode_command", Command(1, body=bytes(17 << 20)))


def test_commands_are_read_alike(twin):
    pair = twin(NAME)
    for codec in (0, 1):
        for frame in pair.source.FrameReader().feed(stream(pair, codec)):
            read = [form.decode_frame(frame) for form in (pair.source, pair.compiled)]
            assert repr(read[0]) == repr(read[1])
            assert read[0].body == read[1].body


def test_any_chunking(twin):
    pair = twin(NAME)
    source = random.Random(3)
    data = stream(pair)
    cut_alike(pair, [data])
    cut_alike(pair, [data[at : at + 1] for at in range(2000)])
    for _ in range(50):
        edges = sorted(source.randrange(len(data)) for _ in range(5))
        cut_alike(pair, [data[begin:end] for begin, end in zip([0, *edges], [*edges, len(data)], strict=True)])
    for kind in (bytearray, memoryview):
        cut_alike(pair, [kind(data)])


def test_every_prefix_that_lies(twin):
    pair = twin(NAME)
    for total in (0, 3, 4, 5, 100, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 24, (1 << 24) + 1):
        for kind in (0, 1, 2, 127, 128, 255):
            for header in (0, 1, 96, 97, 0x7FFFFF, 0x800000, 0xFFFFFF, 256 << 10, (256 << 10) + 1):
                prefix = total.to_bytes(4, "big") + bytes([kind]) + header.to_bytes(3, "big")
                cut_alike(pair, [prefix, b"more"])
                cut_alike(pair, [prefix], 1000, 50)


def test_random_bytes(twin):
    pair = twin(NAME)
    source = random.Random(5)
    for _ in range(2000):
        cut_alike(pair, [source.randbytes(source.randrange(60)) for _ in range(2)], 200)
