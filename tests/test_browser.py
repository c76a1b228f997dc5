"""The page of the service in a browser: search, mark, undo, restart; by keyboard alone; on a phone; no barriers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("apsw", reason="needs paloma[serve]")
playwright = pytest.importorskip("playwright.sync_api", reason="needs paloma[dev-browser]: make test-browser")
axe = pytest.importorskip("axe_core_python.sync_playwright", reason="needs paloma[dev-browser]: make test-browser")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium"),
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Site:
    """A server, and pages of it that complain about nothing and ask nobody else."""

    def __init__(self, browser, folder, *source):
        self.browser, self.folder, self.source, self.troubles = browser, folder, source, []
        self.start()

    def start(self):
        command = [sys.executable, "-m", "paloma", "serve", *self.source, "--state", str(self.folder), "-p", "0"]
        self.server = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        self.address = self.server.stderr.readline().split()[1]
        self.own = self.address.partition("/login")[0]
        self.context = self.browser.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")

    def stop(self):
        self.context.close()
        self.server.send_signal(signal.SIGINT)
        self.server.wait(60)
        self.server.stderr.close()

    def open(self):
        page = self.context.new_page()
        page.on("console", lambda message: self.troubles.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(self.own) else self.troubles.append(r.url))
        page.goto(self.address)
        page.wait_for_selector("#results .card")
        until(page, "document.getElementById('user').options.length > 0")
        return page


@pytest.fixture
def site(browser, tmp_path):
    site = Site(browser, tmp_path / "served")
    yield site
    site.stop()
    assert site.troubles == []


ID = "(card) => card.dataset.id"


def ids(page):
    return page.eval_on_selector_all("#results .card", f"cards => cards.map({ID})")


def until(page, true, arg=None):
    """Wait until an expression is true; Playwright's own waiting would need eval, which the page forbids."""
    stop = time.monotonic() + 30
    while not page.evaluate(true, arg):
        assert time.monotonic() < stop, (true, arg, page.text_content("#status"))
        page.wait_for_timeout(20)


def status(page, has):
    until(page, "text => document.getElementById('status').textContent.includes(text)", has)


def look_for(page, name):
    page.fill("#words", name)
    page.press("#words", "Enter")
    until(page, "document.getElementById('results-title').textContent === 'Found'")
    page.press("#results .card", "Enter")
    until(page, "document.getElementById('results-title').textContent === 'Nearest'")
    status(page, "nearest")


def test_search_mark_undo_restart(site):
    page = site.open()
    look_for(page, "digit-0042")
    first = ids(page)
    assert len(first) == 24
    right, wrong = first[20], first[1]
    page.click(f"#results .card[data-id={right}]")
    status(page, "Marked right")
    assert ids(page).index(right) < 20  # what is right comes nearer
    page.click(f"#results .card[data-id={wrong}]", modifiers=["Alt"])
    status(page, "Marked wrong")
    marked = ids(page)
    assert wrong not in marked or marked.index(wrong) > 1  # what is wrong goes away
    assert page.get_attribute(f"#results .card[data-id={right}]", "data-mark") == "right"
    assert page.locator("#history li").count() == 2
    page.check("input[value=start]")
    status(page, "nearest")
    assert ids(page) == first
    page.check("input[value=now]")
    shown = f"String([...document.querySelectorAll('#results .card')].map({ID}))"
    until(page, f"wanted => {shown} === wanted", ",".join(marked))
    page.click("#undo")
    status(page, "Taken back")
    undone = ids(page)
    assert undone != marked
    page.click(f"#results .card[data-id={wrong}] [data-deed=wrong]")
    status(page, "Marked wrong")
    assert ids(page) == marked  # to the bit, whatever was said and taken back
    site.stop()
    site.start()
    page = site.open()
    look_for(page, "digit-0042")
    assert ids(page) == marked
    assert "2 statements" in page.text_content("#quality-brief")
    assert page.locator("#history li.undone").count() == 1


def test_a_second_click_takes_a_mark_back_and_another_verdict_replaces_it(site):
    page = site.open()
    look_for(page, "digit-0042")
    first = ids(page)
    card = f"#results .card[data-id={first[3]}]"
    page.dblclick(card)  # one mark: the second click of two may meet another card
    status(page, "Marked right")
    assert page.locator("#history li").count() == 1
    page.click(f"{card} [data-deed=wrong]")
    status(page, "Marked wrong")
    assert page.get_attribute(card, "data-mark") == "wrong"
    assert "1 statement " in page.text_content("#quality-brief")  # the first one is gone
    page.focus(card)
    page.keyboard.press("w")
    status(page, "Taken back")
    assert page.get_attribute(card, "data-mark") is None
    assert ids(page) == first


