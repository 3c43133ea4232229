"""The command `kernel-lsp`. Editors wait for `serve` to answer, so nothing is imported here before it is needed."""

from __future__ import annotations

import sys

FOR_EDITORS = (["serve"], ["serve", "--stdio"])
"""Commands that take the short way, past the command line's own machinery."""


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if sys.argv[1:] in FOR_EDITORS:
        from kernel_lsp.fronts.lsp import serve

        serve()
        return
    from kernel_lsp.fronts.commands import app

    app(prog_name="kernel-lsp")


if __name__ == "__main__":
    main()
