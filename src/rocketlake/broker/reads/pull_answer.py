"""The answer to a pull.

Owns        which response code an outcome of the store has, the fields, the pieces of the body.
Must not know   the request, the asker.
"""

from __future__ import annotations

from rocketlake.broker.rights.refusal import Refused
from rocketlake.net.request import Reply
from rocketlake.protocol.command import Buffer
from rocketlake.protocol.headers.pull import pull_reply_fields
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PIECE_BYTES_MIN, GetResult, GetStatus

__all__ = ["code_of", "nothing_to_read", "refusal_of", "reply_of"]

_CODE_OF = {
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}
_EMPTY_QUEUE = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)


def code_of(status: GetStatus, asked_offset: int) -> ResponseCode:
    """The response code of a read that ended so."""
    if status is GetStatus.FOUND:  # the usual one first: an Enum hashes slowly
        return ResponseCode.SUCCESS
    if status in _EMPTY_QUEUE:
        return ResponseCode.PULL_OFFSET_MOVED if asked_offset != 0 else ResponseCode.PULL_NOT_FOUND
    return _CODE_OF[status]


def reply_of(
    code: int, result: GetResult, topic_sys_flag: int, group_sys_flag: int, suggested_broker_id: int = 0
) -> Reply:
    """The answer to a pull that was admitted and has read."""
    fields = pull_reply_fields(
        result.next_offset, result.min_offset, result.max_offset, topic_sys_flag, group_sys_flag, suggested_broker_id
    )
    return Reply(code, body=_body_of(result) or None, remark=result.status.name, fields=fields)


def refusal_of(refused: Refused) -> Reply:
    """The answer to a pull that a check refused."""
    fields = None if refused.forbidden_type is None else {"forbiddenType": refused.forbidden_type}
    return Reply(refused.code, remark=refused.what, fields=fields)


def nothing_to_read(
    queue_offset: int, ends: tuple[int, int], remark: str, code: int = ResponseCode.PULL_NOT_FOUND
) -> Reply:
    """The answer that sends the consumer to the same offset again."""
    return Reply(code, fields=pull_reply_fields(queue_offset, *ends, 0, 0), remark=remark)


def _body_of(result: GetResult) -> list[Buffer]:
    """The records as the link shall write them: many small pieces cost more to hand over than to copy."""
    pieces = result.slices
    if len(pieces) > 1 and result.bytes < len(pieces) * PIECE_BYTES_MIN:
        return [b"".join(pieces)]
    return [*pieces]
