"""The library: every shipped skill is whole and does what its examples say; a broken one is one problem."""

from __future__ import annotations

import ctypes
import math
import random
import re
import subprocess
from pathlib import Path

import pytest

from kernel_lsp.optimize import skills
from kernel_lsp.optimize.rewriting import Declined
from kernel_lsp.optimize.rules import parse_rule
from kernel_lsp.source.edits import apply
from kernel_lsp.source.features import features
from kernel_lsp.source.parse import parse
from tests.optimize.reading import LIBRARY, PATH, rewritten

EXAMPLES = [
    (skill, case) for skill in LIBRARY.skills for case in sorted((skill.folder / "examples").iterdir()) if case.is_dir()
]
COMPILED = [(skill, case) for skill, case in EXAMPLES if "torch/" not in (case / "before.cpp").read_text()]


def label(value: object) -> str:
    return value.name if isinstance(value, (skills.Skill, Path)) else str(value)


def test_the_shipped_library_is_whole() -> None:
    assert LIBRARY.problems == ()
    assert len(LIBRARY.skills) >= 10
    assert {skill.name for skill, _ in EXAMPLES} == {skill.name for skill in LIBRARY.skills}


@pytest.mark.parametrize(("skill", "case"), EXAMPLES, ids=label)
def test_examples_come_out_as_written(skill: skills.Skill, case: Path) -> None:
    before = parse(case / "before.cpp", (case / "before.cpp").read_text())
    edits = skill.apply(before, features(before), None, next(iter(skill.rule.combinations())))
    assert not isinstance(edits, Declined), edits.reason
    assert apply(before.text, edits) == (case / "after.cpp").read_text()
    assert (case / "reference.py").exists()


@pytest.mark.compiler
@pytest.mark.parametrize(("skill", "case"), COMPILED, ids=label)
def test_examples_compute_the_same(skill: skills.Skill, case: Path, tmp_path: Path) -> None:
    """With every choice of parameters, on sizes that leave incomplete blocks, and without new warnings."""
    before = (case / "before.cpp").read_text()
    source = parse(case / "before.cpp", before)
    n, m, k = 13, 37, 29
    draw = random.Random(7)
    a = [draw.uniform(-1, 1) for _ in range(n * k)]
    b = [draw.uniform(-1, 1) for _ in range(k * m)]
    expected = run(before, a, b, (n, m, k), tmp_path / "before")
    for number, parameters in enumerate(skill.rule.combinations()):
        edits = skill.apply(source, features(source), None, parameters)
        if isinstance(edits, Declined):
            assert number > 0, edits.reason
            continue
        got = run(apply(before, edits), a, b, (n, m, k), tmp_path / f"after{number}")
        assert got == pytest.approx(expected, rel=2e-5, abs=2e-6), parameters


def run(text: str, a: list[float], b: list[float], sizes: tuple[int, int, int], stem: Path) -> list[float]:
    """Compile an example and call its `kernel`."""
    path = stem.with_suffix(".cpp")
    path.write_text(text)
    library = stem.with_suffix(".so")
    flags = ["-O2", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["g++", *flags, path, "-o", library], check=True, timeout=60)
    n, m, k = sizes
    result = (ctypes.c_float * (n * m))(*[math.nan] * (n * m))
    ctypes.CDLL(str(library)).kernel((ctypes.c_float * len(a))(*a), (ctypes.c_float * len(b))(*b), result, n, m, k)
    return list(result)


@pytest.mark.compiler
@pytest.mark.parametrize(("name", "reference"), [("exp", math.exp), ("tanh", math.tanh), ("erf", math.erf)])
def test_vector_functions_are_accurate(name: str, reference: object, tmp_path: Path) -> None:
    """Within 2 units in the last place over all magnitudes; infinities and NaN as the library's."""
    assert callable(reference)
    loop = f"void f(const float* x, float* y, int n) {{ for (int i = 0; i < n; ++i) y[i] = std::{name}(x[i]); }}"
    text = rewritten("vectorise-exp", f'#include <cmath>\nextern "C" {loop}\n')
    assert isinstance(text, str)
    (tmp_path / "v.cpp").write_text(text)
    flags = ["-O3", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["g++", *flags, tmp_path / "v.cpp", "-o", tmp_path / "v.so"], check=True, timeout=60)
    draw = random.Random(3)
    values = [draw.choice((-1, 1)) * 10 ** draw.uniform(-8, 2) for _ in range(20_000)]
    values += [0.0, -0.0, math.inf, -math.inf, math.nan, 88.7, 88.8, -87.5, -103.0, -104.0, 3e38, -3e38, 1e-45]
    x = (ctypes.c_float * len(values))(*values)
    y = (ctypes.c_float * len(values))()
    ctypes.CDLL(str(tmp_path / "v.so")).f(x, y, len(values))
    for given, got in zip(x, y, strict=True):
        if math.isnan(given):
            assert math.isnan(got)
            continue
        exact = math.inf if name == "exp" and given > 88.73 else reference(given)
        rounded = ctypes.c_float(exact).value
        if math.isinf(rounded):
            assert got == rounded
        else:
            unit = 2.0 ** max(-149, math.frexp(rounded)[1] - 24) if rounded else 2.0**-149
            assert abs(got - exact) <= 2 * unit, given


