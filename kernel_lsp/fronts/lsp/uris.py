"""File URIs ↔ paths."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit


def to_path(uri: str) -> Path | None:
    """None for what is no file of this machine: an untitled buffer, a side of a diff, a file in an archive."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        return None
    return Path(unquote(parts.path))


def to_uri(path: Path) -> str:
    return path.absolute().as_uri()
