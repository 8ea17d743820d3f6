"""Markdown, code, diffs, tool calls and marks: what goes in, and the HTML that comes out."""

from __future__ import annotations

import pytest

from datasette_history.pages.calls import Child, build_call, unflatten
from datasette_history.pages.code import MAX_HIGHLIGHTED, highlight, language_of
from datasette_history.pages.conversation import Part
from datasette_history.pages.diffs import MAX_LINES, Line, added, compare, of_patch
from datasette_history.pages.markdown import MAX_RENDERED, render_markdown
from datasette_history.pages.marks import mark
from datasette_history.pages.shown import (
    day_and_time,
    duration,
    full_path,
    money,
    number,
    one_line,
    plain_terminal,
    visible,
)


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        pytest.param("a *b* `c`", "<p>a <em>b</em> <code>c</code></p>\n", id="inline"),
        pytest.param("# Big", "<h3>Big</h3>\n", id="heading-below-the-page's"),
        pytest.param("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>\n", id="html-is-text"),
        pytest.param(
            "[x](https://a.example/?q=%22)",
            '<p><a href="https://a.example/?q=%22" rel="noreferrer noopener">x</a></p>\n',
            id="web-link",
        ),
        pytest.param("[x](JavaScript:alert(1))", "<p>[x](JavaScript:alert(1))</p>\n", id="script"),
        pytest.param("[x](/-/logout)", "<p>[x](/-/logout)</p>\n", id="relative-link"),
        pytest.param("[x](//evil.example)", "<p>[x](//evil.example)</p>\n", id="other-host"),
        pytest.param("[x](data:text/html,x)", "<p>[x](data:text/html,x)</p>\n", id="data"),
        pytest.param(
            '![a"b](https://evil.example/p.png)',
            '<p><a class="image" rel="noreferrer noopener" href="https://evil.example/p.png">'
            "image: a&#34;b</a></p>\n",
            id="images-are-named",
        ),
        pytest.param(
            "```py\nx\n```",
            '<pre class="code" data-language="py"><code><span class="n">x</span></code></pre>\n',
            id="code",
        ),
        pytest.param(
            '```"><script>\n<x>\n```',
            '<pre class="code" data-language="&#34;&gt;&lt;script&gt;">'
            "<code>&lt;x&gt;</code></pre>\n",
            id="hostile-language",
        ),
        pytest.param("a\u202eb\x07", "<p>a⟨U+202E⟩b⟨U+0007⟩</p>\n", id="marks-are-shown"),
    ],
)
def test_markdown_becomes_harmless_html(markdown: str, html: str) -> None:
    assert render_markdown(markdown) == html


def test_line_ends_count_in_what_people_type() -> None:
    assert render_markdown("a\nb", breaks=True) == "<p>a<br />\nb</p>\n"
    assert render_markdown("a\nb") == "<p>a\nb</p>\n"


def test_a_table_aligns_without_inline_styles() -> None:
    html = render_markdown("|a|b|\n|-|-:|\n|1|2|")
    assert 'class="align-right"' in html
    assert "style" not in html


def test_huge_texts_stay_plain() -> None:
    html = render_markdown("*a* <b>" + "x" * MAX_RENDERED)
    assert html.startswith('<pre class="plain">*a* &lt;b&gt;xxx')


def test_code_keeps_every_character_and_gets_colours_where_it_can() -> None:
    assert highlight("\n\nif x:\n", "python").count("\n") == 3
    assert '<span class="k">' in highlight("if x:", "python")
    assert highlight("<b>", "nonsense") == "&lt;b&gt;"
    assert "<span" not in highlight("x " * MAX_HIGHLIGHTED, "python")
    assert language_of("/a/b.ts") == "typescript"
    assert language_of("/a/nothing.qqq") is None


def test_a_replacement_becomes_a_diff_with_what_is_around_it() -> None:
    old = "".join(f"line {i}\n" for i in range(20))
    diff = compare("a.py", old, old.replace("line 10\n", "ten\neleven\n"))
    assert [line.text for line in diff.lines] == [
        " line 7", " line 8", " line 9", "-line 10", "+ten", "+eleven",
        " line 11", " line 12", " line 13",
    ]  # fmt: skip
    assert (diff.added, diff.removed, diff.omitted) == (2, 1, 0)


def test_a_written_file_is_all_new_and_cut_where_it_is_long() -> None:
    diff = added("a.py", "x\n" * (MAX_LINES + 5))
    assert (len(diff.lines), diff.added, diff.omitted) == (MAX_LINES, MAX_LINES + 5, 5)
    assert added("a.py", "").lines == ()


def test_very_long_replacements_are_not_compared_line_by_line() -> None:
    diff = compare("a", "a\n" * 5_000, "b\n" * 5_000)
    assert (diff.added, diff.removed) == (5_000, 5_000)


def test_a_patch_becomes_one_diff_for_each_file() -> None:
    diffs = of_patch(
        "*** Begin Patch\n*** Update File: a.ts\n@@ fn\n-old\n+new\n same\n"
        "*** Add File: b.md\n+# hi\n*** Delete File: c\n*** End Patch"
    )
    assert [(d.path, d.what, d.added, d.removed) for d in diffs] == [
        ("a.ts", "edited", 1, 1),
        ("b.md", "added", 1, 0),
        ("c", "deleted", 0, 0),
    ]
    assert diffs[0].lines[0] == Line("skip", "@@ fn")


