r"""The page in a real browser: it draws, sorts, filters, changes its theme, and shows the numbers of ranking.csv."""

import base64
import json
import shutil

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.report.page import several_page, write_page
from mira_bench.report.page.reading import read_run
from mira_bench.report.tables import read_table

pytest.importorskip("selenium")
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="chromium and its driver are not installed")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
EVIL = "<script>document.title = 'evil'</script>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 2))
    y = x + 0.5 * rng.normal(size=(60, 2))
    samples = {name: x[:, None] + w * rng.normal(size=(60, 40, 2)) for name, w in (("exact", 0.5), (EVIL, 0.2))}
    samples["off"] = x[:, None] + 0.5 * rng.normal(size=(60, 40, 2)) + [0.5, 0]
    return mb.score(y, samples, x=x, names=["a", "b"]).save(tmp_path_factory.mktemp("page") / "run")


def wait(browser):
    WebDriverWait(browser, 30).until(lambda one: one.execute_script("return document.documentElement.dataset.drawn"))
    return browser


def visit(browser, path, width=1200):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    browser.get("about:blank")
    browser.get(path.as_uri())
    return wait(browser)


@pytest.fixture
def page(browser, folder):
    return visit(browser, folder / "report.html")


def find(page, selector):
    return page.find_elements("css selector", selector)


def column(table, j):
    rows = [row for row in table.find_elements("css selector", "tbody tr") if row.is_displayed()]
    return [row.find_elements("css selector", "td")[j].text for row in rows]


def pixels(page):
    from io import BytesIO

    from PIL import Image

    data = base64.b64decode(page.execute_cdp_cmd("Page.captureScreenshot", {})["data"])
    return np.asarray(Image.open(BytesIO(data)).convert("L"), float)


def test_everything_is_drawn_and_nothing_is_complained_of(page):
    plots = find(page, ".plot")
    assert len(plots) > 8
    for plot in plots:
        assert len(plot.find_elements("css selector", "svg path")) > 0
    assert page.get_log("browser") == []
    assert page.title == "samples: which posterior can be trusted"


def test_the_numbers_are_those_of_the_file(page, folder):
    ranking = read_table(folder / "ranking.csv").set_index("candidate")
    table = find(page, "#ranking table")[0]
    heads = [one.text for one in table.find_elements("css selector", "th")]
    names = column(table, heads.index("candidate"))
    assert names == ranking.index.tolist()
    assert EVIL in names
    for title, form in (
        ("MIRA", "{mira:.4f} ± {mira_stderr:.4f}"), ("energy", "{energy:.4f} ± {energy_stderr:.4f}"),
        ("skill", "{skill:.3f}"), ("TARP", "{tarp_deviation:.3f}"),
    ):  # fmt: skip
        assert column(table, heads.index(title)) == [form.format(**row) for _, row in ranking.iterrows()]


def test_sorting_and_filtering(page):
    table = find(page, "#ranking table")[0]
    heads = [one.text for one in table.find_elements("css selector", "th")]
    j = heads.index("MIRA")
    button = table.find_elements("css selector", "th button")[j]
    button.click()
    up = [float(text.split(" ")[0]) for text in column(table, j)]
    assert up == sorted(up)
    button.send_keys("\n")  # by the keyboard
    assert [float(text.split(" ")[0]) for text in column(table, j)] == up[::-1]
    assert table.find_elements("css selector", "th")[j].get_attribute("aria-sort") == "descending"
    field = find(page, "#ranking input")[0]
    field.send_keys("exact")
    assert column(table, 1) == ["exact"]
    field.clear()
    field.send_keys("nothing of the kind")
    assert column(table, 1) == []


def test_tables_are_copied(page):
    page.execute_script("navigator.clipboard.writeText = async (text) => { window.copied = text; };")
    find(page, "#ranking [data-copy=csv]")[0].click()
    lines = page.execute_script("return window.copied").splitlines()
    assert lines[0].startswith("rank,candidate,tier,verdict,MIRA")
    assert len(lines) == 1 + len(column(find(page, "#ranking table")[0], 0))
    find(page, "#ranking [data-copy=latex]")[0].click()
    text = page.execute_script("return window.copied")
    assert text.startswith(r"\begin{tabular}")
    assert r"$\pm$" in text
    assert "±" not in text


def test_the_theme(page):
    before = page.execute_script("return document.documentElement.dataset.theme")
    bright = {before: pixels(page).mean()}
    find(page, "#theme")[0].click()
    after = page.execute_script("return document.documentElement.dataset.theme")
    bright[after] = pixels(page).mean()
    assert bright["light"] > 200
    assert bright["dark"] < 70
    page.refresh()
    wait(page)
    assert page.execute_script("return document.documentElement.dataset.theme") == after
    find(page, "#theme")[0].click()


