"""Names of C, C++ and torch that tell what an expression does."""

from __future__ import annotations

import functools
import re

MATH = frozenset(
    {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "pow", "hypot", "fmod", "remainder"}
    | {"sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"}
    | {"erf", "erfc", "tgamma", "lgamma"}
)
"""Functions of `<cmath>` that take ten cycles or more; C's take and give `double`."""

QUICK_MATH = frozenset(
    {"floor", "ceil", "round", "trunc", "rint", "nearbyint", "fmax", "fmin", "fdim", "copysign", "fma"}
)
"""The same for a few cycles, so that nothing is won by moving them out of a loop."""

MATH_CALL = re.compile(rf"(?P<std>std::)?(?P<base>{'|'.join(sorted(MATH | QUICK_MATH))})(?P<float>f)?")

ABSOLUTE = frozenset({"fabs", "std::fabs", "std::abs", "fabsf"})
"""Keep their argument's type; of `fabs` on a float compilers drop the detour through double themselves."""

DOUBLE_MACRO = re.compile(r"M_(?:E|LOG2E|LOG10E|LN2|LN10|PI(?:_[24])?|[12]_PI|2_SQRTPI|SQRT2|SQRT1_2)|HUGE_VAL|DBL_\w+")
FLOAT_MACROS = frozenset({"INFINITY", "NAN", "FLT_MAX", "FLT_MIN", "FLT_EPSILON"})

_DIGITS = r"\d[\d']*"
_EXPONENT = r"[eE][+-]?\d+"
DOUBLE_LITERAL = re.compile(
    rf"-?(?:(?:{_DIGITS})?\.{_DIGITS}(?:{_EXPONENT})?|{_DIGITS}\.(?:{_EXPONENT})?|{_DIGITS}{_EXPONENT})"
)
FLOAT_LITERAL = re.compile(rf"(?:{DOUBLE_LITERAL.pattern})[fF]")

CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast"})

SIZES = frozenset({"size", "numel", "dim", "stride", "ndimension", "length", "storage_offset", "element_size"})
DATA = frozenset({"data_ptr", "const_data_ptr", "mutable_data_ptr", "data"})
ACCESSORS = frozenset({"accessor", "packed_accessor", "packed_accessor32", "packed_accessor64"})
PURE_METHODS = SIZES | DATA | ACCESSORS | {"sizes", "strides", "begin", "end", "options", "scalar_type", "device"}
"""Give the same result as long as the object and the arguments stay the same."""

CHANGING_METHODS = frozenset(
    {"push_back", "emplace_back", "pop_back", "insert", "emplace", "erase", "clear", "resize", "assign", "push", "pop"}
    | {"swap", "append"}
)
"""Change the container they are called on."""

EXTREME = re.compile(r"(?:std::|::|c10::|at::)?(?:(?P<max>f?maxf?|MAX|Max)|(?P<min>f?minf?|MIN|Min))")
FUSED = re.compile(r"(?:std::|::)?fmaf?")
PARALLEL_CALL = re.compile(r"(?:\w+::)*parallel_(?:for|reduce)")

OMP_PRAGMA = re.compile(r"#\s*pragma\s+omp\b")
OMP_SHARES_LOOP = re.compile(r"\b(?:for|taskloop|loop)\b")
OMP_COLLAPSE = re.compile(r"\bcollapse\s*\(\s*(\d+)\s*\)")

_TEMPLATE_ARGUMENTS = re.compile(r"<[^<>]*>")


@functools.lru_cache(maxsize=4096)
def without_templates(name: str) -> str:
    """`std::max` of `std::max<float>`."""
    before = None
    while before != name:
        before, name = name, _TEMPLATE_ARGUMENTS.sub("", name)
    return "".join(name.split())


def template_arguments(name: str) -> str:
    """`float` of `data_ptr<float>`; empty where there are none."""
    return name.partition("<")[2].rpartition(">")[0].strip()
