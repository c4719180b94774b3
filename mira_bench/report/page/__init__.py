r"""One page that shows a run: a single file that opens from disk, without a network, in a browser of any size.

The charts are drawn by Vega-Lite, whose scripts are in the page. Why this one: a chart is data, a mapping that Python
makes and tests, and the page needs no chart code of its own; it draws SVG, which prints sharply and tells screen
readers what it shows; its scripts have 0.8 MB, less than Plotly's smallest bundle; and the license is BSD. Observable
Plot is smaller and as beautiful, but its charts are programs; uPlot is tiny and knows lines only.

A page is made from what is in the folder of a run, and of nothing else: a run writes its folder first, so that
`python -m mira_bench report DIR` gives the same page later.
"""

__all__ = ["REPORT", "render", "run_page", "several_page", "try_report", "write_page", "write_report"]

from .render import REPORT, render, run_page, several_page, try_report, write_page, write_report
