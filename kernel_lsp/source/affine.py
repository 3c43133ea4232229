"""Index arithmetic as polynomials: `(i * n + j) * 4` → {i·n: 4, j: 4}, so that strides can be read off.

Works on the text of an expression. What is no sum or product (a division, a call, an element) becomes one opaque
symbol that keeps its text, so `idx[i] * n + j` is still known to move by 1 with `j`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TypeAlias

Polynomial: TypeAlias = Mapping[tuple[str, ...], int]
"""Monomial (its symbols, sorted) → integer factor; no factor is 0, so the empty mapping is zero."""

ZERO: Polynomial = {}

MAX_TERMS = 64
"""A longer polynomial is no index that people write; the product that leads to it is left opaque."""

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<number> (?:0[xX][0-9a-fA-F']+ | 0[bB][01']+ | \d[\d']*) [uUlLzZ]* (?![\w.]) )
    | (?P<word> (?:::)? [A-Za-z_]\w* (?: \s*::\s* [A-Za-z_]\w*)* )
    | (?P<sign> -> | << | >> | \+\+ | -- | <= | >= | == | != | && | \|\| | . )""",
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"(?<![\w.:])(?<!->)[A-Za-z_]\w*\b(?!\s*(?:::|\())")
_INTEGER_TYPE = re.compile(
    r"(?:const\s+)?(?:(?:unsigned|signed|long|short|int|char|auto)\b\s*)+"
    r"|(?:const\s+)?(?:std::|::)?(?:u?int(?:_fast|_least)?(?:8|16|32|64|ptr|max)?_t|s?size_t|ptrdiff_t|index_t)"
)
_POINTER_TYPE = re.compile(r"[A-Za-z_][\w:<>,\s]*\*[\s*]*(?:const|__restrict__|__restrict)?\s*")
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast"})


class _NotAnIndex(Exception):
    """The text is no expression of this small grammar."""


@functools.lru_cache(maxsize=8192)
def polynomial(text: str) -> Polynomial:
    """`text` as a polynomial; a text that is no expression becomes one opaque symbol."""
    reader = _Reader(text)
    try:
        result = reader.sum()
        if reader.kind:
            raise _NotAnIndex
    except (_NotAnIndex, RecursionError):
        return {(_folded(text),): 1}
    return result


@functools.lru_cache(maxsize=8192)
def names_in(symbol: str) -> tuple[str, ...]:
    """Names of variables in a symbol: `idx`, `i` of `idx[i]`; called functions and members are none."""
    return tuple(dict.fromkeys(_NAME.findall(symbol)))


