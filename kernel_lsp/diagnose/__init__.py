"""What holds a kernel back, on which line, and by which number: pure rules over source, build and profile."""

from kernel_lsp.diagnose.diagnosis import diagnose
from kernel_lsp.diagnose.documentation import documentation_path, explain
from kernel_lsp.diagnose.rule import Rule
from kernel_lsp.diagnose.rules import RULES
from kernel_lsp.diagnose.typing import from_text

__all__ = ["RULES", "Rule", "diagnose", "documentation_path", "explain", "from_text"]
