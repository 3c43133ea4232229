from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.build.content import Closure, Source, closure
from kernel_lsp.build.log import explain_undefined, parse, undefined_symbols
from kernel_lsp.domain import Severity

TEXT = """\
#include "a.h"
struct S{};
template <class T> void f(T t) { t.go(); }
#define TWICE(x) twice_##x()
int main() {
  f(3);
  int y = TWICE(q);
  std::vector<S> v; std::sort(v.begin(), v.end());
  int unused;
  const char* é = "é"; é = 5 + é2;
  return 1
}
"""
SOURCE = Source(path=Path("/w/k.cpp"), text=TEXT)
REACHED = Closure(headers=(Path("/w/a.h"),), lines=((Path("/w/a.h"), 0),), uses_torch=False, computed=False, digest="")

GCC = """\
In file included from /w/k.cpp:1:
/w/a.h: In function ‘int bad()’:
/w/a.h:3:27: error: ‘undefined_thing’ was not declared in this scope
    3 | inline int bad() { return undefined_thing; }
      |                           ^~~~~~~~~~~~~~~
/w/k.cpp: In function ‘int main()’:
/w/k.cpp:4:18: error: ‘twice_q’ was not declared in this scope
    4 | #define TWICE(x) twice_##x()
      |                  ^~~~~~
/w/k.cpp:7:11: note: in expansion of macro ‘TWICE’
    7 |   int y = TWICE(q);
      |           ^~~~~
/w/k.cpp:10:35: error: ‘é2’ was not declared in this scope; did you mean ‘é’?
   10 |   const char* é = "é"; é = 5 + é2;
      |                                ^~
      |                                é
/w/k.cpp:11:11: error: expected ‘;’ before ‘}’ token
   11 |   return 1
      |           ^
      |           ;
   12 | }
      | ~
/w/k.cpp:9:7: warning: unused variable ‘unused’ [-Wunused-variable]
    9 |   int unused;
      |       ^~~~~~
/w/k.cpp: In instantiation of ‘void f(T) [with T = int]’:
/w/k.cpp:6:4:   required from here
/w/k.cpp:3:36: error: request for member ‘go’ in ‘t’, which is of non-class type ‘int’
    3 | template <class T> void f(T t) { t.go(); }
      |                                  ~~^~
In file included from /usr/include/c++/12/bits/stl_algobase.h:71,
                 from /usr/include/c++/12/vector:60,
                 from /w/a.h:1:
/usr/include/c++/12/bits/predefined_ops.h: In instantiation of ‘constexpr bool X() [with _Iterator1 = S*]’:
/usr/include/c++/12/bits/stl_algo.h:1809:14:   required from ‘void std::__insertion_sort(X) [with X = S*]’
/usr/include/c++/12/bits/stl_algo.h:4820:18:   required from ‘void std::sort(_RAIter, _RAIter) [with _RAIter = S*]’
/w/k.cpp:8:30:   required from here
/usr/include/c++/12/bits/predefined_ops.h:45:23: error: no match for ‘operator<’ (operand types are ‘S’ and ‘S’)
   45 |       { return *__it1 < *__it2; }
      |                ~~~~~~~^~~~~~~~
/usr/include/c++/12/bits/stl_iterator.h:1246:5: note: candidate: ‘template<class L> bool operator<(const L&)’
 1246 |     operator<(const L& __lhs,
      |     ^~~~~~~~
"""

CLANG = """\
In file included from /w/k.cpp:1:
/w/a.h:3:27: error: use of undeclared identifier 'undefined_thing'
inline int bad() { return undefined_thing; }
                          ^
/w/k.cpp:7:11: error: use of undeclared identifier 'twice_q'
  int y = TWICE(q);
          ^
/w/k.cpp:4:18: note: expanded from macro 'TWICE'
#define TWICE(x) twice_##x()
                 ^
2 errors generated.
"""


def found(text: str) -> list[tuple[str, str]]:
    """Each message's severity and the text that it covers, in line and columns."""
    lines = TEXT.encode().split(b"\n")
    out = []
    for message in parse(text, SOURCE, REACHED):
        assert message.location is not None
        assert message.location.path == SOURCE.path
        span = message.location.span
        covered = lines[span.start.line][span.start.column : span.end.column].decode()
        out.append((message.severity.value, f"{span.start.line + 1}: {covered}"))
    return out


def test_gccs_messages_sit_on_the_users_lines() -> None:
    assert found(GCC) == [
        ("error", '1: #include "a.h"'),
        ("error", "7: TWICE"),
        ("error", "10: é2"),
        ("error", "11: "),
        ("warning", "9: unused"),
        ("error", "3: t.go"),
        ("error", "8: ("),
    ]


