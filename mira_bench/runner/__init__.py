r"""The pipeline: a setup, its units, where they run, and what is kept of them."""