def test_a_link_leads_to_a_fiducial(page):
    link = find(page, "#fiducials td a")[0]
    number = link.text
    page.execute_script("arguments[0].click()", link)
    assert page.current_url.endswith(f"#fiducial-{number}")
    panel = find(page, ".fiducial")[0]
    assert panel.is_displayed()
    assert panel.text.startswith(f"Fiducial {number}")
    assert "(the worst of 60)" in panel.text
    assert EVIL in panel.text
    page.refresh()  # the address alone is enough
    wait(page)
    assert "Fiducial" in find(page, ".fiducial")[0].text


def test_hovering_shows_values(page):
    from selenium.webdriver.common.action_chains import ActionChains

    mark = find(page, "#mira .plot svg [aria-roledescription='point'], #mira .plot svg .mark-symbol path")[0]
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    ActionChains(page).move_to_element(mark).perform()
    tip = find(page, "#tip")[0]
    assert tip.is_displayed()
    assert "MIRA: 0." in tip.text


def samples_drawn(page):
    return len(find(page, "#corner svg path[aria-roledescription='point']"))


def test_a_corner_plot_of_what_is_chosen(page, folder):
    from selenium.webdriver.common.action_chains import ActionChains

    told = json.loads((folder / "details.json").read_text())["corners"]
    plot, (select,), boxes = (
        find(page, "#corner .plot")[0],
        find(page, "#corner select"),
        find(page, "#corner .choice input"),
    )
    assert select.accessible_name == "fiducial"
    names = read_table(folder / "ranking.csv")["candidate"].tolist()
    assert [box.accessible_name for box in boxes] == names
    assert EVIL in names
    # Two parameters have one pair: 40 samples of each of three candidates.
    assert samples_drawn(page) == 3 * 40
    first = plot.get_attribute("innerHTML")
    select.send_keys(Keys.ARROW_DOWN)  # by the keyboard
    number = list(told["fiducials"])[1]
    assert select.get_attribute("value") == number
    boxes[1].send_keys(Keys.SPACE)
    WebDriverWait(page, 10).until(lambda _: samples_drawn(page) == 2 * 40)
    assert plot.get_attribute("innerHTML") != first
    shown = [name for name in names if name != names[1]]
    said = f"Fiducial {number} ({told['fiducials'][number]['why']}), {', '.join(shown)}. Corner plot of a, b"
    assert plot.get_attribute("aria-label").startswith(said)
    mark = find(page, "#corner svg path[aria-roledescription='point']")[5]
    values = [[f"{value:.4g}" for value in told["fiducials"][number]["samples"][shown[0]][j]] for j in (0, 1)]
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    ActionChains(page).move_to_element(mark).perform()
    lines = dict(line.split(": ", 1) for line in find(page, "#tip")[0].text.replace("\u2212", "-").splitlines())
    assert (lines["a"], lines["b"]) in zip(*values, strict=True)
    find(page, "#theme")[0].click()  # what was chosen stays
    WebDriverWait(page, 10).until(lambda _: samples_drawn(page) == 2 * 40)
    find(page, "#theme")[0].click()
    assert page.get_log("browser") == []


def test_a_fiducial_that_is_followed_is_chosen(page, folder):
    told = json.loads((folder / "details.json").read_text())["corners"]["fiducials"]
    number = list(told)[2]
    page.execute_script(f"location.hash = 'fiducial-{number}'")
    WebDriverWait(page, 10).until(lambda _: find(page, "#corner select")[0].get_attribute("value") == number)
    assert find(page, ".fiducial a")[0].get_attribute("href").endswith("#corner")


def test_paper_is_white_and_has_all_tables(page):
    if page.execute_script("return document.documentElement.dataset.theme") != "dark":
        find(page, "#theme")[0].click()
    ink = "return getComputedStyle(document.querySelector('#mira svg text')).fill"
    dark = page.execute_script(ink)
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert page.execute_script("return document.documentElement.dataset.theme") == "light"
    assert page.execute_script(ink) != dark
    assert all(one.get_attribute("open") for one in find(page, "details.table"))
    page.execute_script("dispatchEvent(new Event('afterprint'))")
    assert page.execute_script("return document.documentElement.dataset.theme") == "dark"
    find(page, "#theme")[0].click()


def test_a_phone_needs_no_sideways_scrolling(browser, folder):
    page = visit(browser, folder / "report.html", width=390)
    wide, shown = page.execute_script("const e = document.documentElement; return [e.scrollWidth, e.clientWidth];")
    assert wide == shown <= 390
    for plot in find(page, ".plot svg"):
        assert plot.size["width"] <= 390


def test_several_runs_keep_their_fiducials_apart(browser, folder, tmp_path):
    runs = [read_run(folder), read_run(folder)]
    page = visit(browser, write_page(several_page(runs), tmp_path / "both.html"))
    link = find(page, "#fiducials-2 td a")[0]
    page.execute_script("arguments[0].click()", link)
    assert [panel.is_displayed() for panel in find(page, ".fiducial")] == [False, True]
    assert [one.text for one in find(page, "nav a")] == ["samples (run)"] * 2  # not the sections of each
    assert page.get_log("browser") == []
