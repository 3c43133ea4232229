"""`python -m tests.gpu`: everything that needs a GPU, with a line for each verdict and time at the end."""

import sys

import pytest

if __name__ == "__main__":
    sys.exit(pytest.main(["tests/gpu", "-q", "-p", "no:cacheprovider", "--tb=short", *sys.argv[1:]]))
