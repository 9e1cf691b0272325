"""The error of an SQL92 expression that cannot be read.

Owns        the place of an error (offset, line, column) and the excerpt that points at it.
Must not know   which errors there are.
"""

from __future__ import annotations

from rocketlake.base.errors import UsageError

__all__ = ["ExpressionError"]

_EXCERPT_SIDE = 60
"""Characters of the line that are shown on each side of the error."""


class ExpressionError(UsageError):
    """An SQL92 expression is refused; the text ends with the line of the error and a caret under its place."""

    def __init__(self, what: str, text: str, offset: int, *, hint: str = "") -> None:
        """`offset`: index into `text` of the first character that is wrong (its length: the end)."""
        offset = min(max(offset, 0), len(text))
        before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
        self.offset = offset
        self.line = before.count("\n") + 1
        self.column = len(before) - (before.rfind("\n") + 1) + 1
        self.excerpt = _excerpt(text, offset)
        super().__init__(what, where=f"line {self.line}, column {self.column} of the expression", hint=hint)

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.excerpt}"


def _excerpt(text: str, offset: int) -> str:
    """The characters around `offset` in its line, and below them the caret."""
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    ends = [end for end in (text.find("\n", offset), text.find("\r", offset)) if end >= 0]
    end = min(ends, default=len(text))
    head, tail = "", ""
    if offset - start > _EXCERPT_SIDE:
        start, head = offset - _EXCERPT_SIDE, "..."
    if end - offset > _EXCERPT_SIDE:
        end, tail = offset + _EXCERPT_SIDE, "..."
    shown = "".join(char if char.isprintable() else " " for char in text[start:end])
    return f"  {head}{shown}{tail}\n  {' ' * (len(head) + offset - start)}^"
