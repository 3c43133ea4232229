"""The pages are up to date, complete, and their examples show what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomllib

from kernel_lsp.diagnose import RULES, Rule, diagnose, documentation_path, explain
from kernel_lsp.diagnose.docs import files, main
from tests.diagnose.evidence import hot, read

ROOT = Path(__file__).resolve().parents[2]
HEADINGS = [
    "What it is",
    "Why it is slow",
    "How it is measured",
    "Example",
    "Instead",
    "Thresholds",
    "Skills",
]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


def test_docs_are_up_to_date() -> None:
    folder = ROOT / "docs" / "rules"
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert on_disk == files(), "run: python -m kernel_lsp.diagnose.docs"


def test_the_generator_writes_all_files(tmp_path: Path) -> None:
    main(tmp_path / "rules")
    assert {path.name for path in (tmp_path / "rules").iterdir()} == set(files())


def test_codes_and_names_are_unique_and_in_order() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))
    assert len({rule.name for rule in RULES}) == len(RULES)


@each_rule
def test_every_page_has_the_same_headings(rule: Rule) -> None:
    page = explain(rule.code)
    assert page is not None
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    assert all(section.strip() for section in re.split(r"^## .*$", page, flags=re.MULTILINE))
    assert page.endswith("\n")
    assert not page.endswith("\n\n")
    assert page.count("```") == 4


@each_rule
def test_every_page_is_found_on_this_machine(rule: Rule) -> None:
    path = documentation_path(rule.code)
    assert path is not None
    assert path.read_text(encoding="utf-8") == explain(rule.code)


def test_an_unknown_code_has_no_page() -> None:
    assert explain("KL999") is None
    assert documentation_path("KL999") is None
    assert documentation_path("../../README") is None


def test_case_does_not_matter() -> None:
    assert explain("kl501") == explain("KL501") is not None


SHOWN_BY_SAMPLES = [rule for rule in RULES if rule.code not in ("KL502", "KL508", "KL509")]
"""Those that need no compiler (KL502, see `test_compiler.py`) and no roofline (the limits, see `test_diagnosis.py`)."""


def found_in(rule: Rule, program: str, *, busy_threads: float) -> bool:
    features = read(program)
    assert not features.syntax_errors
    with_profile = diagnose(features, profile=hot(features, busy_threads=busy_threads, threads=8))
    return rule.code in {finding.code for finding in (*diagnose(features), *with_profile)}


@pytest.mark.parametrize("rule", SHOWN_BY_SAMPLES, ids=lambda rule: rule.code)
def test_the_example_has_the_fault_and_the_remedy_has_not(rule: Rule) -> None:
    assert found_in(rule, rule.documentation.example, busy_threads=1.0)
    assert not found_in(rule, rule.documentation.instead, busy_threads=7.9 if rule.code == "KL503" else 1.0)


@each_rule
def test_the_programs_parse(rule: Rule) -> None:
    assert not read(rule.documentation.example).syntax_errors
    assert not read(rule.documentation.instead).syntax_errors


def test_the_remedy_for_a_serial_loop_is_quiet_even_if_the_threads_stay_idle() -> None:
    """`is_parallel` decides, not the busy threads alone."""
    rule = next(rule for rule in RULES if rule.code == "KL503")
    assert not found_in(rule, rule.documentation.instead, busy_threads=1.0)


SKILLS = sorted((ROOT / "skills").glob("*/rule.toml"))


def test_rules_and_skills_name_each_other() -> None:
    """What a page says of its skills is what the skills say of themselves."""
    treats = {path.parent.name: set(tomllib.loads(path.read_text(encoding="utf-8"))["treats"]) for path in SKILLS}
    for rule in RULES:
        assert set(rule.skills) == {skill for skill, codes in treats.items() if rule.code in codes}, rule.code
