"""`// kernel-lsp: key=value` lines: what a kernel file says to us."""

from __future__ import annotations

import re

_LINE = re.compile(r"(?:^|(?<=\r))[ \t]*(?://|/\*|\*)[/*!]*[ \t]*kernel-lsp:(?P<pairs>[^\r\n]*)", re.MULTILINE)
_PAIR = re.compile(r"""(?P<key>[A-Za-z_][\w.-]*)[ \t]*=[ \t]*(?:"(?P<quoted>[^"\r\n]*)"|(?P<value>(?:(?!\*/)\S)+))""")


def directives(text: str) -> tuple[tuple[str, str], ...]:
    """Key and value of each directive, in order; blanks part several on a line, quotes hold a value with blanks."""
    return tuple(
        (pair["key"], pair["value"] if pair["quoted"] is None else pair["quoted"])
        for line in _LINE.finditer(text)
        for pair in _PAIR.finditer(line["pairs"])
    )
