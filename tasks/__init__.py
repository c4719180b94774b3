r"""The problems: one folder a family, each with a card (README.md), its simulator and its candidates."""
