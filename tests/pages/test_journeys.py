"""What people do with the pages, done in a browser: with a mouse, with keys, without scripts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.pages.conftest import FILE, LONG

OpenPage = Callable[..., Any]


def expect(thing: Any) -> Any:
    from playwright.sync_api import expect as wait_for

    return wait_for(thing)


def test_results_come_while_typing_and_the_address_keeps_step(open_page: OpenPage) -> None:
    page = open_page("/-/history")
    expect(page.locator(".day .title").first).to_have_text("Fix the login of the shop")
    page.locator("#h-query").press_sequentially("mixed", delay=20)
    expect(page.locator(".hit mark").first).to_have_text("mixed")
    expect(page).to_have_url(re.compile(r"\?query=mixed$"))
    page.locator(".hit").first.click()
    expect(page.locator(".message.here, .message:target")).to_have_id("msg_l1")
    page.go_back()
    expect(page.locator("#h-query")).to_have_value("mixed")
    expect(page.locator(".hit mark").first).to_have_text("mixed")
    page.go_back()
    expect(page.locator("#h-query")).to_have_value("")
    expect(page.locator(".day .title").first).to_be_visible()


def test_tabs_and_filters_are_in_the_address_and_go_back(open_page: OpenPage) -> None:
    page = open_page("/-/history?query=login")
    page.locator(".tab[data-tab=sessions]").click()
    expect(page).to_have_url(re.compile("tab=sessions"))
    expect(page.locator(".title")).to_have_count(2)
    page.get_by_label("Archived").select_option("hide")
    expect(page.locator(".title")).to_have_count(1)
    expect(page).to_have_url(re.compile("archived=hide"))
    page.go_back()
    expect(page.locator(".title")).to_have_count(2)
    expect(page.get_by_label("Archived")).to_have_value("")
    page.locator(".tab[data-tab=edits]").click()
    expect(page.locator(".path").first).to_have_text("src/auth/login.ts")
    page.locator(".path").first.click()
    expect(page.locator(".diff .add")).to_have_text("+a = 2")


def test_keys_do_all_of_a_search(open_page: OpenPage) -> None:
    page = open_page("/-/history?query=login")
    page.locator(".title").first.focus()
    page.keyboard.press("/")
    expect(page.locator("#h-query")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("a.result").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("a.result").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#h-query")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#h-query")).to_have_value("")
    expect(page.locator(".day .title").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Fix the login of the shop")


def test_a_mistake_in_the_query_is_explained(open_page: OpenPage) -> None:
    page = open_page("/-/history")
    page.locator("#h-query").fill("path: login")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("is empty")
    page.locator("#h-query").fill("nowheretobefound")
    expect(page.locator(".empty")).to_contain_text("Nothing matches")


def test_scrolling_loads_the_rest_of_a_long_session(open_page: OpenPage) -> None:
    page = open_page("/-/history/session/ses_long")
    expect(page.locator(".message").first).to_have_id("msg_0")
    for _ in range(200):
        if page.locator(".message").count() == LONG:
            break
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_timeout(50)
    ids = page.locator(".message").evaluate_all("all => all.map((one) => one.id)")
    assert ids == [f"msg_{number}" for number in range(LONG)]
    expect(page.locator(".turn-page")).to_have_count(0)


def test_a_permalink_finds_a_message_that_is_not_loaded(open_page: OpenPage) -> None:
    page = open_page("/-/history/session/ses_long#msg_250")
    expect(page.locator(".message.here")).to_have_id("msg_250")
    expect(page.locator("#msg_250")).to_be_in_viewport()
    # What stands before it is loaded above without moving what is being read.
    page.evaluate("scrollTo(0, 0)")
    expect(page.locator("#msg_180")).to_be_attached()
    expect(page.locator(".outline a[aria-current]")).to_have_count(1)


def test_the_outline_jumps_to_any_prompt_and_back(open_page: OpenPage) -> None:
    page = open_page("/-/history/session/ses_long")
    page.locator(".outline a", has_text="Prompt number 300").click()
    expect(page.locator("#msg_300")).to_be_in_viewport()
    expect(page).to_have_url(re.compile("/ses_long#msg_300$"))
    page.locator(".outline a", has_text="Prompt number 10").first.click()
    expect(page.locator("#msg_10")).to_be_in_viewport()
    page.go_back()
    expect(page.locator("#msg_300")).to_be_in_viewport()


def test_finding_in_a_session_reaches_what_is_neither_loaded_nor_unfolded(
    open_page: OpenPage,
) -> None:
    page = open_page("/-/history/session/ses_long")
    page.keyboard.press("/")
    page.keyboard.type("TREASURE")
    expect(page.locator("#h-found mark")).to_have_text("treasure")
    page.keyboard.press("Enter")
    expect(page.locator("#msg_205 details")).to_have_attribute("open", "")
    expect(page.locator("#msg_205 .excerpt", has_text="hidden treasure")).to_be_in_viewport()


def test_long_outputs_are_completed_in_place(open_page: OpenPage) -> None:
    page = open_page("/-/history/session/ses_login")
    page.locator(".call", has_text="npm test").locator("summary").click()
    output = page.locator(".excerpt.terminal pre")
    expect(output).not_to_contain_text("last needle")
    page.get_by_role("link", name=re.compile("Show all")).click()
    expect(output).to_contain_text("last needle")


def test_the_resume_command_and_messages_can_be_copied(open_page: OpenPage) -> None:
    page = open_page(
        "/-/history/session/ses_login", permissions=["clipboard-read", "clipboard-write"]
    )
    page.locator(".resume .copy").click()
    expect(page.locator(".resume .copy")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "cd /home/dev/app && opencode -s ses_login"
    page.locator("#msg_l1").hover()
    page.locator("#msg_l1 .copy").click()
    expect(page.locator("#msg_l1 .copy")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "The login fails with **mixed case** mail addresses\n"


def test_subagents_and_forks_are_linked_both_ways(open_page: OpenPage) -> None:
    page = open_page("/-/history/session/ses_login")
    page.locator(".child a").click()
    expect(page.locator(".family")).to_have_text("Subagent of Fix the login of the shop")
    page.locator(".family a").click()
    page.locator(".family a", has_text="fork #1").click()
    expect(page.locator(".family")).to_have_text("Forked from Fix the login of the shop")
    expect(page.locator("h1 .badge").first).to_have_text("archived")


def test_a_session_that_changed_is_not_mixed_with_what_is_shown(open_page: OpenPage) -> None:
    page = open_page("/-/history/session/ses_long")
    # As after a refresh by the writer: the piece that comes is of another version.
    page.route(
        re.compile(r"/messages\?"),
        lambda route: route.fulfill(
            body=route.fetch().text().replace('data-written="', 'data-written="1'),
            content_type="text/html",
        ),
    )
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.locator(".notice")).to_be_visible()
    expect(page.locator(".window")).to_have_count(1)
    page.locator(".notice a").click()
    expect(page.locator(".notice")).to_be_hidden()


def test_times_are_the_readers_own(open_page: OpenPage) -> None:
    page = open_page("/-/history", timezone_id="America/New_York")
    expect(page.locator(".day .card time").first).to_have_text("20:00")
    expect(page.locator(".daylabel").first).to_contain_text("2026-11-30")
    page = open_page("/-/history/session/ses_login", timezone_id="Asia/Tokyo")
    expect(page.locator("#msg_l1 time")).to_have_text("2026-12-01 10:00")


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_moves_while_a_page_loads(open_page: OpenPage, width: int) -> None:
    for path in ("/-/history", "/-/history?query=login", "/-/history/session/ses_login"):
        page = open_page(path, width=width)
        shift = page.evaluate(
            """() => new Promise((done) => {
              let sum = 0;
              new PerformanceObserver((list) => {
                for (const entry of list.getEntries()) sum += entry.value;
              }).observe({ type: "layout-shift", buffered: true });
              setTimeout(() => done(sum), 300);
            })"""
        )
        assert shift < 0.01, path


def test_everything_can_be_read_without_scripts(open_page: OpenPage) -> None:
    page = open_page("/-/history", java_script_enabled=False)
    page.locator("#h-query").fill("mixed")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".hit mark").first).to_have_text("mixed")
    page.locator(".hit").first.click()
    expect(page.locator("#msg_l1")).to_be_in_viewport()
    page.goto(page.url.split("/session/")[0] + "/session/ses_long?at=msg_150#msg_150")
    expect(page.locator("#msg_150")).to_be_in_viewport()
    page.get_by_role("link", name="Later messages").click()
    expect(page.locator(".message").first).to_have_id("msg_195")
    page.get_by_role("link", name="Earlier messages").click()
    expect(page.locator("#msg_194")).to_be_attached()
    page.get_by_label("Find in this session").fill("treasure")
    page.get_by_role("button", name="Find").click()
    page.locator("#h-found a").click()
    expect(page.locator("#msg_205")).to_be_in_viewport()
    page.goto(page.url.split("/session/")[0] + f"/file?path={FILE}")
    expect(page.locator(".diff .add")).to_have_text("+a = 2")
    page.goto(page.url.split("/file")[0] + "/project/prj")
    expect(page.locator("h1")).to_be_visible()
