from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel_lsp.domain import Language, Position, Span
from kernel_lsp.source.features import features
from kernel_lsp.source.lines import LineIndex
from kernel_lsp.source.parse import ParsedSource, parse
from tests.source.reading import kernel_texts, parsed

PATH = Path("kernel.cpp")


def test_lines_end_where_editors_say_so() -> None:
    assert LineIndex("a\nb\r\nc\rd\fe\u2028f\u0085g".encode()).starts == [0, 2, 5, 7]


@given(st.text(alphabet=st.one_of(st.sampled_from("\r\n\fé😀a"), st.characters(codec="utf-8"))))
def test_offsets_and_positions_agree(text: str) -> None:
    data = text.encode()
    lines = LineIndex(data)
    for offset in range(len(data) + 1):
        if data[offset - 1 : offset + 1] != b"\r\n":
            assert lines.offset(lines.position(offset)) == offset


def test_positions_count_bytes() -> None:
    source = parsed("// é\r\nint 变量 = 1; int after;\r\n")
    (node,) = (n for n in source.root.named_children if n.type == "declaration" and b"after" in (n.text or b""))
    assert source.span(node).start == Position(line=1, column=len("int 变量 = 1; ".encode()))
    assert source.text_of(node) == "int after;"
    assert source.node_at(source.span(node)) == node


def test_a_node_is_found_by_its_span() -> None:
    source = parsed("void f(int n) { for (int i = 0; i < n; ++i) { g(i); } }")
    (loop,) = features(source).loops
    assert source.node_at(loop.span).type == "for_statement"
    assert source.node_at(loop.body_span).type == "compound_statement"
    assert source.text_at(loop.header_span) == "for (int i = 0; i < n; ++i)"


@pytest.mark.parametrize(
    ("name", "language"),
    [("a.cpp", Language.CPP), ("a.H", Language.CPP), ("a.cu", Language.CUDA), ("a.CUH", Language.CUDA)],
)
def test_language_of_a_file(name: str, language: Language) -> None:
    assert parse(Path(name), "").language is language


@pytest.mark.parametrize("macro", ["C10_EXPORT", "TORCH_API", "static FORCE_INLINE", "MY_LIB_API inline"])
def test_macros_in_the_place_of_attributes(macro: str) -> None:
    source = parsed(f"{macro} torch::Tensor f(const torch::Tensor& x) {{ return x; }}\n")
    assert not source.root.has_error
    (function,) = features(source).functions
    assert (function.name, function.returns) == ("f", "torch::Tensor")
    assert source.text_at(function.name_span) == "f"


def test_a_type_in_capitals_is_no_attribute() -> None:
    (function,) = features(parsed("REAL dot(const REAL* x) { return x[0]; }")).functions
    assert function.returns == "REAL"


def shape(source: ParsedSource) -> str:
    return str(source.root)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_parsing_what_changed_is_parsing_the_whole(data: st.DataObject) -> None:
    """Compared where the text is without errors: recovery from those may look at what was there before."""
    text = data.draw(st.sampled_from(sorted(kernel_texts().values())))
    source = parse(PATH, text)
    features(source)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 30)))
        new = data.draw(
            st.sampled_from(["", "\n", "x", " /* é */ ", "for (int q = 0; q < n; ++q) a[q] += 1;\n", "}", "{"])
        )
        text = text[:start] + new + text[end:]
        source = parse(PATH, text, source)
        fresh = parse(PATH, text)
        found = features(source)
        if not fresh.root.has_error and not source.root.has_error:
            assert shape(source) == shape(fresh)
            assert found == features(fresh)


def test_typing_line_by_line_ends_where_opening_the_file_does() -> None:
    for name, text in kernel_texts().items():
        source = parse(Path(name), "")
        lines = text.splitlines(keepends=True)
        for count in range(0, len(lines) + 1, 3):
            source = parse(Path(name), "".join(lines[:count]), source)
            features(source)
        source = parse(Path(name), text, source)
        assert features(source) == features(parse(Path(name), text))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("constexpr float k = 1;", "constexpr double k = 1;"),
        ("#define k 0.1f", "#define k 0.1"),
        ("using real = float; constexpr real k = 1;", "using real = double; constexpr real k = 1;"),
        ("float k(float);\nfloat k(float z) { return z; }", "float k(float);\ndouble k(float z) { return z; }"),
        ("#include <math.h>\n#define k exp(x[i])", "#include <cmath>\n#define k exp(x[i])"),
    ],
)
def test_a_body_is_read_again_when_what_it_uses_changes(before: str, after: str) -> None:
    body = "\nvoid f(const float* x, float* y, int n) { for (int i = 0; i < n; ++i) y[i] = exp(x[i]) * k * x[i]; }\n"
    older = parsed(before + body)
    features(older)
    newer = parse(PATH, after + body, older)
    assert features(newer) == features(parsed(after + body))


def test_the_older_text_stays_as_it_was() -> None:
    before = parsed("int a;\nint b;\n")
    tree = shape(before)
    after = parse(PATH, "int a;\nfloat c;\nint b;\n", before)
    assert shape(before) == tree
    assert before.span(before.root.named_children[1]) == Span.line(1, 0, 6)
    assert after.span(after.root.named_children[2]) == Span.line(2, 0, 6)


def test_memory_stays_flat_over_many_edits() -> None:
    text = kernel_texts()["softmax_extension.cpp"]
    source = parse(PATH, text)
    features(source)
    kept = len(source.memo)
    for number in range(300):
        source = parse(PATH, text.replace("sum = 0", f"sum = {number}"), source)
        features(source)
    assert len(source.memo) == kept


def test_unpaired_surrogates_do_no_harm() -> None:
    assert features(parsed('const char* s = "\ud83d";\nvoid f(float* x) { x[0] = 1; }')).accesses[0].array == "x"
