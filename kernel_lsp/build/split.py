"""A `.cu` as two units: the device code with the launches, for nvcc, and the host side, for the quick C++ compiler.

Nearly all the time that nvcc takes goes into host headers that no kernel needs, which it reads twice. So the device
unit keeps kernels, device functions, types, constants and macros, and loses the host functions and their headers; the
host unit keeps everything but device code, and calls, where a kernel was launched, a launcher that the device unit
defines beside the kernel. Both keep every line where it was. An edit to a kernel's body leaves the host unit as it is.

What cannot be taken apart safely is left whole, with the reason.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from kernel_lsp.build import dispatch
from kernel_lsp.source.declarations import Declarations, Definition, declarations
from kernel_lsp.source.parse import ParsedSource

LAUNCHER = "kernel_lsp_launch_"
UNNAMED = "kernel_lsp_unnamed"

_TORCH = re.compile(r"\b(?:at|torch|c10|caffe2|pybind11|py|aten)\s*::|\bTORCH_|\bAT_|\bC10_|\bPYBIND11_")
_ACCESSORS = re.compile(
    r"\b(?:at|torch)\s*::\s*(?:(?:Generic)?PackedTensorAccessor(?:32|64)?|(?:Restrict|Default)PtrTraits)\b"
)
"""What device code may use of torch: the thin layer's accessors need nothing else."""

_TORCH_HEADER = re.compile(r"[<\"](?:torch|ATen|c10|pybind11|caffe2)/|[<\"]Python\.h")
_HOST_HEADER = re.compile(
    r"<(?:vector|string|iostream|sstream|fstream|iomanip|map|set|unordered_map|unordered_set|memory|tuple|functional"
    r"|stdexcept|chrono|thread|mutex|optional|random|cstdio|cstdlib)>"
)
"""Standard headers that device code hardly needs; where it does, the device unit does not compile and the file is
compiled whole."""

_DEVICE_HEADER = re.compile(
    r"[<\"](?:cooperative_groups|cub/|thrust/|mma\.h|cuda_pipeline|cuda/|cute/|cutlass/)|\.cuh[>\"]"
)
"""Not for a C++ compiler."""

