"""From a kernel's text to a shared library: tools, content-addressed compile, the compiler's words with places."""
