"""SQL92 tokens -> Expression.

Owns        the grammar, the limits of an expression.
Must not know   the meaning of a comparison of two kinds of side (sql_operands.py).

Grammar, from the weakest to the strongest: OR; AND; = <> IS [NOT] NULL; > >= < <= and the word operators; + - NOT; a
literal, a property or an expression in parentheses. Comparisons of one strength go from left to right. Apache's parser
stops at the first token that cannot go on, and ignores the rest; here the rest is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from rocketlake.base.errors import UsageError
from rocketlake.filter import sql_operands as operands
from rocketlake.filter.sql_errors import ExpressionError
from rocketlake.filter.sql_lexer import Kind, Token, tokenize
from rocketlake.filter.sql_numbers import INT_MAX
from rocketlake.filter.sql_operands import ConditionSide, Literal, PropertySide, Refused, Side, as_condition
from rocketlake.filter.sql_tree import And, Condition, Expression, NumberKind, Or, names_in

__all__ = ["CHARACTERS_MAX", "CONDITIONS_MAX", "DEPTH_MAX", "parse_sql92"]

CHARACTERS_MAX = 16_384
DEPTH_MAX = 64
"""Parentheses, NOT, minus and chained comparisons inside each other. A long AND or OR is one level."""
CONDITIONS_MAX = 512

_ORDER = ("<", "<=", ">", ">=")
_WORDS = ("CONTAINS", "STARTSWITH", "ENDSWITH", "BETWEEN", "IN")
_LITERALS = {"TRUE": True, "FALSE": False, "NULL": None}
_TRAILING_HINTS = {
    "LIKE": "there is no LIKE: use CONTAINS, STARTSWITH or ENDSWITH",
    "=": "comparisons are written = <> < <= > >=",
}


@lru_cache(maxsize=128)
def parse_sql92(text: str) -> Expression:
    """Read an expression. ExpressionError (a UsageError) names the error and its place."""
    if len(text) > CHARACTERS_MAX:
        raise UsageError(
            f"the SQL92 expression has {len(text):,} characters, allowed are {CHARACTERS_MAX:,}",
            hint="test a property that says the same in fewer words",
        )
    try:
        condition = _Parser(text).parse()
    except Refused as refused:
        raise ExpressionError(refused.what, text, refused.offset, hint=refused.hint) from None
    return Expression(text, condition, names_in(condition))


class _Parser:
    """One expression being read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._next = 0
        self._depth = 0
        self._conditions = 0

    def parse(self) -> Condition:
        side = self._or()
        token = self._token
        if token.kind is not Kind.END:
            raise self._error(
                f"the expression is complete before {token.shown}",
                token,
                _TRAILING_HINTS.get(token.text.upper(), "join conditions by AND or OR"),
            )
        return as_condition(side)

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _error(self, what: str, token: Token, hint: str = "") -> ExpressionError:
        return ExpressionError(what, self._text, token.offset, hint=hint)

    def _take(self, *texts: str) -> Token | None:
        """The next token, passed over, if it is one of these keywords or symbols."""
        token = self._token
        if token.kind in (Kind.KEYWORD, Kind.SYMBOL) and token.text in texts:
            self._next += 1
            return token
        return None

    def _expect(self, text: str, why: str) -> None:
        if self._take(text) is None:
            raise self._error(f"{text} is missing before {self._token.shown}", self._token, why)

    def _or(self) -> Side:
        return self._chain("OR", self._and, Or)

    def _and(self) -> Side:
        return self._chain("AND", self._equality, And)

    def _chain(self, word: str, part: Callable[[], Side], join: type[And | Or]) -> Side:
        first = part()
        if self._take(word) is None:
            return first
        sides = [first, part()]
        while self._take(word):
            sides.append(part())
        joined = join(tuple(as_condition(side) for side in sides))
        return self._made(joined, first, *sides)

    def _equality(self) -> Side:
        left = self._comparison()
        while token := self._take("=", "<>", "IS"):
            if token.text == "IS":
                negated = self._take("NOT") is not None
                self._expect("NULL", "write IS NULL or IS NOT NULL")
                condition, right = operands.is_null(left), left
            else:
                negated = token.text == "<>"
                right = self._comparison()
                condition = operands.equal(left, right)
            left = self._made(operands.negation(condition) if negated else condition, left, right)
        return left

    def _comparison(self) -> Side:
        left = self._unary()
        while True:
            if token := self._take(*_ORDER):
                right = self._unary()
                left = self._made(operands.order(token.text, left, right), left, right)
                continue
            negated = self._token.kind is Kind.KEYWORD and self._token.text == "NOT"
            if negated:
                self._next += 1
            word = self._take(*_WORDS)
            if word is None:
                if negated:
                    raise self._error(
                        f"no operator begins with NOT {self._token.shown}",
                        self._token,
                        _TRAILING_HINTS.get(
                            self._token.text.upper(), "NOT goes before BETWEEN, IN, CONTAINS, STARTSWITH and ENDSWITH"
                        ),
                    )
                return left
            left = self._word_operator(word.text, left, negated)

    def _word_operator(self, word: str, left: Side, negated: bool) -> Side:
        if word == "BETWEEN":
            low = self._unary()
            self._expect("AND", "write x BETWEEN 1 AND 5")
            high = self._unary()
            make = operands.not_between if negated else operands.between
            return self._made(make(left, low, high), left, low, high)
        if word == "IN":
            condition = operands.in_texts(left, self._texts())
            return self._made(operands.negation(condition) if negated else condition, left)
        return self._made(operands.text_match(word, left, self._string(word), negated=negated), left)

    def _texts(self) -> list[str]:
        self._expect("(", "write IN ('a', 'b')")
        texts = [self._string("IN")]
        while self._take(","):
            texts.append(self._string("IN"))
        self._expect(")", "write IN ('a', 'b')")
        return texts

    def _string(self, word: str) -> str:
        token = self._token
        if token.kind is not Kind.STRING:
            raise self._error(f"{word} takes a string, not {token.shown}", token, "write strings in single quotes")
        self._next += 1
        assert isinstance(token.value, str)
        return token.value

    def _unary(self) -> Side:
        token = self._take("+", "-", "NOT")
        if token is None:
            return self._primary()
        self._enter(token)
        side = self._unary()
        self._depth -= 1
        if token.text == "+":
            return side
        if token.text == "-":
            return replace(operands.minus(side), offset=token.offset, height=side.height)
        return replace(self._made(operands.negation(as_condition(side)), side), offset=token.offset)

    def _primary(self) -> Side:
        token = self._token
        self._next += 1
        match token.kind:
            case Kind.NAME:
                return PropertySide(token.offset, name=token.text)
            case Kind.STRING:
                return Literal(token.offset, value=token.value)
            case Kind.INTEGER:
                assert isinstance(token.value, int)
                kind = NumberKind.INT if token.value <= INT_MAX else NumberKind.LONG
                return Literal(token.offset, value=token.value, kind=kind)
            case Kind.FLOAT:
                return Literal(token.offset, value=token.value, kind=NumberKind.DOUBLE)
            case Kind.KEYWORD if token.text in _LITERALS:
                return Literal(token.offset, value=_LITERALS[token.text])
            case Kind.SYMBOL if token.text == "(":
                self._enter(token)
                side = self._or()
                self._depth -= 1
                self._expect(")", "close the parenthesis")
                return replace(side, offset=token.offset)
        raise self._error(f"a property or a value is missing before {token.shown}", token)

    def _enter(self, token: Token) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._too_deep(token.offset)

    def _too_deep(self, offset: int) -> ExpressionError:
        what = f"more than {DEPTH_MAX} conditions stand inside each other"
        return ExpressionError(what, self._text, offset, hint="write fewer parentheses, minus signs and NOTs")

    def _made(self, condition: Condition, *sides: Side) -> Side:
        """A condition made of these sides; they count."""
        height = 1 + max(side.height for side in sides)
        self._conditions += 1
        offset = sides[0].offset
        if height > DEPTH_MAX:
            raise self._too_deep(offset)
        if self._conditions > CONDITIONS_MAX:
            what = f"the expression has more than {CONDITIONS_MAX} conditions"
            raise ExpressionError(what, self._text, offset, hint="write IN ('a', 'b') as one condition")
        return ConditionSide(offset, height, condition=condition)
