"""The dashboard in a real browser: a person's whole way through it, and whether everyone can use it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra webui is not installed")
pytest.importorskip("playwright", reason="the extra browser is not installed")
pytest.importorskip("axe_playwright_python", reason="the extra browser is not installed")

from axe_playwright_python.sync_playwright import Axe
from fakes.dashboard import EVIL, EVIL_ID, hostile_run, user_environment
from fakes.openai_server import FakeOpenAI
from fakes.published import published_run
from fakes.rule_world import world, write_split
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: apt-get install chromium)"),
    pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to one process on Windows"),
    pytest.mark.timeout(300),
]
SHOTS = os.environ.get("SKILLOPT_SCREENSHOTS", "")
WIDTHS = (1440, 390)
DELAY = {"s": 0.3}
"""Seconds that a model takes: long enough to be watched, and much longer while all pages are looked at."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard of its own process, as a person starts it, over an old run and a hostile one."""
    folder = tmp_path_factory.mktemp("browser")
    write_split(folder / "split")
    published_run(folder / "runs" / "published")
    hostile_run(folder / "runs" / "hostile", folder / "elsewhere" / "secret.txt")
    with FakeOpenAI(lambda received: world(delay=DELAY["s"])(received)) as server:
        words = ["-m", "skillopt_webui.app", "--port", str(_free_port()), "--root", "runs"]
        environ = user_environment(OPENAI_BASE_URL=server.url)
        with open(folder / "dashboard.log", "wb") as log:
            process = subprocess.Popen([sys.executable, *words], cwd=folder, env=environ, stdout=log, stderr=log)
        try:
            base = f"http://127.0.0.1:{words[3]}"
            _answers(base)
            yield base
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
    assert "Traceback" not in (folder / "dashboard.log").read_text(encoding="utf-8")


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(base: str) -> None:
    from urllib.error import URLError
    from urllib.request import urlopen

    deadline = time.monotonic() + 30
    while True:
        try:
            urlopen(base, timeout=5).close()
            return
        except (URLError, OSError):
            assert time.monotonic() < deadline, "the dashboard does not answer"
            time.sleep(0.1)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test for anything in its console."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    opened = context.new_page()
    told: list[str] = []
    opened.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: told.append(str(error)))
    opened.on("dialog", lambda dialog: (told.append("a dialog opened"), dialog.dismiss()))
    yield opened
    context.close()
    assert told == []


def fill(page: Page, name: str) -> None:
    page.get_by_label("Name of the run folder").fill(name)
    page.locator('[name="model.optimizer"]').fill("teacher")
    page.locator('[name="model.target"]').fill("pupil")
    page.locator('[name="env.split_dir"]').fill("split")
    page.locator('[name="train.num_epochs"]').fill("20")
    page.locator('[name="train.batch_size"]').fill("4")
    page.locator('[name="env.workers"]').fill("2")


def test_the_whole_way(page: Page, browser: Browser, address: str) -> None:
    page.goto(address)
    page.get_by_role("link", name="New run").first.click()
    with page.expect_navigation():
        page.get_by_label("Configuration").select_option("configs/searchqa/default.yaml")
    fill(page, "first-run")
    page.get_by_role("button", name="Preview the data").click()
    expect(page.get_by_role("heading", name="Data")).to_be_visible()
    page.get_by_role("button", name="Check the providers").click()
    expect(page.get_by_role("heading", name="A training can start")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Estimate").click()
    expect(page.get_by_role("heading", name="What it would send")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Start", exact=True).click()

    # The command's page leads to the run by itself; there a step arrives without a reload.
    page.wait_for_url(re.compile("/run/first-run-"), timeout=40_000)
    page.evaluate("window.untouched = true")
    expect(page.locator(".stages li.now, .stages li.done").first).to_be_visible(timeout=20_000)
    expect(page.locator("#latest tbody tr").first).to_be_visible(timeout=40_000)
    expect(page.locator("#charts svg:visible").first).to_be_visible()
    assert page.evaluate("window.untouched") is True
    run = page.url
    DELAY["s"] = 4.0
    item = failed_item(page)
    look(browser, address, "training", run, item)

    page.goto(run)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".masthead .pill.stopped")).to_be_visible(timeout=60_000)
    resume = page.get_by_role("button", name="Resume")
    expect(resume).to_be_visible()
    DELAY["s"] = 0.01
    resume.click()
    page.wait_for_url(run, timeout=40_000)
    expect(page.locator(".masthead .pill.finished")).to_be_visible(timeout=90_000)
    expect(page.get_by_role("heading", name="Test items, held out")).to_be_visible()

    page.get_by_role("link", name="Skill", exact=True).click()
    page.get_by_role("link", name="What training changed").click()
    expect(page.locator(".diff .added").last).to_contain_text("ANSWER-IN-CAPITALS")

    page.goto(address)
    for name in ("first-run", "published"):
        page.get_by_label(f"Pick {name} to compare").check()
    page.get_by_role("button", name="Compare the picked runs").click()
    expect(page.locator("#main")).to_contain_text("first-run: best")

    page.goto(run)
    page.get_by_role("link", name="Evaluate", exact=True).last.click()
    page.get_by_label("Name of the run folder").fill("scored")
    page.get_by_role("button", name="Estimate").click()
    page.get_by_role("button", name="Start", exact=True).click(timeout=30_000)
    page.goto(address)
    page.get_by_role("link", name="scored").click(timeout=40_000)
    expect(page.locator(".tiles")).to_contain_text("100.0%", timeout=40_000)
    look(browser, address, "finished", run)


