"""Messages of V2 as plain values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sync.decode_v2 import message_v2
from sync.model import FileEdit, Message, Part, Tokens
from tests.builders import T0
from tests.opencode_stores import v2_tool

APP = "/home/dev/app"


def decode(kind: str, *, directory: str | None = APP, **data: object) -> Message:
    return message_v2("msg_1", kind, data, stamp="v2:1", row_ms=T0, directory=directory)


def answer(*content: object, **data: object) -> Message:
    return decode("assistant", content=list(content), **data)


def told(message: Message) -> list[tuple[str, str]]:
    return [(part.kind, part.text) for part in message.parts]


def test_an_assistants_message_has_all_its_figures() -> None:
    message = answer(
        {"type": "text", "id": "text-0", "text": "Done."},
        {"type": "reasoning", "id": "reasoning-0", "text": "Hm."},
        agent="build",
        model={"id": "think", "providerID": "fake", "variant": "high"},
        cost=0.25,
        tokens={"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 7, "write": 3}},
        time={"created": T0 + 5, "completed": T0 + 9},
        finish="stop",
    )
    assert message == Message(
        id="msg_1",
        role="assistant",
        created_ms=T0 + 5,
        stamp="v2:1",
        agent="build",
        provider="fake",
        model="think",
        cost=0.25,
        tokens=Tokens(input=10, output=5, reasoning=2, cache_read=7, cache_write=3),
        finish="stop",
        parts=(Part(kind="text", text="Done."), Part(kind="reasoning", text="Hm.")),
    )


def test_a_prompt_has_its_files_agents_and_skills() -> None:
    message = decode(
        "user",
        text="Look at this",
        files=[
            {"uri": "data:image/png;base64,AA==", "mime": "image/png", "name": "shot.png"},
            {"uri": "file:///home/dev/app/a.ts", "mime": "text/plain"},
        ],
        agents=[{"name": "explore", "source": {"text": "@explore"}}],
        skills=[{"name": "release"}],
    )
    assert message.parts == (
        Part(kind="text", text="Look at this"),
        Part(kind="file", text="shot.png", name="image/png"),
        Part(kind="file", text="a.ts", name="text/plain"),
        Part(kind="agent", text="explore"),
        Part(kind="synthetic", text="release", own=False),
    )
    assert (message.created_ms, message.cost, message.tokens) == (T0, None, None)


def test_a_completed_call_has_the_texts_of_its_content() -> None:
    message = answer(
        v2_tool(
            "shell",
            input={"command": "npm test"},
            content=[
                {"type": "text", "text": "ok\n"},
                {"type": "text", "text": "Command exited with code 0."},
                {"type": "file", "uri": "file:///tmp/shot.png", "mime": "image/png"},
            ],
            structured={"exit": 0, "output": "ok\n"},
        )
    )
    assert message.parts == (
        Part(
            kind="tool",
            text="shell",
            name="shell",
            call=0,
            status="completed",
            started_ms=T0 + 10,
            ended_ms=T0 + 20,
        ),
        Part(kind="input", text="npm test", name="command", call=0),
        Part(kind="output", text="ok\n", call=0),
        Part(kind="output", text="Command exited with code 0.", call=0),
        Part(kind="file", text="shot.png", name="image/png", call=0),
    )


def test_a_files_text_stands_in_for_missing_content() -> None:
    message = answer(
        v2_tool("read", input={"path": "a.ts"}, content=[], structured={"content": "const a = 1"})
    )
    assert told(message) == [("tool", "read"), ("input", "a.ts"), ("output", "const a = 1")]


def test_content_is_not_repeated_from_the_structured_result() -> None:
    message = answer(
        v2_tool("read", content=[{"type": "text", "text": "shown"}], structured={"content": "raw"})
    )
    assert told(message) == [("tool", "read"), ("output", "shown")]


def test_a_failed_call_has_its_error_once() -> None:
    message = answer(
        v2_tool(
            "edit",
            "error",
            input={"path": "a.ts"},
            content=[],
            error={"type": "unknown", "message": "Could not find oldString"},
            result={"type": "error", "value": "Could not find oldString"},
        )
    )
    assert told(message) == [
        ("tool", "edit"), ("input", "a.ts"), ("error", "Could not find oldString"),
    ]  # fmt: skip
    assert message.edits == ()


@pytest.mark.parametrize(
    ("raw", "inputs"),
    [
        pytest.param('{"path": "a.t', [("", '{"path": "a.t')], id="cut"),
        pytest.param('{"path": "a.ts"}', [("path", "a.ts")], id="whole"),
        pytest.param("plain", [("", "plain")], id="no-json"),
        pytest.param("", [("", "")], id="nothing"),
    ],
)
def test_an_input_that_is_still_written_is_told_as_far_as_it_goes(
    raw: str, inputs: list[tuple[str, str]]
) -> None:
    message = answer(v2_tool("write", "streaming", input=raw))
    assert [(part.name, part.text) for part in message.parts[1:]] == inputs
    assert message.parts[0].status == "pending"
    assert message.edits == ()


def test_a_running_command_has_what_it_printed_so_far() -> None:
    message = answer(
        v2_tool("shell", "running", input={"command": "make"}, metadata={"output": "cc a.c"})
    )
    assert told(message) == [("tool", "shell"), ("input", "make"), ("output", "cc a.c")]


@pytest.mark.parametrize(
    ("item", "edited", "named"),
    [
        pytest.param(
            v2_tool(
                "edit", input={"path": "src/a.ts"}, structured={"files": [{"file": "src/a.ts"}]}
            ),
            [f"{APP}/src/a.ts"],
            [],
            id="edit",
        ),
        pytest.param(
            v2_tool(
                "edit", input={"filePath": f"{APP}/a.ts"}, metadata={"files": [{"file": "b.ts"}]}
            ),
            [f"{APP}/a.ts", f"{APP}/b.ts"],
            [f"{APP}/b.ts"],
            id="migrated",
        ),
        pytest.param(
            v2_tool("write", input={"path": "a.ts"}, structured={"target": f"{APP}/a.ts"}),
            [f"{APP}/a.ts"],
            [],
            id="write",
        ),
        pytest.param(
            v2_tool(
                "apply_patch",
                input={"patchText": "*** Begin Patch\n*** Add File: a.ts\n+x\n*** End Patch"},
                structured={
                    "applied": [{"resource": "a.ts", "target": f"{APP}/a.ts"}],
                    "files": [{"file": "a.ts"}],
                },
            ),
            [f"{APP}/a.ts"],
            [],
            id="patch",
        ),
        pytest.param(v2_tool("grep", input={"path": "src"}), [], [], id="grep"),
    ],
)
def test_files_that_a_call_edited(item: Any, edited: list[str], named: list[str]) -> None:
    message = answer(item)
    assert message.edits == tuple(FileEdit(path, item["name"]) for path in edited)
    assert [part.text for part in message.parts if part.kind == "path"] == named


def test_a_snapshot_adds_what_no_tool_named() -> None:
    message = answer(
        v2_tool("edit", input={"path": "a.ts"}),
        v2_tool("shell", input={"command": "make gen"}),
        snapshot={"start": "x", "end": "y", "files": [f"{APP}/a.ts", "gen.ts"]},
    )
    assert message.edits == (FileEdit(f"{APP}/a.ts", "edit"), FileEdit(f"{APP}/gen.ts", None))
    assert message.parts[-1] == Part(kind="path", text=f"{APP}/gen.ts")


def test_a_shell_message_has_the_users_command_and_its_output() -> None:
    message = decode(
        "shell",
        shellID="sh_1",
        command="git status",
        status="completed",
        exit=0,
        output={"output": "clean", "truncated": False},
        time={"created": T0, "completed": T0 + 7},
    )
    assert message.role == "shell"
    assert message.parts == (
        Part(kind="command", text="git status", status="completed", started_ms=T0, ended_ms=T0 + 7),
        Part(kind="output", text="clean"),
    )


def test_a_compaction_is_a_summary_and_a_repetition_that_is_nobodys_words() -> None:
    message = decode(
        "compaction", reason="auto", summary="## Goal", recent="[User]: go on", cost=0.1
    )
    assert message.parts == (
        Part(kind="summary", text="## Goal"),
        Part(kind="summary", text="[User]: go on", own=False),
    )
    assert (message.role, message.cost) == ("compaction", 0.1)


@pytest.mark.parametrize("kind", ["synthetic", "system", "skill", "hologram"])
def test_what_opencode_put_in_keeps_its_type_and_is_nobodys_words(kind: str) -> None:
    message = decode(kind, text="Instructions", description="From AGENTS.md")
    assert message.role == kind
    assert message.parts == (
        Part(kind="synthetic", text="Instructions", own=False),
        Part(kind="synthetic", text="From AGENTS.md", own=False),
    )


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("agent-switched", {"agent": "plan"}, ("plan", None, None)),
        ("model-switched", {"model": {"id": "m2", "providerID": "fake"}}, (None, "fake", "m2")),
        ("location-switched", {"location": {"directory": "/srv"}}, (None, None, None)),
        ("idle", {}, (None, None, None)),
    ],
)
def test_changes_of_state_have_no_text(
    kind: str, data: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    message = decode(kind, **data)
    assert (message.role, message.parts) == (kind, ())
    assert (message.agent, message.provider, message.model) == expected


def test_the_error_of_a_turn_is_its_last_part() -> None:
    message = answer(
        {"type": "text", "text": "So"}, error={"type": "unknown", "message": "Interrupted"}
    )
    assert told(message) == [("text", "So"), ("error", "Interrupted")]
    message = answer(error={"type": "provider", "message": "Busy"})
    assert told(message) == [("error", "provider: Busy")]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "state", "input", "content", "structured", "files", "file", "path",
                 "time", "created", "name", "status", "error", "message", "uri", "metadata"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(
    st.sampled_from(["user", "assistant", "shell", "compaction", "skill", "idle", "other"]),
    st.dictionaries(
        st.sampled_from(["content", "files", "agents", "output", "snapshot", "model", "tokens"]),
        ANYTHING,
    ),
    st.lists(ANYTHING, max_size=3),
)
def test_no_message_is_too_odd_to_decode(
    kind: str, data: dict[str, Any], content: list[object]
) -> None:
    for odd in (data, {**data, "content": content}):
        message = message_v2("m", kind, odd, stamp="s", row_ms=None, directory=None)
        assert message.role == kind
        assert all(isinstance(part.text, str) for part in message.parts)
