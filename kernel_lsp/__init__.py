"""kernel-lsp: a language server that judges, measures and rewrites compute kernels."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("kernel-lsp")
except PackageNotFoundError:  # the worker may import us from a source folder, under another interpreter
    __version__ = "0.0.0"
