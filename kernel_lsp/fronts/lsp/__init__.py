"""The language server. Imports little by itself: an editor waits for its first answer."""

from __future__ import annotations

import sys
from typing import NoReturn


def serve(tcp: tuple[str, int] | None = None) -> NoReturn:
    """Serve at the standard streams, or every client that connects to `tcp`; ends the process."""
    import asyncio
    import logging

    from kernel_lsp.fronts.lsp import transport

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    sys.exit(asyncio.run(transport.serve_stdio() if tcp is None else transport.serve_tcp(*tcp)))
