"""Code actions: what can be done about what is shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from lsprotocol import types

from kernel_lsp.domain import Finding, KernelUnit
from kernel_lsp.fronts import words
from kernel_lsp.fronts.lsp import show
from kernel_lsp.fronts.lsp.client import Client
from kernel_lsp.fronts.lsp.documents import Document
from kernel_lsp.fronts.lsp.uris import to_uri
from kernel_lsp.source.pairing import entry_choices, reference_skeleton

FIX = types.CodeActionKind.QuickFix
REWRITE = types.CodeActionKind.RefactorRewrite


def actions(
    document: Document, params: types.CodeActionParams, client: Client, *, treatable: Collection[str], trusted: bool
) -> list[types.CodeAction] | None:
    """`treatable` are the codes of the findings that a skill can do something about."""
    unit = document.unit
    if unit is None:
        return None
    found: list[types.CodeAction] = []
    if trusted:
        touched = show.overlapping(document, show.findings(document), params.range)
        found += [_treat(document, finding) for finding in touched if finding.code in treatable]
    problem = "" if unit.problem is None else unit.problem.code
    if problem == "no-reference" and client.creates_files and (path := _free(unit)) is not None:
        found.append(_write_reference(unit, path))
    if problem == "ambiguous-entry":
        found += [_judge(document, client, name) for name in entry_choices(unit.path, unit.text)]
    if trusted and unit.entry is not None and show.touches(document, unit.entry.name_span, params.range):
        found.append(types.CodeAction(title=words.OPTIMIZE, kind=REWRITE, command=_optimize(words.OPTIMIZE, document)))
    return [action for action in found if _wanted(action, params.context.only)] or None


def _treat(document: Document, finding: Finding) -> types.CodeAction:
    title = words.treat_title(finding)
    return types.CodeAction(
        title=title,
        kind=FIX,
        diagnostics=[show.finding_diagnostic(document, finding)],
        command=_optimize(title, document, finding.code),
    )


def _optimize(title: str, document: Document, *finding: str) -> types.Command:
    return types.Command(title=title, command="kernel-lsp.optimize", arguments=[document.uri, *finding])


def _write_reference(unit: KernelUnit, path: Path) -> types.CodeAction:
    uri = to_uri(path)
    create = types.CreateFile(uri=uri, options=types.CreateFileOptions(overwrite=False, ignore_if_exists=False))
    fill = types.TextDocumentEdit(
        text_document=types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=None),
        edits=[types.TextEdit(range=_at_top(), new_text=reference_skeleton(unit))],
    )
    # A client that can create files reads `documentChanges`: there is no other place for a creation.
    edit = types.WorkspaceEdit(document_changes=[create, fill])
    return types.CodeAction(title=words.WRITE_REFERENCE, kind=FIX, edit=edit, is_preferred=True)


def _judge(document: Document, client: Client, name: str) -> types.CodeAction:
    insertion = types.TextEdit(range=_at_top(), new_text=f"// kernel-lsp: entry={name}\n")
    return types.CodeAction(
        title=words.judge_title(name),
        kind=FIX,
        edit=client.edit_of(document.uri, document.version, [insertion]),
    )


def _free(unit: KernelUnit) -> Path | None:
    """Where the reference would be looked for first; None where something is there already."""
    path = unit.path.with_suffix(".py")
    return None if path.exists() else path


def _at_top() -> types.Range:
    return types.Range(start=types.Position(line=0, character=0), end=types.Position(line=0, character=0))


def _wanted(action: types.CodeAction, only: Sequence[types.CodeActionKind | str] | None) -> bool:
    """Kinds are a hierarchy: asking for `refactor` asks for `refactor.rewrite` too."""
    if only is None:
        return True
    kind = _name(action.kind)
    return any(f"{kind}.".startswith(f"{name}." if name else "") for name in map(_name, only))


def _name(kind: types.CodeActionKind | str | None) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind or ""
