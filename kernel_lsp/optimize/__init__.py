"""From findings to a verified, faster kernel: the skill library, the decision policy and the search."""
