"""The page in a real browser: nothing on the console, nothing fetched, the marks where the data
says, and no sideways scrolling on a phone.
"""

from collections.abc import Iterator
from time import sleep
from typing import Any

import pytest

from kraftlog.report.html_page import render_page
from tests.browser.chromium import Browser, BrowserMissing, browser, find_browser
from tests.golden.cases import DATA
from tests.unit.report_pages import audited

pytestmark = pytest.mark.browser
WIDTHS = (1280, 380)
BOXES = """
[...document.querySelectorAll('figure.logs')[0].querySelectorAll('[aria-roledescription]')]
  .filter(mark => mark.checkVisibility())
  .map(mark => [mark.getAttribute('aria-roledescription'), mark.getAttribute('aria-label'),
                mark.getBoundingClientRect().toJSON()])
"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module", params=["isolated", "steady-live"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    data = audited(str(DATA / request.param / "replicas"))
    path = tmp_path_factory.mktemp(request.param) / "report.html"
    path.write_text(render_page(data), encoding="utf-8")
    return path.as_uri()


def marks(tab: Browser, kind: str) -> list[tuple[str, dict[str, Any]]]:
    return [(label, box) for role, label, box in tab.evaluate(BOXES) if role == kind]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_on_the_console_and_nothing_fetched(
    tab: Browser, url: str, width: int, dark: bool
) -> None:
    tab.open(url, width, dark=dark)
    tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    said = tab.heard("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
    assert not said
    asked = {one["request"]["url"] for one in tab.heard("Network.requestWillBeSent")}
    assert asked == {url}


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(tab: Browser, url: str, width: int) -> None:
    tab.open(url, width)
    tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    outside = tab.evaluate(
        "[...document.querySelectorAll('svg text')].filter(one => one.checkVisibility())"
        ".map(one => [one.textContent, one.getBoundingClientRect()])"
        f".filter(([_, box]) => box.width && (box.right > {width} || box.left < 0))"
        ".map(([text]) => text)"
    )
    assert outside == []


def test_what_decides_is_in_sight_on_a_phone(tab: Browser, url: str) -> None:
    tab.open(url, 380)
    order = tab.evaluate(
        "[...document.querySelectorAll('h1, #may, #why')].map(one => one.getBoundingClientRect().y)"
    )
    assert order == sorted(order)
    assert order[1] < 900, "the first answer stands on the first screen"
    cells = tab.evaluate(
        "[...document.querySelectorAll('.stacked tr > *')].filter(one => one.checkVisibility())"
        ".map(one => [one.dataset.label || '', one.getBoundingClientRect().toJSON()])"
    )
    shown = {name for name, box in cells if box["width"] and box["left"] >= 0}
    assert {"Stands", "Restart", "Log end", "Snapshots"} <= shown
    assert max(box["right"] for _, box in cells) <= 380


@pytest.mark.parametrize("width", WIDTHS)
def test_texts_can_be_read(tab: Browser, url: str, width: int) -> None:
    tab.open(url, width)
    sizes = tab.evaluate(
        "[...document.querySelectorAll('svg')].filter(one => one.checkVisibility())"
        ".map(one => one.getBoundingClientRect().width / one.viewBox.baseVal.width)"
    )
    assert sizes
    assert min(sizes) * 11 >= 9.5, "pixels of the smallest letters"


@pytest.mark.parametrize("width", WIDTHS)
def test_marks_stand_where_the_data_says(tab: Browser, url: str, width: int) -> None:
    tab.open(url, width)
    ends = marks(tab, "log end")
    epochs = marks(tab, "epoch")
    offsets = [int(label.rpartition(" ")[2].replace(",", "")) for label, _ in ends]
    starts = [
        int(label.rpartition("offsets ")[2].split(" to ")[0].replace(",", ""))
        for label, _ in epochs
    ]
    left, low = min((box["left"], start) for (_, box), start in zip(epochs, starts, strict=True))
    right = max(box["left"] + box["width"] / 2 for _, box in ends)
    scale = (right - left) / (max(offsets) - low)
    for (label, box), start in zip(epochs, starts, strict=True):
        assert box["left"] == pytest.approx(left + (start - low) * scale, abs=1.5), label
    for (label, box), offset in zip(ends, offsets, strict=True):
        middle = box["left"] + box["width"] / 2
        assert middle == pytest.approx(left + (offset - low) * scale, abs=1.5), label
    for label, box in marks(tab, "finding start"):
        offset = int(label.rpartition("offsets ")[2].split(" to ")[0])
        middle = box["left"] + box["width"] / 2
        assert middle == pytest.approx(left + (offset - low) * scale, abs=1.5), label


@pytest.mark.parametrize("dark", [False, True])
def test_colours_follow_the_scheme(tab: Browser, url: str, dark: bool) -> None:
    tab.open(url, 1280, dark=dark)
    page = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    bar = tab.evaluate(
        "getComputedStyle(document.querySelector('[aria-roledescription=epoch]')).fill"
    )
    assert (sum(map(int, page[4:-1].split(","))) < 200) is dark
    assert bar == ("rgb(127, 176, 255)" if dark else "rgb(47, 98, 181)")


def test_the_tab_key_reaches_the_replicas(tab: Browser, url: str) -> None:
    tab.open(url, 1280)
    reached = []
    for _ in range(40):
        for kind in ("rawKeyDown", "keyUp"):
            tab.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab",
                     windowsVirtualKeyCode=9)  # fmt: skip
        reached.append(
            tab.evaluate(
                "document.activeElement.getAttribute('aria-label') "
                "|| document.activeElement.textContent.trim()"
            )
        )
    assert reached[0] == "Skip to the verdict"
    assert "Good to know" in " ".join(reached), "what is folded is reached"
    assert any(text.startswith("controller 1: log from offset") for text in reached)


def test_it_prints(tab: Browser, url: str) -> None:
    tab.open(url, 1280, dark=True)
    assert len(tab.call("Page.printToPDF")["data"]) > 10_000


def test_nothing_is_wider_than_the_paper(tab: Browser, url: str) -> None:
    """A4 between margins of 1 cm, at 96 pixels an inch."""
    tab.open(url, 718)
    tab.call("Emulation.setEmulatedMedia", media="print")
    try:
        wide = tab.evaluate(
            "[...document.querySelectorAll('table, figure, article, .answer')]"
            ".filter(one => one.checkVisibility())"
            ".filter(one => one.getBoundingClientRect().right > 718 + 0.5)"
            ".map(one => one.tagName + ' ' + one.textContent.slice(0, 40))"
        )
    finally:
        tab.call("Emulation.setEmulatedMedia", media="")
    assert wide == []


def test_paper_shows_what_is_folded_on_a_screen(tab: Browser, url: str) -> None:
    tab.open(url, 1280, dark=True)
    shown = (
        "[...document.querySelectorAll('.fold .finding summary, .guide p')]"
        ".filter(one => one.checkVisibility({contentVisibilityAuto: true})).length"
    )
    assert tab.evaluate(shown) == 0
    tab.call("Emulation.setEmulatedMedia", media="print", features=[])
    # The folds open with the next frame.
    assert any(tab.evaluate(shown) > 2 or sleep(0.1) for _ in range(50))
    page = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert page == "rgb(255, 255, 255)"
    tab.call("Emulation.setEmulatedMedia", media="", features=[])


def test_enter_unfolds_and_links_lead_to_the_findings(tab: Browser, url: str) -> None:
    tab.open(url, 1280)
    tab.evaluate("document.querySelector('.fold > summary').focus()")
    for kind in ("keyDown", "keyUp"):
        tab.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                 windowsVirtualKeyCode=13)  # fmt: skip
    assert tab.evaluate("document.querySelector('.fold').open") is True
    links = tab.evaluate(
        "[...document.querySelectorAll('.answer a')].map(one => one.getAttribute('href'))"
    )
    assert all(tab.evaluate(f"document.querySelector('{one}') !== null") for one in links)


def test_a_missing_browser_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    with pytest.raises(BrowserMissing, match="name its executable in CHROMIUM"):
        find_browser()
