"""C++ types as written: what they are to a caller in Python, and what they hold once subscripted."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernel_lsp.domain import TypeKind

_QUALIFIERS = re.compile(
    r"\b(?:const|volatile|constexpr|static|inline|extern|register|mutable|typename|struct|class|__restrict__|__restrict"
    r"|restrict|__shared__|__constant__|thread_local|alignas\s*\([^)]*\))(?![\w])|\[\[.*?\]\]"
)
_INTEGER = re.compile(
    r"(?:(?:unsigned|signed|long|short|int|char)\s*)+"
    r"|(?:std::|::)?(?:u?int(?:_fast|_least)?(?:8|16|32|64|max|ptr)_t|s?size_t|ptrdiff_t)|(?:c10::|at::)?SymInt"
)
_TENSOR = r"(?:torch::autograd::|torch::|at::)?(?:Tensor|Variable)"
_KINDS = (
    (re.compile(_TENSOR), TypeKind.TENSOR),
    (re.compile(rf"(?:c10::|std::|torch::|at::)?(?:optional|OptionalRef)<{_TENSOR}>"), TypeKind.OPTIONAL_TENSOR),
    (
        re.compile(
            rf"(?:(?:std::)?vector|(?:c10::|at::|torch::)?(?:ArrayRef|List)|(?:std::)?array)<{_TENSOR}(?:,[^<>]*)?>"
            rf"|(?:std::)?(?:tuple|pair)<(?:{_TENSOR},)*{_TENSOR}>"
            r"|(?:at::|torch::|c10::)?I?TensorList(?:Ref)?|(?:torch::autograd::)?variable_list"
        ),
        TypeKind.TENSOR_LIST,
    ),
    (
        re.compile(
            r"(?:at::|c10::|torch::)?(?:Sym)?IntArrayRef"
            r"|(?:(?:std::)?(?:vector|array)|(?:c10::|at::|torch::)?(?:ArrayRef|List))<"
            r"(?:int|long|longlong|(?:std::)?u?int(?:8|16|32|64)_t|(?:std::)?size_t)(?:,[^<>]*)?>"
        ),
        TypeKind.INTEGER_LIST,
    ),
    (re.compile(r"(?:std::|c10::)?(?:string|string_view)"), TypeKind.STRING),
    (re.compile(r"float|double|longdouble|(?:at::|c10::|torch::)?Scalar"), TypeKind.FLOAT),
    (re.compile(r"bool"), TypeKind.BOOL),
    (re.compile(r"void"), TypeKind.VOID),
)


def folded(text: str) -> str:
    """White space folded to single blanks."""
    return " ".join(text.split())


def kind_of(written: str, aliases: Mapping[str, str] | None = None) -> TypeKind:
    """What a parameter or result of the type `written` is to a caller in Python; `aliases` are the file's own names."""
    bare = _bare(written)
    for _ in range(4):
        if not aliases or bare.rstrip("*& ") not in aliases:
            break
        name = bare.rstrip("*& ")
        bare = _bare(aliases[name] + bare[len(name) :])
    return _kind_of_bare(bare)


@functools.lru_cache(maxsize=2048)
def _kind_of_bare(bare: str) -> TypeKind:
    compact = bare.replace("&", "").replace(" ", "")
    if compact.endswith(("*", "]")) and not compact.endswith(("**", "][")):
        pointee = compact.rstrip("*]").split("[")[0]
        if "(" in compact or re.fullmatch(_TENSOR, pointee):
            return TypeKind.OTHER
        return TypeKind.STRING if bare.replace(" ", "") == "char*" else TypeKind.POINTER
    if _INTEGER.fullmatch(bare.replace("&", "").strip()):
        return TypeKind.INTEGER
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(compact)), TypeKind.OTHER)


def is_const(written: str) -> bool:
    """The pointee or referent may not be written: `const` to the left of the last `*` or of the `&`."""
    head = re.split(r"[*&\[](?!.*[*&\[])", written, maxsplit=1)[0]
    return re.search(r"\bconst\b", head) is not None


@functools.lru_cache(maxsize=4096)
def _bare(written: str) -> str:
    """Without qualifiers; white space folded."""
    text = folded(_QUALIFIERS.sub(" ", written))
    return re.sub(r"\s*(::|<|>|,|\*|&|\[|\])\s*", r"\1", text)


