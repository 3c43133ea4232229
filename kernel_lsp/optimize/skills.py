"""The skill library: folders of `SKILL.md`, `rule.toml` and `rewrite.py`, ours and the workspace's own.

A broken skill is one `Problem` and never stops the others.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernel_lsp.domain import Features, Finding, Location, Problem, Span, TextEdit
from kernel_lsp.optimize.rewriting import Declined, Rewrite
from kernel_lsp.optimize.rules import SkillRule, parse_rule
from kernel_lsp.source.edits import overlap
from kernel_lsp.source.parse import ParsedSource

HEADINGS = (
    "What it does",
    "Why it is faster",
    "When it applies",
    "When it does not",
    "Example",
    "Measured",
    "Source",
)
"""Of every `SKILL.md`, in this order."""

_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    """The folder's name: the act, `interchange-loops`."""
    description: str
    """One sentence: what it does and when to use it."""
    folder: Path
    document: str
    """`SKILL.md` without its front matter."""
    rule: SkillRule
    rewrite: Rewrite | None
    """None for a skill that only people and models can carry out."""

    def apply(
        self, source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
    ) -> tuple[TextEdit, ...] | Declined:
        """The edits, or why not. A rewrite that raises is a broken skill and declines with what it raised."""
        if self.rewrite is None:
            return Declined("it has no mechanical rewrite")
        try:
            result = self.rewrite(source, features, finding, parameters)
        except Exception as error:
            return Declined(f"its rewrite is broken: {type(error).__name__}: {error}")
        if isinstance(result, Declined):
            return result
        if overlap(result) is not None:
            return Declined("its rewrite is broken: two of its edits overlap")
        if result:
            return result
        return Declined("there is nothing for it to change")


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    skills: tuple[Skill, ...]
    """By name."""
    problems: tuple[Problem, ...]
    """One for each skill that could not be loaded."""

    def named(self, name: str) -> Skill | None:
        return next((skill for skill in self.skills if skill.name == name), None)


def shipped_folder() -> Path:
    """The skills that come with kernel-lsp: inside the package where it is installed, else beside it."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "skills"
    return inside if inside.is_dir() else package.parent / "skills"


def load(*folders: Path) -> Library:
    """Every skill in `folders`, ours by default; a later folder's skill replaces an earlier one of the same name."""
    skills: dict[str, Skill] = {}
    problems: list[Problem] = []
    for folder in folders or (shipped_folder(),):
        try:
            entries = sorted(path for path in folder.iterdir() if (path / "SKILL.md").exists())
        except OSError:
            continue
        for entry in entries:
            loaded = load_skill(entry)
            if isinstance(loaded, Problem):
                problems.append(loaded)
            else:
                skills[loaded.name] = loaded
    return Library(skills=tuple(skills[name] for name in sorted(skills)), problems=tuple(problems))


def load_skill(folder: Path) -> Skill | Problem:
    """The skill in `folder`, or what is wrong with it and in which file."""
    document = folder / "SKILL.md"
    try:
        description, body = _document(document.read_text(encoding="utf-8"), folder.name)
    except (OSError, ValueError) as error:
        return _broken(document, error)
    try:
        rule = parse_rule((folder / "rule.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return _broken(folder / "rule.toml", error)
    rewrite: Rewrite | None = None
    code = folder / "rewrite.py"
    if code.exists():
        try:
            rewrite = _rewrite(code)
        except Exception as error:
            return _broken(code, error)
    return Skill(name=folder.name, description=description, folder=folder, document=body, rule=rule, rewrite=rewrite)


def _document(text: str, folder_name: str) -> tuple[str, str]:
    """Description and body of a `SKILL.md`."""
    front = _FRONT_MATTER.match(text.replace("\r\n", "\n"))
    if front is None:
        raise ValueError("it must begin with front matter: `---`, name and description, `---`")
    fields = dict(re.findall(r"^(\w+):[ \t]*(.*\S)[ \t]*$", front[1], re.MULTILINE))
    name, description = fields.get("name"), fields.get("description")
    if name != folder_name or _NAME.fullmatch(folder_name) is None:
        raise ValueError(f"`name` must be the folder's name in lower case with hyphens, not {name!r}")
    if not description:
        raise ValueError("`description` is missing")
    body = text.replace("\r\n", "\n")[front.end() :]
    headings = tuple(re.findall(r"^## (.+?)\s*$", body, re.MULTILINE))
    if missing := [heading for heading in HEADINGS if heading not in headings]:
        raise ValueError(f"the heading `## {missing[0]}` is missing")
    return description, body


def _rewrite(path: Path) -> Rewrite:
    """The function `rewrite` of a file, loaded under a module name that no other file has."""
    unique = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    name = f"kernel_lsp_skill_{path.parent.name.replace('-', '_')}_{unique}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        rewrite = module.rewrite
    except BaseException:
        del sys.modules[name]
        raise
    if not callable(rewrite):
        raise ValueError("`rewrite` is not a function")
    return rewrite  # type: ignore[no-any-return]


def _broken(path: Path, error: Exception) -> Problem:
    what = f"{type(error).__name__}: {error}" if not isinstance(error, (OSError, ValueError)) else str(error)
    return Problem(
        code="broken-skill",
        message=f"skill `{path.parent.name}` was left out: {path.name}: {what}",
        hint="mend the file; every other skill works",
        location=Location(path=path, span=Span.line(0)),
    )