def add(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    result = dict(a)
    for monomial, value in b.items():
        total = result.get(monomial, 0) + factor * value
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    return result


def multiply(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """None where the product has more than `MAX_TERMS` terms."""
    if len(a) * len(b) > MAX_TERMS:
        return None
    result: dict[tuple[str, ...], int] = {}
    for x, p in a.items():
        for y, q in b.items():
            monomial = tuple(sorted(x + y))
            result[monomial] = result.get(monomial, 0) + p * q
    return {monomial: value for monomial, value in result.items() if value}


def substitute(value: Polynomial, definitions: Mapping[str, Polynomial]) -> Polynomial:
    """`value` with every symbol that has a definition replaced by it."""
    if not any(symbol in definitions for monomial in value for symbol in monomial):
        return value
    result: Polynomial = ZERO
    for monomial, factor in value.items():
        term: Polynomial = {(): factor}
        for symbol in monomial:
            product = multiply(term, definitions.get(symbol, {(symbol,): 1}))
            if product is None:
                return {(text(value),): 1}
            term = product
        result = add(result, term)
    return result


def text(value: Polynomial) -> str:
    """As C: `n * m`, `4`, `n + 1`; `0` for zero."""
    if not value:
        return "0"
    result = ""
    for monomial, factor in value.items():
        size = "" if monomial and abs(factor) == 1 else str(abs(factor))
        term = " * ".join([*([size] if size else []), *(_bracketed(symbol) for symbol in monomial)])
        if result:
            result += (" - " if factor < 0 else " + ") + term
        else:
            result = ("-" if factor < 0 else "") + term
    return result


def _bracketed(symbol: str) -> str:
    return f"({symbol})" if re.search(r"[-+*/%&|^?<>=]", symbol) and not symbol.endswith((")", "]")) else symbol


def _folded(text: str) -> str:
    return " ".join(text.split())


class _Reader:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.kind = ""
        self.token = ""
        self.begin = 0
        self.done = 0
        """End of the token before the current one."""
        self.advance()

    def advance(self) -> None:
        self.done = self.at
        while self.at < len(self.text):
            match = _TOKEN.match(self.text, self.at)
            assert match is not None, "the last alternative takes any character"
            self.begin, self.at = match.span()
            if match.lastgroup:
                self.kind, self.token = match.lastgroup, match.group()
                return
        self.kind, self.token, self.begin = "", "", len(self.text)

    def opaque(self, begin: int) -> Polynomial:
        return {(_folded(self.text[begin : self.done]),): 1}

    def sum(self) -> Polynomial:
        result = self.product()
        while self.token in ("+", "-"):
            sign = 1 if self.token == "+" else -1
            self.advance()
            result = add(result, self.product(), sign)
        return result

    def product(self) -> Polynomial:
        begin = self.begin
        result = self.unary()
        while self.token in ("*", "/", "%", "<<", ">>"):
            operator = self.token
            self.advance()
            right = self.unary()
            result = self._combined(operator, result, right, begin)
        if self.token and self.token not in ("+", "-", ")", "]", ","):
            # Comparisons, bit operations, conditions: the whole expression is no index arithmetic.
            raise _NotAnIndex
        return result

    def _combined(self, operator: str, left: Polynomial, right: Polynomial, begin: int) -> Polynomial:
        number = right.get((), 0) if right.keys() <= {()} else None
        if operator == "*" and (product := multiply(left, right)) is not None:
            return product
        if operator == "<<" and number is not None and 0 <= number < 32:
            return {monomial: value << number for monomial, value in left.items()}
        if operator in ("/", "%") and number and left.keys() <= {()} and left.get((), 0) >= 0 < number:
            value = left.get((), 0) // number if operator == "/" else left.get((), 0) % number
            return {(): value} if value else ZERO
        return self.opaque(begin)

    def unary(self) -> Polynomial:
        begin = self.begin
        if self.token in ("-", "+"):
            sign = -1 if self.token == "-" else 1
            self.advance()
            return add(ZERO, self.unary(), sign)
        if self.token == "&":
            self.advance()
            return self.address()
        if self.token in ("*", "!", "~"):
            self.advance()
            self.unary()
            return self.opaque(begin)
        return self.postfix()[0]

    def address(self) -> Polynomial:
        """`&a[i]` is `a + i`."""
        _, base, index = self.postfix()
        if base is None or index is None:
            raise _NotAnIndex
        return add(base, index)

    def postfix(self) -> tuple[Polynomial, Polynomial | None, Polynomial | None]:
        """The value, and base and index where it is an element."""
        begin = self.begin
        value = self.primary()
        base: Polynomial | None = None
        index: Polynomial | None = None
        while self.token in ("[", "(", ".", "->", "<"):
            if self.token == "[":
                self.advance()
                base, index = value, self.sum()
                self.expect("]")
            elif self.token == "(":
                self._skip("(", ")")
                base = index = None
            elif self.token == "<":
                # Template arguments only before a call; else it is a comparison, which is no index.
                self._skip_template()
            else:
                self.advance()
                if self.kind != "word":
                    raise _NotAnIndex
                self.advance()
                base = index = None
            value = self.opaque(begin)
        if self.token in ("++", "--"):
            raise _NotAnIndex
        return value, base, index

    def primary(self) -> Polynomial:
        if self.kind == "number":
            digits = self.token.rstrip("uUlLzZ").replace("'", "")
            self.advance()
            octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
            try:
                value = int(digits, 8 if octal else 0)
            except ValueError as error:
                raise _NotAnIndex from error
            return {(): value} if value else ZERO
        if self.kind == "word":
            return self._word()
        if self.token == "(":
            return self._bracket()
        raise _NotAnIndex

    def _word(self) -> Polynomial:
        word = self.token
        self.advance()
        if word in _CASTS and self.token == "<":
            self._skip_template()
            self.expect("(")
            value = self.sum()
            self.expect(")")
            return value
        if self.token == "(" and _INTEGER_TYPE.fullmatch(word):
            self.advance()
            value = self.sum()
            self.expect(")")
            return value
        return {(word,): 1}

    def _bracket(self) -> Polynomial:
        close = self.text.find(")", self.at)
        inside = self.text[self.at : close].strip()
        if _INTEGER_TYPE.fullmatch(inside) or _POINTER_TYPE.fullmatch(inside):
            self.at = close + 1
            self.advance()
            return self.unary()
        self.advance()
        value = self.sum()
        self.expect(")")
        return value

    def expect(self, token: str) -> None:
        if self.token != token:
            raise _NotAnIndex
        self.advance()

    def _skip(self, opening: str, closing: str) -> None:
        depth = 0
        while self.kind:
            depth += (self.token == opening) - (self.token == closing)
            self.advance()
            if depth == 0:
                return
        raise _NotAnIndex

    def _skip_template(self) -> None:
        depth = 0
        while self.kind:
            if self.token == "<":
                depth += 1
            elif self.token in (">", ">>"):
                depth -= len(self.token)
            elif self.token in ("&&", "||", ";", "+", "-"):
                raise _NotAnIndex
            self.advance()
            if depth <= 0:
                break
        if self.token != "(":
            raise _NotAnIndex
