"""Exports of a session: Markdown to read anywhere, JSON that leaves nothing out."""

from __future__ import annotations

from pathlib import Path

import pytest
from datasette.app import Datasette

from sync.model import Part
from tests.builders import MINUTE, T0, assistant, copy, fill, session, synthetic, tokens, tool, user
from tests.reader.test_pages import get

FENCED = "```\ncode with ``` inside\n```"


@pytest.fixture
def ds(tmp_path: Path) -> Datasette:
    path = fill(
        tmp_path / "history.db",
        copy(
            session(
                "ses_a", "Fix `it`\n# not a heading", at=T0 + MINUTE,
                provider="anthropic", model="sonnet",
            ),
            user("msg_1", "Please fix it", synthetic("context")),
            assistant(
                "msg_2",
                Part(kind="reasoning", text="Hmm.\nYes."),
                FENCED,
                tool("write", filePath="a.py", content="x = 1\ny = 2\n", output=FENCED),
                at=T0 + MINUTE,
                model="sonnet",
                provider="anthropic",
                cost=0.25,
                tokens=tokens(10, 20, 5),
                finish="stop",
                edits=["a.py"],
            ),
        ),
        copy(session("ses_child", "Helper", parent_id="ses_a"), user("msg_3", "x")),
    )  # fmt: skip
    return Datasette([str(path)])


@pytest.mark.asyncio
async def test_markdown_reads_as_the_conversation_did(ds: Datasette) -> None:
    response = await get(ds, "/-/history/session/ses_a.md")
    assert response.headers["content-type"] == "text/markdown; charset=utf-8"
    assert response.headers["content-disposition"] == 'attachment; filename="ses_a.md"'
    assert response.text == (
        "# Fix `it` # not a heading\n\n"
        "- Session: `ses_a`\n"
        "- Directory: `/home/dev/app`\n"
        "- Project: `prj`\n"
        "- Model: `anthropic/sonnet`\n"
        "- Created: `2026-12-01 01:01 UTC`\n"
        "- Last activity: `2026-12-01 01:01 UTC`\n"
        "- Cost: `$0.2500`\n"
        "- Continue: `cd /home/dev/app && opencode -s ses_a`\n\n"
        "## User, 2026-12-01 01:00\n\n"
        "Please fix it\n\n"
        "> **Added by OpenCode**\n>\n> context\n\n"
        "## Assistant, 2026-12-01 01:01\n\n"
        "> **Reasoning**\n>\n> Hmm.\n> Yes.\n\n"
        f"{FENCED}\n\n"
        "**Tool `write`** (completed, 1.0 s)\n\n"
        "`filePath`: `a.py`\n\n"
        "`content`:\n\n"
        "```python\nx = 1\ny = 2\n```\n\n"
        "Output:\n\n"
        f"````\n{FENCED}\n````\n"
    )


@pytest.mark.asyncio
async def test_markdown_of_one_message_is_what_it_says(ds: Datasette) -> None:
    response = await get(ds, "/-/history/session/ses_a.md?message=msg_1")
    assert response.text == "Please fix it\n\n> **Added by OpenCode**\n>\n> context\n"
    assert "content-disposition" not in response.headers
    missing = await get(ds, "/-/history/session/ses_a.md?message=msg_3")
    assert missing.status_code == 404


@pytest.mark.asyncio
async def test_json_has_every_part_as_it_was(ds: Datasette) -> None:
    response = await get(ds, "/-/history/session/ses_a.json")
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    body = response.json()
    messages = body.pop("messages")
    assert body == {
        "ok": True,
        "sessionID": "ses_a",
        "title": "Fix `it`\n# not a heading",
        "projectID": "prj",
        "directory": "/home/dev/app",
        "updated": T0 + MINUTE,
        "updatedISO": "2026-12-01T01:01:00.000Z",
        "url": "http://localhost/-/history/session/ses_a",
        "resume": "cd /home/dev/app && opencode -s ses_a",
        "created": T0 + MINUTE,
        "createdISO": "2026-12-01T01:01:00.000Z",
        "version": None,
        "agent": None,
        "provider": "anthropic",
        "model": "sonnet",
        "parentID": None,
        "childIDs": ["ses_child"],
        "forkIDs": [],
        "copies": [
            {
                "kind": "db",
                "location": "/home/dev/.local/share/opencode/opencode.db",
                "holds": "",
                "activity": T0 + MINUTE,
                "activityISO": "2026-12-01T01:01:00.000Z",
                "indexed": True,
            }
        ],
        "cost": {
            "own": 0.25,
            "total": 0.25,
            "recorded": None,
            "difference": None,
            "notPriced": 0,
        },
        "tokens": {"own": 35, "total": 35},
        "todos": [],
        "files": ["/home/dev/app/a.py"],
    }
    assert [(m["messageID"], m["role"], m["cost"], m["finish"]) for m in messages] == [
        ("msg_1", "user", None, None),
        ("msg_2", "assistant", 0.25, "stop"),
    ]
    assert messages[1]["tokens"] == {
        "input": 10, "output": 20, "reasoning": 5, "cacheRead": 0, "cacheWrite": 0,
    }  # fmt: skip
    assert [(p["kind"], p["name"], p["own"], p["text"]) for p in messages[0]["parts"]] == [
        ("text", None, True, "Please fix it"),
        ("synthetic", None, False, "context"),
    ]
    assert [(p["kind"], p["name"], p["call"], p["text"]) for p in messages[1]["parts"]] == [
        ("reasoning", None, None, "Hmm.\nYes."),
        ("text", None, None, FENCED),
        ("tool", "write", 0, "write"),
        ("input", "filePath", 0, "a.py"),
        ("input", "content", 0, "x = 1\ny = 2\n"),
        ("output", None, 0, FENCED),
    ]


@pytest.mark.asyncio
async def test_a_file_name_is_never_made_of_more_than_letters(tmp_path: Path) -> None:
    odd = 'ses_"\r\n; x=é'
    ds = Datasette([str(fill(tmp_path / "history.db", copy(session(odd))))])
    response = await get(ds, "/-/history/session/ses_%22%0d%0a%3b%20x=%c3%a9.md")
    assert response.status_code == 200
    assert response.headers["content-disposition"] == 'attachment; filename="ses_-x-.md"'