def test_what_is_worth_marking_stays_until_it_is_marked(site):
    page = site.open()
    page.click("#next")
    status(page, "teach the search most")
    asked = ids(page)
    for id, verdict in zip(asked[:2], ("right", "wrong"), strict=True):
        page.click(f"#results .card[data-id={id}] [data-deed={verdict}]")
        status(page, f"Marked {verdict}")
        assert ids(page) == asked
    page.click("input[value=now]")
    page.check("input[value=start]")
    status(page, "nearest")
    assert page.text_content("#results-title") == "Nearest"


def test_two_services_at_once_and_one_that_ends(browser, site, tmp_path):
    """Browsers share the cookies of all ports; and a page whose service is gone says so."""
    page, other = site.open(), Site(browser, tmp_path / "other")
    other.context.close()
    other.context = site.context
    its = other.open()
    page.click("#another")
    status(page, "nearest")
    other.server.send_signal(signal.SIGINT)
    other.server.wait(60)
    other.server.stderr.close()
    its.click("#another")
    status(its, "does not answer")


def test_items_of_a_table_are_shown_with_their_columns(browser, tmp_path):
    table = tmp_path / "shop.csv"
    table.write_text(
        "id,price,weight,kind\n" + "".join(f"A{k},{k},{k % 3},{'red' if k % 2 else 'blue'}\n" for k in range(9))
    )
    site = Site(browser, tmp_path / "served", str(table))
    page = site.open()
    assert "kind: " in page.text_content("#results .card .fields")
    page.click("#results .card [data-deed=why]")
    page.wait_for_selector("#why .bar")
    assert {"price", "weight"} == set(
        page.eval_on_selector_all("#why .bar span:first-child", "parts => parts.map(part => part.textContent)")
    )
    page.fill("#words", "red")
    page.press("#words", "Enter")
    status(page, "4 found")
    site.stop()
    assert site.troubles == []


def test_more_like_these_why_suggestions_and_people(site):
    page = site.open()
    look_for(page, "digit-0042")
    page.focus("#results .card")
    page.keyboard.press(" ")
    page.hover("#results .card:nth-child(2)")
    page.click("#results .card:nth-child(2) [data-deed=pick]")
    page.click("#more")
    until(page, "document.querySelectorAll('#query .card').length === 2")
    page.click("#results .card [data-deed=why]")
    page.wait_for_selector("#why .bar")
    assert "Squared distance" in page.text_content("#why")
    page.click("#next")
    status(page, "teach the search most")
    page.once("dialog", lambda dialog: dialog.accept("Anna"))
    page.click("#new-user")
    until(page, "document.getElementById('user').value === 'Anna'")
    page.click("#results .card [data-deed=right]")
    status(page, "Marked right")
    assert "Anna" in page.text_content("#history li")
    page.click("#history li button")
    status(page, "Taken back")
    assert page.locator("#history li.undone").count() == 1


def test_by_keyboard_alone(site):
    page = site.open()
    page.keyboard.press("/")
    page.keyboard.type("digit-0007")
    page.keyboard.press("Enter")
    until(page, "document.activeElement.dataset.id === 'digit-0007'")
    page.keyboard.press("Enter")
    status(page, "nearest")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('#results .card')"):
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    marked = page.evaluate("document.activeElement.dataset.id")
    page.keyboard.press("r")
    status(page, "Marked right")
    assert page.evaluate("document.activeElement.dataset.id") == marked  # the focus goes with the card
    page.keyboard.press("u")
    status(page, "Taken back")
    page.keyboard.press("w")
    status(page, "Marked wrong")
    page.keyboard.press("y")
    page.wait_for_selector("#why .bar")
    page.keyboard.press("n")
    status(page, "nearest")


@pytest.mark.parametrize("width", [320, 390, 768])
def test_narrow_screens_need_no_scrolling_aside(site, width):
    page = site.open()
    page.set_viewport_size({"width": width, "height": 800})
    page.click("#results .card [data-deed=wrong]")
    status(page, "Marked wrong")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator("#results .card [data-deed=wrong]").first.bounding_box()
    assert box["width"] >= 18
    assert box["height"] >= 24


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_barriers(site, scheme):
    page = site.open()
    page.emulate_media(color_scheme=scheme)
    page.click("#results .card")
    status(page, "Marked right")
    page.click("#results .card [data-deed=why]")
    page.wait_for_selector("#why .bar")
    found = axe.Axe().run(page)["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert serious == [], json.dumps([(each["id"], each["nodes"][0]["html"]) for each in serious])