# --- what an expression holds --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a value, as far as index and precision analysis need it."""

    name: str
    """Of the element: `float`, `int64_t`, `scalar_t`; empty where it is not known."""
    depth: int = 0
    """Subscripts until the element; 0 for a plain value."""
    layout: str = ""
    """How the levels follow each other: `pointer`, `array` (native, with `sizes`) or `accessor`."""
    sizes: tuple[str, ...] = ()
    """Of a native array, for each of its levels."""
    level: int = 0
    """Of an accessor: how many dimensions are already fixed."""
    is_float: bool = field(init=False, compare=False)
    is_double: bool = field(init=False, compare=False)
    is_integer: bool = field(init=False, compare=False)
    """Each for a plain value only."""

    def __post_init__(self) -> None:
        plain = self.depth == 0
        object.__setattr__(self, "is_float", plain and self.name == "float")
        object.__setattr__(self, "is_double", plain and self.name in ("double", "long double"))
        object.__setattr__(self, "is_integer", plain and is_integer(self.name))

    @property
    def is_tensor(self) -> bool:
        return self.depth == 0 and self.name.endswith("Tensor")

    @property
    def is_map(self) -> bool:
        return "map<" in self.name

    def element(self, subscripts: int = 1) -> ValueType:
        """After that many subscripts."""
        return _element(self, subscripts)

    def pointed_at(self) -> ValueType:
        """The type of a pointer to it."""
        return _pointer(self)


@functools.lru_cache(maxsize=1024)
def _element(kind: ValueType, subscripts: int) -> ValueType:
    left = kind.depth - subscripts
    if left > 0:
        return ValueType(kind.name, left, kind.layout, kind.sizes[subscripts:], kind.level + subscripts)
    return ValueType(kind.name if left == 0 else "")


@functools.lru_cache(maxsize=1024)
def _pointer(kind: ValueType) -> ValueType:
    return ValueType(kind.name, kind.depth + 1, "pointer")


@functools.lru_cache(maxsize=2048)
def is_integer(name: str) -> bool:
    return name == "bool" or _INTEGER.fullmatch(name) is not None


UNKNOWN = ValueType("")
INT = ValueType("int")
FLOAT = ValueType("float")
DOUBLE = ValueType("double")
BOOL = ValueType("bool")


_CONTAINER = re.compile(
    r"(?:std::)?(?:vector|array|unique_ptr|span|initializer_list)<(.*?)(?:\[\])?(?:,[^<>]*)?>"
    r"|(?:c10::|at::|torch::)?(?:SmallVector|ArrayRef)<(.*?)(?:,[^<>]*)?>"
)
_ACCESSOR = re.compile(
    r"(?:at::|torch::)?(?:Generic)?(?:Packed)?TensorAccessor(?:Base|32|64)?<([^<>,]+),(\d+)(?:,.*)?>"
)
_LISTS = {"IntArrayRef": "int64_t", "SymIntArrayRef": "SymInt"}


def value_type(written: str, aliases: Mapping[str, str], sizes: tuple[str, ...] = ()) -> ValueType:
    """The type `written` in a declaration; `sizes` are those of a declared array, in order."""
    result = _value_type(_bare(written).replace("&", ""))
    for _ in range(4):
        if result.name not in aliases:
            break
        inner = _value_type(_bare(aliases[result.name]).replace("&", ""))
        depth = inner.depth + result.depth
        result = ValueType(inner.name, depth, (inner.layout or result.layout) if depth else "")
    if sizes:
        return ValueType(result.name, result.depth + len(sizes), "array" if not result.depth else "pointer", sizes)
    return result


@functools.lru_cache(maxsize=2048)
def _value_type(bare: str) -> ValueType:
    text = bare.strip()
    if text.endswith("*"):
        inner = _value_type(text[:-1])
        return ValueType(inner.name, inner.depth + 1, "pointer")
    if found := _ACCESSOR.fullmatch(text):
        return ValueType(found[1].strip(), int(found[2]), "accessor")
    if found := _CONTAINER.fullmatch(text):
        inner = _value_type(found[1] or found[2])
        return ValueType(inner.name, inner.depth + 1, "pointer")
    if (last := text.rpartition("::")[2]) in _LISTS:
        return ValueType(_LISTS[last], 1, "pointer")
    return UNKNOWN if text in ("auto", "") else ValueType(text)
