r"""The Hydra configs. A package, so that they travel with the wheel."""
