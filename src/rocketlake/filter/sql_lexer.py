"""SQL92 text -> tokens.

Owns        which characters make which token, comments, the value of a literal's text.
Must not know   grammar.

Source: Apache's SelectorParser.jj. Keywords may be written in any case, identifiers may not. A line comment ends with a
line break: "--" with none behind it is two minus signs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from rocketlake.filter.sql_errors import ExpressionError

__all__ = ["TOKENS_MAX", "Kind", "Token", "tokenize"]

TOKENS_MAX = 4096


class Kind(StrEnum):
    """The kind of a token; the value is its name in error texts."""

    NAME = "a property name"
    STRING = "a string"
    INTEGER = "an integer"
    FLOAT = "a floating-point number"
    KEYWORD = "a keyword"
    SYMBOL = "a symbol"
    END = "the end"


_KEYWORDS = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH")
)

_TOKEN = re.compile(
    r"""
      (?P<blank>   [ \t\n\r\f]+ )
    | (?P<name>    [A-Za-z_$][A-Za-z0-9_$]* )
    | (?P<float>   [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
    | (?P<integer> 0 | [1-9][0-9]*[lL]? )
    | (?P<string>  '[^']*(?:''[^']*)*' )
    | (?P<symbol>  <> | <= | >= | [=<>(),+-] )
    """,
    re.VERBOSE,
)

_LONG_MAX = 2**63 - 1
_LONG_DIGITS = 19

_HINTS = {
    '"': "write strings in single quotes",
    "!": "unequal is written <>",
    "&": "write AND",
    "|": "write OR",
    "/": "a comment that begins with /* ends with */; there is no arithmetic",
    "*": "there is no arithmetic",
    "%": "there are no wildcards: use CONTAINS, STARTSWITH or ENDSWITH",
}


@dataclass(frozen=True, slots=True)
class Token:
    """`text`: as written, keywords in capitals. `value`: the value of a literal."""

    kind: Kind
    text: str
    offset: int
    value: str | int | float | None = None

    @property
    def shown(self) -> str:
        """The token in an error text."""
        if self.kind is Kind.END:
            return "the end of the expression"
        return repr(self.text if len(self.text) <= 40 else self.text[:37] + "...")


def tokenize(text: str) -> list[Token]:
    """All tokens, with an END behind them. ExpressionError for characters that make no token."""
    tokens: list[Token] = []
    last_line = max(text.rfind("\n"), text.rfind("\r")) + 1
    position = 0
    while position < len(text):
        end = _comment_end(text, position, last_line)
        if end > position:
            position = end
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            raise _no_token(text, position)
        if match.lastgroup != "blank":
            if len(tokens) == TOKENS_MAX:
                raise ExpressionError(f"the expression has more than {TOKENS_MAX:,} words and signs", text, position)
            tokens.append(_token(match, text))
        position = match.end()
    tokens.append(Token(Kind.END, "", len(text)))
    return tokens


def _comment_end(text: str, position: int, last_line: int) -> int:
    """Where the comment that begins here ends; `position` if none does. In the last line no "--" is a comment."""
    if position < last_line and text.startswith("--", position):
        return min(end for end in (text.find("\n", position), text.find("\r", position)) if end >= 0) + 1
    if not text.startswith("/*", position):
        return position
    closed = text.find("*/", position + 2)
    if closed < 0:
        raise ExpressionError("the comment is not closed", text, position, hint="end it with */")
    return closed + 2


def _no_token(text: str, position: int) -> ExpressionError:
    char = text[position]
    if char == "'":
        return ExpressionError(
            "the string is not closed", text, position, hint="end it with '; a quote inside is written ''"
        )
    return ExpressionError(f"{char!r} does not belong into an expression", text, position, hint=_HINTS.get(char, ""))


def _token(match: re.Match[str], text: str) -> Token:
    word, offset = match.group(), match.start()
    match match.lastgroup:
        case "name":
            keyword = word.upper()
            return Token(Kind.KEYWORD, keyword, offset) if keyword in _KEYWORDS else Token(Kind.NAME, word, offset)
        case "string":
            return Token(Kind.STRING, word, offset, word[1:-1].replace("''", "'"))
        case "integer":
            return Token(Kind.INTEGER, word, offset, _integer(word, text, offset))
        case "float":
            return Token(Kind.FLOAT, word, offset, _float(word, text, offset))
        case _:
            return Token(Kind.SYMBOL, word, offset)


def _integer(word: str, text: str, offset: int) -> int:
    digits = word.rstrip("lL")
    # By its length first: Python refuses to read very long ones with an error of its own.
    value = int(digits) if len(digits) <= _LONG_DIGITS else _LONG_MAX + 1
    if value > _LONG_MAX:
        raise ExpressionError(f"the number is above {_LONG_MAX}", text, offset, hint="write it with a decimal point")
    return value


def _float(word: str, text: str, offset: int) -> float:
    value = float(word)
    if value == 0.0:
        raise ExpressionError("a floating-point number may not be zero", text, offset, hint="write 0")
    if math.isinf(value):
        raise ExpressionError("the number is above the largest double", text, offset)
    return value
