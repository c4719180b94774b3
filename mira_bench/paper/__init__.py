r"""The paper's tables and figures: what is printed, what we get, and whether the two agree."""
