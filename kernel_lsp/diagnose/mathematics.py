"""The functions of `<cmath>` that cost more than arithmetic, under the names that sources and profilers give them."""

from __future__ import annotations

import re

_COSTLY = re.compile(
    r"(exp|exp2|expm1|log|log2|log10|log1p|pow|a?sin|a?cos|a?tan|atan2|sinh|cosh|tanh|erfc?|cbrt|[tl]gamma|hypot|fmod"
    r"|remainder)f?"
)
"""Some 10 to 100 cycles each, more than the addition that consumes the result."""

_SYMBOL = re.compile(r"_*(?:ieee754_)?([a-z0-9]+)[^(]* \(libm\b")
"""How glibc names them: `expf (libm.so.6)`, `__expf_fma (libm.so.6)`, `__ieee754_pow_fma (libm-2.31.so)`."""


def costly_function(name: str) -> str | None:
    """`exp` for `std::exp`, `exp` and `expf`; None for what is cheap or unknown."""
    found = _COSTLY.fullmatch(name.rpartition("::")[2])
    return None if found is None else found[1]


def sampled_function(outside: str) -> str | None:
    """The same for a name in `Profile.outside`."""
    found = _SYMBOL.match(outside)
    return None if found is None else costly_function(found[1])
