"""Pure: text → syntax tree, features, pairing with a reference, and edits of spans. Nothing here compiles or runs."""
