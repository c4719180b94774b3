r"""The pipeline: a plan, its units, where they run, and what is kept of them."""
