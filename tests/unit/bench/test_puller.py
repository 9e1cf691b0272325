from __future__ import annotations

import pytest

from bench.puller import read_header
from rocketlake.protocol.command import FLAG_RESPONSE, Codec, Command
from rocketlake.protocol.frame import PREFIX_BYTES, encode_command


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("remark", [None, "FOUND"])
def test_an_answer_says_which_queue_it_is_of_and_where_to_go_on(codec: Codec, remark: str | None) -> None:
    fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": "1234567", "minOffset": "3", "maxOffset": "99"}
    answer = Command(0, opaque=711, flag=FLAG_RESPONSE, fields=fields, remark=remark, codec=codec)
    header = b"".join(encode_command(answer))[PREFIX_BYTES:]
    assert read_header(header, is_json=codec is Codec.JSON) == (711, 1234567)
