"""Write `docs/rules` from the rules: `python -m kernel_lsp.diagnose.docs [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from kernel_lsp.diagnose.documentation import index, page
from kernel_lsp.diagnose.rules import RULES


def files() -> dict[str, str]:
    """Name → text of every generated file."""
    return {f"{rule.code}.md": page(rule) for rule in RULES} | {"README.md": index()}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/rules"))
