"""What a search remembers of a kernel, so that nothing is tried twice."""

from __future__ import annotations

from typing import Protocol

from kernel_lsp.domain import Attempt


class Memory(Protocol):
    """Attempts under one reference, compiler, set of flags and device: a stored outcome must still hold."""

    def attempts(self, kernel: str) -> tuple[Attempt, ...]:
        """Every attempt on `kernel`, in the order made."""
        ...

    def remember(self, kernel: str, attempt: Attempt, text: str) -> None:
        """Keep `attempt` and the text it tried."""
        ...

    def source(self, kernel: str, fingerprint: str) -> str | None:
        """The text that was tried under `fingerprint`."""
        ...


class InMemory:
    """A `Memory` that lasts as long as the object."""

    def __init__(self) -> None:
        self._attempts: dict[str, list[Attempt]] = {}
        self._texts: dict[tuple[str, str], str] = {}

    def attempts(self, kernel: str) -> tuple[Attempt, ...]:
        return tuple(self._attempts.get(kernel, ()))

    def remember(self, kernel: str, attempt: Attempt, text: str) -> None:
        self._attempts.setdefault(kernel, []).append(attempt)
        self._texts[kernel, attempt.fingerprint] = text

    def source(self, kernel: str, fingerprint: str) -> str | None:
        return self._texts.get((kernel, fingerprint))
