"""Walks of a visitor in Chromium: from the demo, from a dropped log, by keyboard alone.

`python docs/make_screenshots.py` runs them and keeps their pictures.
"""

from __future__ import annotations

import re

import pytest

from tests.cli.decisions import invoke
from tests.dashboard.browser import ROOT, picture, serving, settle
from warmup_insights.cli.demo import DOCUMENTED, RESERVES

pytestmark = [pytest.mark.browser, pytest.mark.long]
PAGES = ["/", "/run?run=documented", "/run?run=documented&tab=Buckets",
         "/run?run=no+reserve+left", "/compare?run=reserve+0.2&run=reserve+0.6", "/memory?q=reserve", "/buckets",
         "/live"]  # fmt: skip


@pytest.fixture(scope="module")
def demo_server(tmp_path_factory, chromium):
    """The demo, and the same reserves at another utilisation: eight configurations."""
    database = tmp_path_factory.mktemp("walks") / "demo.db"
    result = invoke("demo", "--no-run", "--no-dashboard", "--db", database)
    assert result.exit_code == 0, result.output
    for reserve in RESERVES:
        made = invoke(
            "run", *DOCUMENTED, "--gpu-memory-utilization", "0.6", "--graph-reserved-mem",
            reserve, "--quiet", "--label", f"reserve {reserve} at 0.6", "--db", database,
        )  # fmt: skip
        assert made.exit_code == 0, made.output
    with serving(database) as (address, _):
        yield address


def test_a_newcomer_finds_why_62_percent_were_captured(demo_server, visit):
    """It stands on the first page that `demo` names."""
    page = visit(demo_server).open("/run?run=documented")
    page.get_by_text("62.5 %").first.wait_for()
    reason = (
        "9 of 72 buckets got no graph: all of them need 45.51 GiB (predicted), and "
        "15.83 GiB are reserved."
    )
    page.get_by_text(reason).wait_for()
    picture(page, "walk-newcomer")


def test_an_operator_gets_advice_after_one_click(tmp_path, visit):
    log = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
    with serving(tmp_path / "new.db") as (address, _):
        visitor = visit(address, viewport={"width": 1600, "height": 1200})
        page = visitor.open("/")
        page.locator('input[type="file"]').set_input_files(str(log))
        page.get_by_role("link", name=re.compile("Open run")).click()
        page.get_by_role("heading", name=re.compile("21 s of the 59 s")).wait_for()
        page.get_by_text("9 of 72 buckets got no graph", exact=False).wait_for()
        page.get_by_text("VLLM_GRAPH_RESERVED_MEM=").first.wait_for()
        picture(page, "walk-operator")
        visitor.close()


def test_one_of_eight_configurations_is_named_with_its_reason(demo_server, visit):
    page = visit(demo_server, viewport={"width": 1600, "height": 1000}).open(
        "/memory?q=reserve"
    )
    page.get_by_text("Pick for").first.wait_for()
    settle(page)
    text = page.get_by_test_id("stMain").inner_text()
    assert "gpu_memory_utilization=0.6, VLLM_GRAPH_RESERVED_MEM=0.3" in text
    assert "no figure is more than 13 % off the best one" in text
    assert text.count("gives up: ") == 2
    picture(page, "walk-choice")


def test_a_failed_start_leads_to_the_change_that_fits(demo_server, visit):
    page = visit(demo_server, viewport={"width": 1280, "height": 1000}).open("/")
    table = page.get_by_test_id("stDataFrame").first
    table.wait_for()
    settle(page)
    box = table.bounding_box()
    page.mouse.click(box["x"] + 32 + 32, box["y"] + 18 + 35)  # failed starts come first
    page.get_by_text("Memory at the failure", exact=True).wait_for()
    settle(page)
    text = page.get_by_test_id("stMain").inner_text()
    assert "Advice VLLM_GRAPH_RESERVED_MEM=0.01" in text
    assert "Effect 179.8 MiB of room" in text
    assert "179.8 MiB short" in text
    picture(page, "walk-failure")