def failed_item(page: Page) -> str:
    """The way from a run's page to an item that failed; its address."""
    page.get_by_role("link", name="Items", exact=True).click()
    page.get_by_label("Pass").select_option(label="step 1: rollout")
    page.get_by_label("Show", exact=True).select_option("failed")
    page.locator("tbody th a").first.click()
    expect(page.get_by_role("heading", name="Reflection")).to_be_visible()
    return page.url


def look(browser: Browser, address: str, name: str, run: str, item: str = "") -> None:
    """Pages in both widths and both schemes: they fit, axe finds nothing serious; pictures where they are asked for.
    All pages if an ``item``'s is given, else those that differ when a run has ended."""
    pages = {"runs": address, "run": run, "compare": f"{address}/compare?run={run.rpartition('/')[2]}"}
    if item:
        tabs = ("steps", "steps/1", "skill", "blame", "items", "calls", "events", "log", "config")
        pages |= {tab.replace("/", "-"): f"{run}/{tab}" for tab in tabs}
        pages |= {"diff": f"{run}/skill?from=seed&to=best", "item": item, "missing": f"{address}/nope"}
        pages |= {"new": f"{address}/new", "evaluate": f"{address}/evaluate"}
    _look(browser, name, pages, "light")
    # Colours are those of the parts, and these pages have all parts between them; pictures are taken of each.
    parts = ("runs", "run", "steps-1", "diff", "item", "new")
    _look(browser, name, pages if SHOTS else {title: pages[title] for title in parts if title in pages}, "dark")


def _look(browser: Browser, name: str, pages: dict[str, str], scheme: Any) -> None:
    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    for title, url in pages.items():
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.goto(url)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (title, width)
            if SHOTS:
                page.screenshot(path=f"{SHOTS}/{name}-{title}-{width}-{scheme}.png", full_page=True)
        found = [
            (each["id"], [node["html"][:200] for node in each["nodes"]])
            for each in Axe().run(page).response["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert found == [], (title, scheme)
    context.close()


def test_nothing_of_a_hostile_run_is_run(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("link", name="hostile").click()
    run = page.url
    for tab in ("", "/steps", "/steps/1", "/skill", "/skill?from=0&to=1", "/blame", "/items", "/events?items=1"):
        page.goto(run + tab)
        assert page.locator("main script, main img, main b:has-text('id<')").count() == 0, tab
    page.goto(f"{run}/items?pass=steps/step_0001/rollout")
    assert EVIL_ID in page.locator("tbody").inner_text()
    page.goto(f"{run}/skill")
    assert EVIL in page.locator("#skill").inner_text()


def test_it_works_by_keyboard(page: Page, address: str) -> None:
    page.goto(address)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    seen = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"))
    assert {"New run", "published", "Pick published to compare", "Compare the picked runs"} <= seen


def test_the_scheme_can_be_chosen_and_stays(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.goto(f"{address}/new")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    expect(page.get_by_role("button", name="Light")).to_be_visible()