# --- broken skills ------------------------------------------------------------------------------------------

DOCUMENT = "---\nname: {name}\ndescription: Does a thing.\n---\n" + "".join(f"## {h}\n\nx\n" for h in skills.HEADINGS)
RULE = 'treats = ["KL501"]\n'
REWRITE = "def rewrite(source, features, finding, parameters):\n    return ()\n"


def write(folder: Path, document: str = "", rule: str = RULE, rewrite: str | None = REWRITE) -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(document or DOCUMENT.format(name=folder.name))
    (folder / "rule.toml").write_text(rule)
    if rewrite is not None:
        (folder / "rewrite.py").write_text(rewrite)
    return folder


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"document": "# no front matter"}, "front matter"),
        ({"document": DOCUMENT.format(name="another")}, "the folder's name"),
        ({"document": "---\nname: broken\ndescription: x\n---\n"}, "What it does"),
        ({"rule": "treats = ["}, "rule.toml"),
        ({"rule": ""}, "`treats`"),
        ({"rule": RULE + "priority = 2"}, "`priority`"),
        ({"rule": RULE + "colour = 1"}, "unknown key `colour`"),
        ({"rule": RULE + '[[when]]\nfact = "moon"\nequals = 1\notherwise = "x"'}, "unknown fact 'moon'"),
        ({"rule": RULE + '[[when]]\nfact = "file.torch"\nequals = true'}, "`otherwise`"),
        ({"rule": RULE + "alone = true"}, "takes a condition"),
        ({"rule": RULE + "[parameters.size]\nvalues = []"}, "parameter `size`"),
        ({"rule": RULE + f"[parameters.size]\nvalues = {list(range(13))}"}, "more than 12"),
        ({"rewrite": "def rewrite(:"}, "SyntaxError"),
        ({"rewrite": "import no_such_module_anywhere"}, "ModuleNotFoundError"),
        ({"rewrite": "x = 1"}, "rewrite"),
        ({"rewrite": "rewrite = 3"}, "not a function"),
    ],
)
def test_a_broken_skill_is_one_problem_and_stops_no_other(parts: dict[str, str], words: str, tmp_path: Path) -> None:
    write(tmp_path / "broken", **parts)
    write(tmp_path / "whole")
    library = skills.load(tmp_path)
    assert [skill.name for skill in library.skills] == ["whole"]
    (problem,) = library.problems
    assert problem.code == "broken-skill"
    assert words in problem.message
    assert problem.location is not None
    assert problem.location.path.parent == tmp_path / "broken"


def test_a_rewrite_that_raises_declines(tmp_path: Path) -> None:
    skill = skills.load_skill(write(tmp_path / "raises", rewrite="def rewrite(*_):\n    raise KeyError('x')\n"))
    assert isinstance(skill, skills.Skill)
    source = parse(PATH, "")
    result = skill.apply(source, features(source), None, {})
    assert isinstance(result, Declined)
    assert "KeyError" in result.reason


def test_skills_of_one_file_name_do_not_meet(tmp_path: Path) -> None:
    first = write(tmp_path / "a" / "same", rewrite="NAME = 'first'\n" + REWRITE)
    second = write(tmp_path / "b" / "same", rewrite="NAME = 'second'\n" + REWRITE)
    one, two = skills.load_skill(first), skills.load_skill(second)
    assert isinstance(one, skills.Skill)
    assert isinstance(two, skills.Skill)
    assert one.rewrite is not two.rewrite
    replaced = skills.load(tmp_path / "a", tmp_path / "b").named("same")
    assert replaced is not None
    assert replaced.folder == second


def test_a_skill_without_a_rewrite_is_for_people(tmp_path: Path) -> None:
    skill = skills.load_skill(write(tmp_path / "advice", rewrite=None))
    assert isinstance(skill, skills.Skill)
    source = parse(PATH, "")
    assert isinstance(skill.apply(source, features(source), None, {}), Declined)


def test_a_folder_that_is_not_there_holds_no_skills(tmp_path: Path) -> None:
    assert skills.load(tmp_path / "nowhere") == skills.Library(skills=(), problems=())


def test_unknown_facts_decide_nothing() -> None:
    rule = parse_rule(
        RULE
        + '[[when]]\nfact = "loop.depth"\nat_least = 3\notherwise = "shallow"\n'
        + '[[veto]]\nfact = "finding.headroom"\nat_most = 0.1\nbecause = "little to gain"\n'
    )
    source = parse(PATH, "")
    assert rule.objection(features(source), None) is None


def test_documents_name_their_measurements_and_sources() -> None:
    for skill in LIBRARY.skills:
        parts = re.split(r"^## .+$", skill.document, flags=re.MULTILINE)[1:]
        assert len(parts) == len(skills.HEADINGS), skill.name
        assert all(len(part.strip()) > 20 for part in parts), skill.name
