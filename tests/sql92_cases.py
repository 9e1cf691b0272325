"""Random SQL92 expressions and messages, from one `Random`: seeded for recordings, driven by hypothesis in tests.

Most expressions are well formed; values are chosen where types, ranges and Java's way of reading numbers make a
difference.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

from rocketlake.base.errors import UsageError
from rocketlake.filter.sql_parser import parse_sql92

NAMES = ("a", "b", "c", "_d", "$e", "TAGS")
INTEGERS = ("0", "1", "5", "7L", "42", "2147483647", "2147483648", "9223372036854775807")
FLOATS = ("5.0", "5.5", ".5", "5.", "1e3", "1.5E-3", "4.9e-324", "1.7976931348623157e308")
STRINGS = ("", "x", "abc", "true", "TRUE", "5", "5.5", "it's", "grün €😀", "%", "a_c", "\\")
_WORDS = """
    0 1 5 -5 +5 05 42 -42 5.0 5.5 -5.5 .5 5. 1e3 1E3 5d 5f 5.5D 0x1p3 -0x.8p1 0x1p5000 -0x1p5000 NaN -NaN Infinity
    -Infinity inf nan 1_0 0.0 -0.0 -0 2147483647 2147483648 -2147483648 -2147483649 9223372036854775807
    9223372036854775808 -9223372036854775808 1e400 -1e400 1e-400 1000 x abc ABC aXc true TRUE True false it's 'x' grün
    €😀 % \\ - + . e5 5e 0x5 0x1p 1e+ 00000000000000000000000000005 123456789012345678901234567890 4.9e-324
    1.7976931348623157e308 9007199254740993
"""
VALUES = [
    *_WORDS.split(),
    "7".zfill(1024),
    " 5",
    "5 ",
    "\t5.5\n",
    " 5.5 ",
    "5\n",
    "true ",
    "a c",
    "x\ny",
    "grün €😀!",
]
WORDS = ("CONTAINS", "STARTSWITH", "ENDSWITH")
BLANKS = (" ", "  ", "\n", "\t", " /* * / ** */ ", " -- to the end\n", "\f")
NOISE = ("(", ")", "AND", "NOT", "=", "<>", "IN", "'", "5", "a", "--", "/*", "!", "NULL", "LIKE 'x'", "0.0", "5.5.5")


def random_message(random: Random) -> dict[str, str]:
    """A message with some of the properties; one of three is absent."""
    return {name: random.choice(VALUES) for name in NAMES if random.random() < 0.67}


def random_expression(random: Random) -> str:
    """An expression; one of twenty is damaged, many others are refused for their types."""
    text = _Writer(random).condition(random.randint(0, 4))
    if random.random() < 0.05:
        at = random.randint(0, len(text))
        text = text[:at] + random.choice(NOISE) + text[at + random.randint(0, 2) :]
    return text


class _Writer:
    def __init__(self, random: Random) -> None:
        self.random = random

    def condition(self, depth: int) -> str:
        random = self.random
        if depth <= 0 or random.random() < 0.15:
            return self.comparison()
        match random.randint(0, 9):
            case 0 | 1 | 2:
                return self.joined("AND", depth)
            case 3 | 4 | 5:
                return self.joined("OR", depth)
            case 6 | 7:
                return self.words("NOT", f"({self.condition(depth - 1)})")
            case 8:
                return f"({self.condition(depth - 1)})"
        return self.odd(depth - 1)

    def joined(self, word: str, depth: int) -> str:
        parts = [self.condition(depth - 1) for _ in range(self.random.randint(2, 3))]
        if word == "AND" or self.random.random() < 0.3:
            parts = [f"({part})" for part in parts]
        words = [parts[0]]
        for part in parts[1:]:
            words += [word, part]
        return self.words(*words)

    def odd(self, depth: int) -> str:
        """Conditions as values."""
        random = self.random
        inner = f"({self.condition(depth)})"
        match random.randint(0, 6):
            case 0:
                return self.words(inner, random.choice(["IS NULL", "IS NOT NULL"]))
            case 1:
                return self.words(inner, random.choice(["=", "<>"]), f"({self.condition(depth)})")
            case 2:
                return self.words(inner, random.choice(["=", "<>"]), self.side())
            case 3:
                return self.words(self.side(), random.choice(["=", "<>"]), inner)
            case 4:
                return self.words(inner, random.choice(WORDS), self.string())
            case 5:
                return self.words("-" + inner, random.choice(["=", ">", "IS NULL OR a ="]), self.side())
        return self.words(self.side(), random.choice(["=", "<", ">="]), "-" + inner)

    def comparison(self) -> str:
        random = self.random
        name = random.choice(NAMES)
        match random.randint(0, 12):
            case 0 | 1:
                return self.words(name, random.choice(["=", "<>"]), self.value())
            case 2 | 3 | 4:
                return self.words(name, random.choice(["<", "<=", ">", ">=", "=", "<>"]), self.number())
            case 5:
                return self.words(name, self.maybe_not(), "BETWEEN", self.number(), "AND", self.number())
            case 6:
                texts = ", ".join(self.string() for _ in range(random.randint(1, 6)))
                return self.words(name, self.maybe_not(), f"IN ({texts})")
            case 7:
                return self.words(name, "IS", self.maybe_not(), "NULL")
            case 8:
                return self.words(name, self.maybe_not(), random.choice(WORDS), self.string())
            case 9:
                return random.choice([name, "TRUE", "false", "NULL", f"NOT {name}"])
            case 10:
                return self.words(self.value(), random.choice(["=", "<>", "<", ">="]), name)
            case 11:
                return self.words(name, random.choice(["=", "<>", "<", "<=", ">", ">="]), random.choice(NAMES))
        return self.words(self.side(), random.choice(["=", "<>", "<", ">", "="]), self.side())

    def side(self) -> str:
        return self.random.choice([self.random.choice(NAMES), self.value(), "-" + self.random.choice(NAMES)])

    def value(self) -> str:
        return self.random.choice([self.number(), self.string(), self.string(), self.random.choice(["TRUE", "False"])])

    def number(self) -> str:
        return self.random.choice(["", "", "", "-", "+"]) + self.random.choice([*INTEGERS, *INTEGERS, *FLOATS])

    def string(self) -> str:
        return "'" + self.random.choice(STRINGS).replace("'", "''") + "'"

    def maybe_not(self) -> str:
        return self.random.choice(["", "NOT"])

    def words(self, *words: str) -> str:
        """Blanks between, sometimes odd ones; keywords sometimes in small letters."""
        random = self.random
        text = ""
        for word in filter(None, words):
            blank = random.choice(BLANKS) if random.random() < 0.1 else " "
            text += (blank if text else "") + (word.lower() if word.isupper() and random.random() < 0.2 else word)
        return text


def kept_by_apache(text: str) -> str:
    """What Apache's parser reads of a text with something behind the expression; it ignores the rest."""
    for end in range(len(text), 0, -1):
        with suppress(UsageError):
            parse_sql92(text[:end])
            return text[:end]
    return text
