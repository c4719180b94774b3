r"""Ball ranks and marginal ranks: the hot kernel, distances, centers, scales, and the null in which all points play."""
