"""Figures about the product itself. They print and are written to results/; nothing asserts on them."""
