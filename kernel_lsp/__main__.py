"""`python -m kernel_lsp` is the command `kernel-lsp`."""

from kernel_lsp.fronts.cli import main

main()
