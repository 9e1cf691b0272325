"""The kernel of signed requests and the gate let the same requests in."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.auth.accounts import Accounts
from rocketlake.auth.action import Action, on_group, on_topic
from rocketlake.auth.policy import Acl, Decision, Entry, PolicyType, Resource
from rocketlake.auth.signature import sign
from rocketlake.auth.user import User
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.hot.signed_frames import SignedFrames
from rocketlake.broker.rights import body_needs
from rocketlake.net.gate import needs as on
from rocketlake.net.request import Request
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.request_code import RequestCode

ALICE = User("alice", "alice-secret")
HOST = "10.1.2.3"
SENDS = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
READS = RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.POP_MESSAGE
READING = on.topic(Action.SUB) & on.group(Action.SUB)
ACK, BATCH_ACK = RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE


def accounts() -> Accounts:
    allow = [("Topic:T", Action.PUB), ("Topic:T2", Action.SUB), ("Group:g", Action.SUB)]
    entries = [Entry(Resource.parse(text), frozenset({action}), Decision.ALLOW) for text, action in allow]
    return Accounts({"alice": ALICE}, {"alice": Acl(tuple((PolicyType.CUSTOM, entry) for entry in entries))})


def kernel(user: User = ALICE) -> SignedFrames:
    known = accounts()

    def allows(topic: str, group: str | None) -> bool:
        needs = [on_topic(topic, Action.PUB)]
        if group is not None:
            needs = [on_topic(topic, Action.SUB), on_group(group, Action.SUB)]
        return all(known.verdict(ALICE, need, HOST).allowed for need in needs)

    return SignedFrames(user.name, user.password, allows, 16 << 20, 1 << 20)


def frame(code: int, fields: dict[str, str], body: bytes, codec: Codec) -> bytes:
    command = Command(code, opaque=7, language="JAVA", version=433, fields=fields, body=body or None)
    return b"".join(map(bytes, encode_command(command, codec)))


def signed(fields: dict[str, str], body: bytes, secret: str = ALICE.password, name: str = "alice") -> dict[str, str]:
    fields = fields | {"AccessKey": name}
    return fields | {"Signature": sign(secret, fields, (body,))}


def gate_lets_in(chunk: bytes) -> bool:
    """The ordinary path, for the codes that the kernel knows and one user."""
    command = Connection().cut(chunk)[0]
    fields = command.fields or {}
    if command.code not in (*SENDS, *READS, ACK, BATCH_ACK) or fields.get("AccessKey") != "alice":
        return False
    known = accounts()
    try:
        user = known.signer(fields, command.body_bytes, version=command.version)
        if command.code in SENDS:
            known.check(user, on_topic(fields.get("b", ""), Action.PUB), HOST, "send")
            return True
        needs = {ACK: body_needs.POPPED, BATCH_ACK: body_needs.BATCH_ACK}.get(command.code, READING)
        for need in needs.of(Request(command, None, 0.0)):  # type: ignore[arg-type]
            known.check(user, need, HOST, "read")
    except RocketLakeError:
        return False
    return True


plain = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\'), min_size=1, max_size=12)
topics = st.sampled_from(["T2", "T2", "T", "T3", "%RETRY%g", "%RETRY%h", "%RETRY%g_T2", "%RETRY%h_T2"])
others = st.dictionaries(st.sampled_from(["a", "c", "d", "j", "queueId", "Zeta", "_x", "lo"]), plain, max_size=6)


def ack_body(named: list[tuple[str, str]]) -> bytes:
    """An acknowledgement of many: (topic, group) of each entry."""
    entries = [
        {"b": "AQ==", "c": group, "it": 1, "pt": 1, "q": 0, "r": "0", "rq": 0, "so": 0, "t": topic}
        for topic, group in named
    ]
    return json.dumps({"acks": entries, "brokerName": "b"}, separators=(",", ":")).encode()


@given(
    code=st.sampled_from([*SENDS, *READS, ACK, BATCH_ACK, BATCH_ACK, RequestCode.SEND_MESSAGE, RequestCode.HEART_BEAT]),
    named=st.lists(st.tuples(topics, st.sampled_from(["g", "g", "h"])), min_size=1, max_size=3),
    more=others,
    body=st.binary(max_size=60),
    secret=st.sampled_from([ALICE.password] * 3 + ["another-secret"]),
    name=st.sampled_from(["alice"] * 4 + ["alicia", "bob"]),
    change=st.sampled_from(["", "", "", "value", "body", "signature", "none"]),
    codec=st.sampled_from(list(Codec)),
)
@settings(max_examples=300)
def test_both_let_the_same_requests_in(
    code: int, named: list[tuple[str, str]], more: dict[str, str], body: bytes, secret: str, name: str, change: str,
    codec: Codec,
) -> None:  # fmt: skip
    topic, group = named[0]
    fields = {"b": topic} if code in SENDS else {"topic": topic, "consumerGroup": group}
    if code == BATCH_ACK:
        fields, body = {}, ack_body(named)
    elif code == ACK:
        # Numbers that are none are refused by the gate, and by the reader of the header behind the kernel.
        more |= {"queueId": "0", "extraInfo": "0 1 1 0 0 b 0 0", "offset": "0"}
    fields = signed(fields | more, body, secret, name)
    if change == "value":
        fields["j" if code in SENDS else "queueId"] = "9999"
    elif change == "body":
        body += b"!"
    elif change == "signature":
        fields["Signature"] = fields["Signature"][:-2] + ("A=" if fields["Signature"][-2] != "A" else "B=")
    elif change == "none":
        del fields["Signature"]
    chunk = frame(code, fields, body, codec if code < 1 << 15 else Codec.JSON)
    is_for_kernel = code != ACK or not topic.startswith("%RETRY%")
    assert (kernel().end(chunk, 0) == len(chunk)) == (gate_lets_in(chunk) and is_for_kernel)


@pytest.mark.parametrize("codec", Codec)
def test_what_a_user_has_signed_is_let_in_up_to_what_it_has_not(codec: Codec) -> None:
    """Without this, both could refuse everything."""
    good = frame(
        310, signed({"b": "T", "i": "K\x01v\x02" if codec is Codec.ROCKETMQ else "x"}, b"body"), b"body", codec
    )
    reads = frame(11, signed({"topic": "T2", "consumerGroup": "g"}, b""), b"", codec)
    body = ack_body([("T2", "g"), ("T2", "g")])
    reads += frame(ACK, signed({"topic": "T2", "consumerGroup": "g"}, b""), b"", Codec.JSON)
    reads += frame(BATCH_ACK, signed({}, body), body, Codec.JSON)
    bad = frame(310, signed({"b": "T2"}, b"body"), b"body", codec)
    chunk = good * 3 + reads + good + bad + good
    frames = kernel()
    assert frames.end(chunk, 0) == 4 * len(good) + len(reads)
    assert frames.end(chunk, len(good)) == 4 * len(good) + len(reads)
    assert frames.end(chunk, 4 * len(good) + len(reads)) == 4 * len(good) + len(reads)
    assert frames.end(chunk, len(chunk) - len(good)) == len(chunk)
    assert frames.end(good[:-1], 0) == 0, "not whole yet"


def doubled(whole: bytes, field: bytes) -> bytes:
    """The frame with one more field at the end of its binary header."""
    header_size = int.from_bytes(whole[5:8], "big")
    fields_at = 8 + 17
    parts = [whole[: 8 + header_size], field, whole[8 + header_size :]]
    found = bytearray(b"".join(parts))
    for at, size in ((0, 4), (5, 3), (fields_at, 4)):
        found[at : at + size] = (int.from_bytes(found[at : at + size], "big") + len(field)).to_bytes(size, "big")
    assert len(Connection().cut(bytes(found))) == 1
    return bytes(found)


def test_a_field_that_stands_twice_with_two_values_is_not_for_the_kernel() -> None:
    """Two readers could take different ones: the gate `T`, the kernel of sends another topic."""
    whole = frame(310, signed({"b": "T"}, b"body"), b"body", Codec.ROCKETMQ)
    for value in (b"U", b"T2"):
        field = b"\0\1b" + len(value).to_bytes(4, "big") + value
        assert kernel().end(doubled(whole, field), 0) == 0


def test_fields_that_stand_twice_count_once() -> None:
    """As Java's client writes them when it signs with binary headers."""
    fields = signed({"b": "T", "a": "group", "i": "K\x01v\x02", "zz": "last"}, b"body")
    whole = frame(310, fields, b"body", Codec.ROCKETMQ)
    for name, value in fields.items():
        whole = doubled(
            whole,
            b"".join((len(name).to_bytes(2, "big"), name.encode(), len(value).to_bytes(4, "big"), value.encode())),
        )
    assert gate_lets_in(whole)
    assert kernel().end(whole, 0) == len(whole)


def test_a_long_secret_signs_as_hmac_says() -> None:
    user = User("alice", "s" * 200)
    chunk = frame(310, signed({"b": "T"}, b"body", user.password), b"body", Codec.JSON)
    assert kernel(user).end(chunk, 0) == len(chunk)
