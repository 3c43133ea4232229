"""A digest of what a text means to the compiler: equal for texts that differ in comments and white space only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from kernel_lsp.domain import Language
from kernel_lsp.source.lines import encode

_NEWLINE = r"(?:\r\n|\n|\r)"
_SPLICE = rf"\\[ \t]*{_NEWLINE}"

_TOKEN = re.compile(
    rf"""
      (?P<raw> (?:u8|[uUL])? R "(?P<fence>[^ ()\\\t\v\f\r\n"]{{0,16}}) \( .*? \) (?P=fence) " [A-Za-z_]?\w* )
    | (?P<comment> // (?: {_SPLICE} | [^\r\n] )* | /\* .*? (?: \*/ | \Z ) )
    | (?P<splice> {_SPLICE} )
    | (?P<newline> {_NEWLINE} )
    | (?P<space> [ \t\v\f]+ )
    | (?P<text> (?:u8|[uUL])? " (?: {_SPLICE} | \\. | [^"\\\r\n] )* " (?:[A-Za-z_]\w*)?
              | (?:u8|[uUL])? ' (?: {_SPLICE} | \\. | [^'\\\r\n] )+ ' (?:[A-Za-z_]\w*)? )
    | (?P<number> \.? \d (?: [eEpP][+-] | '?[\w.] )* )
    | (?P<word> [^\W\d] \w* )
    | (?P<sign> <<<|>>> | <=> | <<= | >>= | -> \* | \.\.\. | \#\# | :: | \.\* | -> | \+\+ | -- | << | >>
              | <= | >= | == | != | && | \|\| | [-+*/%&|^]= | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ANY_SPLICE = re.compile(_SPLICE)
_DIRECTIVE_INCLUDE = re.compile(r"[ \t]*(<[^>\r\n]*>)")
_DIRECTIVE_FUNCTION = re.compile(r"[ \t]+[^\W\d]\w*\(")


def fingerprint(text: str, language: Language) -> str:
    """SHA-256 of the tokens of `text`, hex.

    The end of a preprocessor line, the contents of literals and the blank that tells `#define F (x)` from
    `#define F(x)` are kept; spaces, line breaks, joined lines and comments are not.
    """
    hasher = hashlib.sha256(language.value.encode())
    for token in tokens(text):
        data = encode(token)
        hasher.update(b"%d:" % len(data) + data)
    return hasher.hexdigest()


def tokens(text: str) -> Iterator[str]:
    """Tokens in order; a preprocessor line ends with the token `\\n`."""
    at, fresh, in_directive = 0, True, False
    """`fresh`: nothing but white space and comments on the line so far."""
    glued = False
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, "the last alternative takes any character"
        kind, token, at = match.lastgroup, match.group(), match.end()
        if match["raw"] is not None:
            kind = "raw"
        if kind == "newline":
            if in_directive:
                yield "\n"
            fresh, in_directive = True, False
        elif kind == "splice":
            # Two halves of one token; rare enough to be told from two tokens by a mark.
            if glued and at < len(text) and not text[at].isspace():
                yield "\\"
            continue
        elif kind not in ("space", "comment"):
            if kind == "text":
                token = _ANY_SPLICE.sub("", token)
            yield token
            if token == "#" and fresh:
                in_directive = True
                header, at = _directive_start(text, at)
                yield from header
            fresh = False
        glued = kind not in ("space", "comment", "newline")
    if in_directive:
        yield "\n"


_KEYWORD = re.compile(r"[ \t]*([a-z_]+)")


def _directive_start(text: str, at: int) -> tuple[list[str], int]:
    """The tokens after `#` that white space could change: a header's name, a macro's opening parenthesis."""
    keyword = _KEYWORD.match(text, at)
    if keyword is None:
        return [], at
    if keyword[1].startswith("include") and (header := _DIRECTIVE_INCLUDE.match(text, keyword.end())):
        return [keyword[1], header[1]], header.end()
    if keyword[1] == "define" and (macro := _DIRECTIVE_FUNCTION.match(text, keyword.end())):
        return [keyword[1], macro.group().strip()], macro.end()
    return [], at