_QUALIFIERS = re.compile(r"\b__(?:global|device|host)__\b")
_DEVICE_VARIABLE = re.compile(r"\b__(?:device|constant|shared|managed)__\b")
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"[-+]?\d[\w.]*|true|false")
_TYPES = frozenset(
    [
        "float",
        "double",
        "int",
        "unsigned",
        "long",
        "short",
        "char",
        "bool",
        "signed",
        "half",
        "__half",
        "__nv_bfloat16",
        "nv_bfloat16",
        "int8_t",
        "uint8_t",
        "int16_t",
        "uint16_t",
        "int32_t",
        "uint32_t",
        "int64_t",
        "uint64_t",
        "size_t",
        "float2",
        "float4",
        "double2",
        "int2",
        "int4",
        "half2",
        "__half2",
    ]
)
_CPP_TYPES = {
    "Byte": "uint8_t",
    "Char": "int8_t",
    "Short": "int16_t",
    "Int": "int",
    "Long": "int64_t",
    "Float": "float",
    "Double": "double",
    "Bool": "bool",
}
"""Scalar types that need no header of torch's in device code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    host: str
    device: str


@dataclass(frozen=True, slots=True)
class Unsplittable(Exception):
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    definition: Definition
    header: str
    """`template <typename T, int B>`, or nothing."""
    parameters: str
    """With parentheses, on one line."""
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.definition.function.name

    @property
    def launcher(self) -> str:
        joined = ", " if self.names else ""
        inside = self.parameters[1:-1].strip()
        return (
            f"{self.header} void {LAUNCHER}{self.name}(dim3 kl_grid, dim3 kl_block, size_t kl_shared, "
            f"cudaStream_t kl_stream{joined}{inside})"
        ).strip()


def split(parsed: ParsedSource) -> Split | str:
    """The two units; else why the file must stay whole."""
    try:
        return _Splitter(parsed).split()
    except Unsplittable as why:
        return why.reason


class _Splitter:
    def __init__(self, parsed: ParsedSource) -> None:
        self.parsed = parsed
        self.data = parsed.data
        self.found: Declarations = declarations(parsed)
        self.host: list[tuple[int, int, str]] = []
        self.device: list[tuple[int, int, str]] = []
        self.kernels: dict[str, _Kernel] = {}
        self.instances: dict[str, set[str]] = {}
        """Kernel template → arguments it is launched with."""

    def split(self) -> Split:
        if self.parsed.root.has_error:
            raise Unsplittable("it does not parse without its macros")
        for definition in self.found.definitions:
            if _is_global(definition):
                self._kernel(definition)
        if not self.kernels:
            raise Unsplittable("it defines no kernel")
        launched: list[tuple[int, int]] = []
        for definition in self.found.definitions:
            if not definition.is_device:
                launched += self._launches(definition)
        self._headers()
        for definition in self.found.definitions:
            self._function(definition)
        self._rest(self.parsed.root)
        for kernel in self.kernels.values():
            self._launcher(kernel)
        host, device = _edited(self.data, self.host), _edited(self.data, self.device)
        self._check_host(host)
        return Split(host=host, device=device)

    # --- kernels --------------------------------------------------------------------------------------------

    def _kernel(self, definition: Definition) -> None:
        function = definition.function
        if function.name in self.kernels:
            raise Unsplittable(f"it overloads the kernel `{function.name}`")
        if definition.in_class:
            raise Unsplittable(f"the kernel `{function.name}` is a class's")
        node = definition.node
        head = self._text(node.start_byte, definition.body.start_byte)
        if _TORCH.search(_ACCESSORS.sub("", self._text(node.start_byte, node.end_byte))):
            raise Unsplittable(f"the kernel `{function.name}` uses torch's own types")
        template = _template(node)
        header = "" if template is None else self._text(template.start_byte, node.start_byte)
        if "..." in header or "..." in head:
            raise Unsplittable(f"the kernel `{function.name}` takes any number of arguments")
        names = tuple(parameter.name or "" for parameter in function.parameters)
        if not all(names):
            raise Unsplittable(f"a parameter of the kernel `{function.name}` has no name")
        opening = node.child_by_field_name("declarator")
        parameters = _parameter_list(opening)
        if parameters is None:
            raise Unsplittable(f"the head of the kernel `{function.name}` is not understood")
        self.kernels[function.name] = _Kernel(
            definition=definition,
            header=_one_line(header),
            parameters=_one_line(self._text(parameters.start_byte, parameters.end_byte)),
            names=names,
        )
        self.instances[function.name] = set()

    def _launcher(self, kernel: _Kernel) -> None:
        """Declared where the kernel stood, in the host unit; defined behind it, in the device unit."""
        node = kernel.definition.node
        outer = _outermost(node)
        self.host.append((outer.start_byte, node.end_byte, f"{kernel.launcher};"))
        arguments = "" if not kernel.header else f"<{', '.join(_parameter_names(kernel.header))}>"
        body = (
            f"{{ {kernel.name}{arguments}<<<kl_grid, kl_block, kl_shared, kl_stream>>>({', '.join(kernel.names)}); }}"
        )
        uses = "".join(
            f" __attribute__((used)) static void* kernel_lsp_use_{kernel.name}_{number} = "
            f"(void*)&{LAUNCHER}{kernel.name}<{instance}>;"
            for number, instance in enumerate(sorted(self.instances[kernel.name]))
        )
        self.device.append((node.end_byte, node.end_byte, f" {kernel.launcher} {body}{uses}"))

    # --- launches -------------------------------------------------------------------------------------------

    def _launches(self, definition: Definition) -> Iterator[tuple[int, int]]:
        for call in _calls_of_kernels(definition.body):
            syntax = next(child for child in call.children if child.type == "kernel_call_syntax")
            callee = call.children[0]
            arguments = next(child for child in call.children if child.type == "argument_list")
            written = self._text(callee.start_byte, callee.end_byte)
            name, templated = _name_of(written)
            if name not in self.kernels:
                raise Unsplittable(f"it launches `{name}`, which this file does not define")
            if self.kernels[name].header:
                if templated is None:
                    raise Unsplittable(f"the template arguments of `{name}` are deduced where it is launched")
                self.instances[name].update(self._instances(name, templated, call))
            configuration = self._text(syntax.start_byte + 3, syntax.end_byte - 3)
            given = len(_top_level(configuration))
            if not 2 <= given <= 4:
                raise Unsplittable(f"the launch of `{name}` is not understood")
            defaults = ("", "", ", 0, nullptr", ", nullptr", "")[given]
            place = written.rfind(name, 0, len(written) if templated is None else written.index("<"))
            start = callee.start_byte + len(written[:place].encode())
            self.host.append((start, start, LAUNCHER))
            self.host.append((syntax.start_byte, syntax.start_byte + 3, "("))
            comma = ", " if arguments.named_child_count else ""
            self.host.append((syntax.end_byte - 3, arguments.start_byte + 1, f"{defaults}{comma}"))
            yield call.start_byte, call.end_byte

    def _instances(self, name: str, written: str, call: Node) -> Iterator[str]:
        """Every list of template arguments that `written` can stand for."""
        choices = []
        dispatched = self._dispatched(call)
        for argument in _top_level(written):
            if argument in dispatched:
                choices.append(dispatched[argument])
            elif self._means_the_same_everywhere(argument):
                choices.append((argument,))
            else:
                raise Unsplittable(f"the template argument `{argument}` of `{name}` is only known where it is launched")
        return (", ".join(chosen) for chosen in itertools.product(*choices))

    def _dispatched(self, call: Node) -> Mapping[str, Sequence[str]]:
        """Types that the dispatch macros around `call` give a name."""
        found: dict[str, Sequence[str]] = {}
        node: Node | None = call
        while node is not None:
            if node.type == "call_expression" and node.children[0].type == "identifier":
                macro = self._text(node.children[0].start_byte, node.children[0].end_byte)
                if (types := dispatch.types_of(macro, self._arguments(node))) is not None:
                    name, scalars = types
                    if not set(scalars) <= _CPP_TYPES.keys():
                        raise Unsplittable(f"{macro} gives device code types of torch's own")
                    found.setdefault(name, [_CPP_TYPES[scalar] for scalar in scalars])
            node = node.parent
        return found

    def _arguments(self, call: Node) -> list[str]:
        arguments = next((child for child in call.children if child.type == "argument_list"), None)
        return [] if arguments is None else [self._text(c.start_byte, c.end_byte) for c in arguments.named_children]

    def _means_the_same_everywhere(self, argument: str) -> bool:
        if _NUMBER.fullmatch(argument):
            return True
        known = _TYPES | self.found.constants.keys() | self.found.macros.keys() | self.found.aliases.keys()
        words = _WORD.findall(re.sub(r"\b(?:std|const)\b|\d\w*", "", argument))
        return bool(words) and all(word in known for word in words) and "(" not in argument

    # --- the rest -------------------------------------------------------------------------------------------

    def _headers(self) -> None:
        uses_accessors = any(
            _ACCESSORS.search(self._text(one.node.start_byte, one.node.end_byte))
            for one in self.found.definitions
            if one.is_device
        )
        for node in _everywhere(self.parsed.root, "preproc_include"):
            written = self._text(node.start_byte, node.end_byte)
            if _TORCH_HEADER.search(written) or _HOST_HEADER.search(written):
                new = "\n" if written.endswith("\n") else ""
                if uses_accessors and _TORCH_HEADER.search(written):
                    new = f"#include <kernel_lsp/accessor.h>{new}"
                self.device.append((node.start_byte, node.end_byte, new))
            if _DEVICE_HEADER.search(written):
                self.host.append((node.start_byte, node.end_byte, "\n" if written.endswith("\n") else ""))

    def _function(self, definition: Definition) -> None:
        node = definition.node
        outer = _outermost(node)
        head = self._text(node.start_byte, definition.body.start_byte)
        on_both = definition.is_device and "__host__" in head
        if on_both or definition.in_class:
            return
        if not definition.is_device:
            self.device.append((outer.start_byte, node.end_byte, ""))
        elif not _is_global(definition):
            self.host.append((outer.start_byte, node.end_byte, ""))

    def _rest(self, parent: Node) -> None:
        """Bindings and what else speaks torch go from the device unit; device variables from the host's."""
        for node in parent.named_children:
            if node.type in ("namespace_definition", "linkage_specification", "declaration_list") or (
                node.type.startswith("preproc_if") or node.type in ("preproc_else", "preproc_elif")
            ):
                if node.type == "namespace_definition" and node.child_by_field_name("name") is None:
                    opening = next(child for child in node.children if child.type == "namespace")
                    for unit in (self.host, self.device):
                        # One name for both units: what has no name cannot be called from the other.
                        unit.append((opening.start_byte, opening.end_byte, f"inline namespace {UNNAMED}"))
                self._rest(node)
                continue
            text = self._text(node.start_byte, node.end_byte)
            if node.type in ("preproc_include", "comment"):
                continue
            is_function = node.type == "function_definition" or (
                node.type == "template_declaration" and any(c.type == "function_definition" for c in node.children)
            )
            if is_function and any(
                node.start_byte <= definition.node.start_byte < node.end_byte for definition in self.found.definitions
            ):
                continue
            if node.type == "template_instantiation" and "__global__" in text:
                self.host.append((node.start_byte, node.end_byte, ""))
            elif is_function or node.type == "expression_statement" or _TORCH.search(text) or "namespace at" in text:
                self.device.append((node.start_byte, node.end_byte, ""))
            elif (node.type == "declaration" and _DEVICE_VARIABLE.search(text)) or (
                node.type == "declaration" and "__global__" in text
            ):
                self.host.append((node.start_byte, node.end_byte, ""))

    def _check_host(self, host: str) -> None:
        words = set(_WORD.findall(_STRING.sub('""', _without_comments(host))))
        named = next((name for name in self.kernels if name in words), None)
        if named is not None:
            raise Unsplittable(f"its host code names the kernel `{named}` other than to launch it")
        for node in _everywhere(self.parsed.root, "declaration"):
            text = self._text(node.start_byte, node.end_byte)
            if _DEVICE_VARIABLE.match(text) and (names := set(_WORD.findall(text.partition("=")[0])) & words):
                variables = names - _TYPES - {"static", "const", "extern", "__device__", "__constant__", "unsigned"}
                if variables & self.found.constants.keys():
                    raise Unsplittable(f"its host code names the device variable `{sorted(variables)[0]}`")

    def _text(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8", "surrogatepass")


def _is_global(definition: Definition) -> bool:
    return definition.function.is_global


def _template(node: Node) -> Node | None:
    parent = node.parent
    return parent if parent is not None and parent.type == "template_declaration" else None


def _outermost(node: Node) -> Node:
    """A function with the template and linkage headers that belong to it alone."""
    parent = node.parent
    while parent is not None and parent.type in ("template_declaration", "linkage_specification"):
        node, parent = parent, parent.parent
    return node


def _parameter_list(declarator: Node | None) -> Node | None:
    while declarator is not None:
        if declarator.type == "function_declarator":
            return declarator.child_by_field_name("parameters")
        declarator = declarator.child_by_field_name("declarator")
    return None


def _parameter_names(header: str) -> list[str]:
    """Of `template <typename T, int B = 4>`: `T`, `B`."""
    inside = header[header.index("<") + 1 : header.rindex(">")]
    return [_WORD.findall(part.partition("=")[0])[-1] for part in _top_level(inside)]


def _calls_of_kernels(node: Node) -> Iterator[Node]:
    if node.type == "call_expression" and any(child.type == "kernel_call_syntax" for child in node.children):
        yield node
    for child in node.children:
        yield from _calls_of_kernels(child)


def _everywhere(node: Node, kind: str) -> Iterator[Node]:
    for child in node.named_children:
        if child.type == kind:
            yield child
        elif child.type not in ("function_definition", "compound_statement"):
            yield from _everywhere(child, kind)


def _name_of(callee: str) -> tuple[str, str | None]:
    """`a::scale<T, 4>` → `scale`, `T, 4`."""
    head, opening, rest = callee.partition("<")
    arguments = rest.rstrip()[:-1] if opening else None
    return head.split("::")[-1].strip(), arguments


def _top_level(text: str) -> list[str]:
    """Parts between commas that are in no bracket."""
    parts, depth, current = [], 0, ""
    for character in text:
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        if character == "," and depth <= 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [part.strip() for part in [*parts, current] if part.strip()]


def _one_line(text: str) -> str:
    return " ".join(_without_comments(text).split())


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def _edited(data: bytes, edits: Iterable[tuple[int, int, str]]) -> str:
    """`data` with each stretch replaced, and as many line ends put back as it lost."""
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(edits, key=lambda edit: (edit[0], edit[1])):
        if start < at:
            continue  # within what has gone already
        lost = data.count(b"\n", start, end) - new.count("\n")
        parts += [data[at:start].decode("utf-8", "surrogatepass"), new, "\n" * lost]
        at = end
    parts.append(data[at:].decode("utf-8", "surrogatepass"))
    return "".join(parts)
