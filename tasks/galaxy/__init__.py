r"""Galaxies: images of spirals and ellipticals, made here or read from files."""