def rows(name: str, *others: tuple[str, str | None, str], **values: object) -> list[Part]:
    kinds = [("tool", name, name), *others]
    return [
        Part(
            seq=i, kind=kind, call=0, name=key, title=None, text=text, own=True,
            status="completed" if kind == "tool" else None,
            started_ms=1_000 if kind == "tool" else None,
            ended_ms=3_500 if kind == "tool" else None,
        )
        for i, (kind, key, text) in enumerate(kinds)
    ]  # fmt: skip


def test_a_shell_call_looks_like_a_terminal() -> None:
    call = build_call(
        rows(
            "bash",
            ("input", "command", "ls | wc"),
            ("input", "description", "Count files"),
            ("output", None, "\x1b[32m3\x1b[0m\n"),
        )
    )
    assert (call.title, call.took, call.terminal, call.failed) == (
        "Count files",
        "2.5 s",
        True,
        False,
    )
    assert call.command is not None
    assert "ls" in call.command
    assert [text.html for text in call.outputs] == ["3"]
    assert call.fields == []


def test_edits_in_one_call_are_diffs_of_their_own() -> None:
    call = build_call(
        rows(
            "multiedit",
            ("input", "filePath", "/a.ts"),
            ("input", "edits[0].oldString", "1"),
            ("input", "edits[0].newString", "2"),
            ("input", "edits[1].oldString", "3"),
            ("input", "edits[1].newString", "4"),
        )
    )
    assert [(d.path, d.added, d.removed) for d in call.diffs] == [("/a.ts", 1, 1), ("/a.ts", 1, 1)]
    assert (call.added, call.removed, call.fields) == (2, 2, [])


def test_an_edit_without_texts_shows_what_it_was_given() -> None:
    call = build_call(rows("edit", ("input", "filePath", "/a.ts"), ("input", "odd", "x\ny")))
    assert [name for name, _ in call.fields] == ["filePath", "odd"]
    assert call.diffs == ()


def test_a_failed_call_says_so() -> None:
    call = build_call(rows("read", ("input", "filePath", "/a"), ("error", None, "not found")))
    assert call.failed
    assert [text.html for text in call.errors] == ["not found"]


def test_a_task_leads_to_the_session_it_started() -> None:
    children = [
        Child(session_id="early", title="Look (@explore subagent)", created_ms=50_000),
        Child(session_id="right", title="Look (@explore subagent)", created_ms=90_000),
        Child(session_id="other", title="Else (@explore subagent)", created_ms=90_000),
    ]
    task = rows("task", ("input", "description", "Look"))
    assert build_call(task, children).child is None
    task[0] = Part(
        seq=0, kind="tool", call=0, name="task", title=None, status="completed",
        started_ms=89_900, ended_ms=99_000, text="task", own=True,
    )  # fmt: skip
    child = build_call(task, children).child
    assert child is not None
    assert child.session_id == "right"


def test_inputs_are_nested_again() -> None:
    assert unflatten({"a[1].b": "2", "a[0].b": "1", "c": "x", "d.e": "y"}) == {
        "a": [{"b": "1"}, {"b": "2"}],
        "c": "x",
        "d": {"e": "y"},
    }
    # Keys that contradict each other lose nothing that could be shown, and raise nothing.
    assert unflatten({"a": "1", "a.b": "2"}) == {"a": "1"}


@pytest.mark.parametrize(
    ("text", "words", "html"),
    [
        pytest.param(
            "Log LOGIN log",
            ["log"],
            "<mark>Log</mark> <mark>LOG</mark>IN <mark>log</mark>",
            id="case",
        ),
        pytest.param("abcd", ["abc", "bcd"], "<mark>abcd</mark>", id="overlapping"),
        pytest.param("<b>&", ["<b"], "<mark>&lt;b</mark>&gt;&amp;", id="escaped"),
        pytest.param("Straße", ["strasse"], "Straße", id="no-other-length"),
        pytest.param("x", [], "x", id="no-words"),
    ],
)
def test_matches_are_marked(text: str, words: list[str], html: str) -> None:
    assert mark(text, words) == html


def test_values_are_spelled_for_people() -> None:
    assert [duration(ms) for ms in (None, -1, 5, 4_200, 64_000, 7_800_000, 400_000_000)] == [
        "", "", "5 ms", "4.2 s", "1 min 4 s", "2 h 10 min", "4 days",
    ]  # fmt: skip
    assert [money(d) for d in (None, 0, 0.0123, 1234.5)] == ["", "$0", "$0.0123", "$1,234.50"]
    assert [number(n) for n in (999, 1_000, 999_949, 1_500_000)] == [
        "999",
        "1.0k",
        "999.9k",
        "1.5M",
    ]
    assert day_and_time(10**18) == f"{10**18} ms"


def test_what_a_terminal_would_show() -> None:
    assert plain_terminal("\x1b]0;title\x07\x1b[1;31mred\x1b[0m\r\nold\rnew\n") == "red\nnew\n"


def test_texts_fit_into_a_line() -> None:
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("x" * 50, 10) == "xxxxxxxxx…"
    assert visible("a\r\nb\tc") == "a\nb\tc"


def test_relative_paths_are_completed_from_the_session() -> None:
    assert full_path("./src/a.ts", "/home/dev") == "/home/dev/src/a.ts"
    assert full_path("/a.ts", "/home/dev") == "/a.ts"
    assert full_path("C:\\x\\a.ts", "C:\\y") == "C:/x/a.ts"
    assert full_path("a.ts", None) == "a.ts"
