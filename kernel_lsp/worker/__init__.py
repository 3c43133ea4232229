"""The judge: a process of its own that imports torch and runs reference and kernel in children of its own.

Started by `kernel_lsp.evaluate` as `python -m kernel_lsp.worker --fd N`; nobody imports it.
"""