WIDE, NARROW = ({"width": width, "height": 1000} for width in (1600, 420))
FITS = """() => {
  const main = document.querySelector('[data-testid="stMain"]');
  return main.scrollWidth <= main.clientWidth
    && document.documentElement.scrollWidth <= innerWidth;
}"""


@pytest.mark.parametrize(
    ("scheme", "first", "second"), [("light", WIDE, NARROW), ("dark", NARROW, WIDE)]
)
def test_every_page_fits_its_window_and_axe_finds_nothing_grave(
    demo_server, visit, scheme, first, second
):
    """Opened in a window and then made wide or narrow, nothing is wider than the window,
    and what a visitor came for is on the page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    visitor = visit(demo_server, viewport=first, color_scheme=scheme)
    broken = {}
    for number, path in enumerate(PAGES):
        page = visitor.open(path)
        page.get_by_role("heading").first.wait_for()
        page.wait_for_function(FITS, timeout=120_000)
        broken[path] = grave(axe, page)
        page.set_viewport_size(second)
        settle(page)
        page.wait_for_function(FITS, timeout=120_000)
        if number in (1, 5):
            name = "narrow" if second is NARROW else "dark"
            picture(page, f"walk-{name}-{'run' if number == 1 else 'memory'}")
        page.set_viewport_size(first)
    assert {path: found for path, found in broken.items() if found} == {}


def grave(axe, page) -> dict[str, list[str]]:
    """What axe-core calls serious or critical; what it finds once only was being drawn."""
    for _ in range(3):
        answer = axe.run(page, options={"resultTypes": ["violations"]}).response
        found = {
            broken["id"]: [node["html"][:200] for node in broken["nodes"]]
            for broken in answer["violations"]
            if broken["impact"] in ("serious", "critical")
        }
        if not found:
            break
        settle(page)
    return found


FOCUS = """() => {
  const active = document.activeElement;
  if (!active || active === document.body || active.dataset.reached) return null;
  active.dataset.reached = '1';
  const is_control = ['A', 'BUTTON', 'INPUT', 'TEXTAREA'].includes(active.tagName);
  // The link to the main part is only there while it has the focus.
  const is_shown = !is_control || active.innerText === 'Skip to main content'
    || getComputedStyle(active).outlineStyle !== 'none';
  return [active.tagName + ' ' + (active.getAttribute('aria-label') || active.innerText),
          is_shown];
}"""
OUTLINED = "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
# A control that was drawn anew lost the focus; its successor is reached in the next round.
OUTLINED_OR_LOST = f"document.activeElement === document.body || {OUTLINED}"
LEFT = """() => [...document.querySelectorAll('a[href], button, input, textarea')]
  .filter(e => e.checkVisibility({visibilityProperty: true}) && !e.disabled && e.tabIndex >= 0 && !e.dataset.reached)
  .filter(e => !e.closest('.js-plotly-plot, [role="radiogroup"], [role="tablist"], [role="toolbar"]'))
  .map(e => e.tagName + ' ' + (e.getAttribute('aria-label') || e.innerText || e.type))"""


@pytest.mark.parametrize("path", PAGES)
def test_every_control_is_reached_by_keyboard_and_shows_it(demo_server, visit, path):
    page = visit(demo_server).open(path)
    unseen, known = [], 0
    for _ in range(200):
        page.keyboard.press("Tab")
        focus = page.evaluate(FOCUS)
        known = 0 if focus is not None else known + 1
        if focus is not None and not focus[1]:
            settle(page)
            if not page.evaluate(OUTLINED_OR_LOST):
                unseen.append(focus[0])
        if known > 12 and page.evaluate(LEFT) == []:
            break
    assert unseen == []
    assert page.evaluate(LEFT) == []


def test_arrow_keys_go_through_a_group_of_choices(demo_server, visit):
    page = visit(demo_server).open("/buckets")
    page.get_by_role("button", name="exponential").first.focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert page.evaluate("document.activeElement.innerText") == "linear"
    assert page.evaluate(OUTLINED)