def test_where_the_compiler_stopped_is_kept() -> None:
    first, second, *_, last = parse(GCC, SOURCE, REACHED)
    assert first.related[0][0].path == Path("/w/a.h")
    assert first.related[0][0].span.start.line == 2
    assert second.related[-1][1] == "in expansion of macro ‘TWICE’"
    assert last.related[0][0].path.name == "predefined_ops.h"
    assert parse(GCC, SOURCE, REACHED)[4].option == "-Wunused-variable"


def test_clangs_messages_are_read_too() -> None:
    assert found(CLANG) == [("error", '1: #include "a.h"'), ("error", "7: TWICE")]


def test_a_header_whose_way_is_not_printed_again_is_still_traced() -> None:
    second = "/w/a.h:9:1: error: another one\n"
    assert found(GCC.split("/w/k.cpp: In", maxsplit=1)[0] + second)[-1] == ("error", '1: #include "a.h"')
    assert found(second) == [("error", '1: #include "a.h"')]


def test_code_in_a_macros_arguments_keeps_its_own_line() -> None:
    text = "AT_DISPATCH(t, [&] {\n  wrong;\n});\n"
    log = """\
/w/k.cpp:2:3: error: ‘wrong’ was not declared in this scope
    2 |   wrong;
      |   ^~~~~
/t/Dispatch.h:3:1: note: in definition of macro ‘AT_DISPATCH_CASE’
    3 |   __VA_ARGS__
      |   ^~~~~~~~~~~
/w/k.cpp:1:1: note: in expansion of macro ‘AT_DISPATCH’
    1 | AT_DISPATCH(t, [&] {
      | ^~~~~~~~~~~
"""
    source = Source(path=Path("/w/k.cpp"), text=text)
    (message,) = parse(log, source, closure(source, ()))
    assert message.location is not None
    assert message.location.span.start.line == 1


def test_the_old_type_call_is_explained() -> None:
    text = 'AT_DISPATCH_FLOATING_TYPES(x.type(), "f", [&] {});\n'
    log = """\
/t/Dispatch.h:9:1: error: no matching function for call to ‘scalar_type(const at::DeprecatedTypeProperties&)’
/w/k.cpp:1:1: note: in expansion of macro ‘AT_DISPATCH_FLOATING_TYPES’
"""
    (message,) = parse(log, Source(path=Path("/w/k.cpp"), text=text), REACHED)
    assert "`.scalar_type()`" in message.text
    assert message.location is not None
    assert message.location.span.start.line == 0


def test_undefined_symbols_of_every_linker() -> None:
    bfd = "/usr/bin/ld: /tmp/c.o: in function `g()':\n/tmp/p/l.cpp:1: undefined reference to `foo'\n"
    bfd += (
        "/usr/bin/ld: /tmp/p/l.cpp:3: undefined reference to `bar(int)'\ncollect2: error: ld returned 1 exit status\n"
    )
    assert undefined_symbols(bfd) == (("foo", "/tmp/p/l.cpp", 0), ("bar(int)", "/tmp/p/l.cpp", 2))
    gold = "/tmp/p/l.cpp:1: error: undefined reference to 'foo'\n/tmp/p/l.cpp:1: warning: undefined reference to 'x'\n"
    assert undefined_symbols(gold) == (("foo", "/tmp/p/l.cpp", 0), ("x", "/tmp/p/l.cpp", 0))
    lld = "ld.lld: error: undefined symbol: bar(int)\n>>> referenced by l.cpp:1 (/tmp/l.cpp:1)\n"
    assert undefined_symbols(lld) == (("bar(int)", None, 0),)


def test_the_cause_of_an_undefined_symbol_is_named() -> None:
    assert "C++ ABI" in explain_undefined("c10::Error::Error(c10::SourceLocation, std::__cxx11::basic_string<char>)")
    assert "version of torch" in explain_undefined("at::_ops::gone::call(at::Tensor const&)")
    assert "import torch" in explain_undefined("THPVariableClass")
    assert "-fopenmp" in explain_undefined("omp_get_num_threads")
    assert "-lopenblas" in explain_undefined("cblas_sgemm")
    assert "sources=" in explain_undefined("launch(float*, int)")


LINES = [*GCC.splitlines(), *CLANG.splitlines()]


@given(st.text(max_size=300) | st.lists(st.sampled_from(LINES)).map("\n".join))
def test_any_text_is_read(text: str) -> None:
    for message in parse(text, SOURCE, REACHED):
        if message.location is not None:
            span = message.location.span
            assert span.start <= span.end
            assert message.location.path == SOURCE.path
    undefined_symbols(text)


@given(st.integers(0, 60), st.integers(0, 60))
def test_places_beyond_the_text_are_harmless(line: int, column: int) -> None:
    (message,) = parse(f"/w/k.cpp:{line}:{column}: error: x\n", SOURCE, REACHED)
    assert message.severity is Severity.ERROR
    assert message.location is not None
    length = len(re.split("\n", TEXT))
    assert message.location.span.start.line <= max(line - 1, 0)
    assert message.location.span.start.column == 0 or message.location.span.start.line < length
