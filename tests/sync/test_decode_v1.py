"""Messages of V1 as plain values: what is searchable, whose words it is, which files it edits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sync.decode_v1 import message_v1
from sync.model import FileEdit, Message, Part, Tokens
from tests.builders import T0
from tests.opencode_stores import tool

APP = "/home/dev/app"


def decode(role: str, *parts: object, directory: str | None = APP, **data: object) -> Message:
    return message_v1(
        "msg_1", {"role": role, **data}, parts, stamp="v1:1", row_ms=T0, directory=directory
    )


def told(message: Message) -> list[tuple[str, str]]:
    return [(part.kind, part.text) for part in message.parts]


def test_an_assistants_message_has_all_its_figures() -> None:
    message = decode(
        "assistant",
        {"type": "text", "text": "Done."},
        parentID="msg_0",
        providerID="fake",
        modelID="think",
        agent="build",
        mode="plan",
        cost=0.25,
        tokens={"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 7, "write": 3}},
        time={"created": T0 + 5, "completed": T0 + 9},
        finish="stop",
    )
    assert message == Message(
        id="msg_1",
        role="assistant",
        created_ms=T0 + 5,
        stamp="v1:1",
        agent="build",
        provider="fake",
        model="think",
        cost=0.25,
        tokens=Tokens(input=10, output=5, reasoning=2, cache_read=7, cache_write=3),
        finish="stop",
        parts=(Part(kind="text", text="Done."),),
    )


def test_a_users_message_names_its_model_in_an_object_and_costs_nothing() -> None:
    message = decode("user", agent="plan", model={"providerID": "fake", "modelID": "m"})
    assert (message.agent, message.provider, message.model) == ("plan", "fake", "m")
    assert (message.cost, message.tokens, message.finish) == (None, None, None)
    assert message.created_ms == T0


def test_the_mode_stands_for_the_agent_of_older_versions() -> None:
    assert decode("assistant", mode="build").agent == "build"


def test_synthetic_and_ignored_text_is_nobodys_words() -> None:
    message = decode(
        "user",
        {"type": "text", "text": "Fix it"},
        {"type": "text", "text": "Called the Read tool", "synthetic": True},
        {"type": "text", "text": "/compact", "ignored": True},
        {"type": "text", "text": ""},
    )
    assert message.parts == (
        Part(kind="text", text="Fix it"),
        Part(kind="synthetic", text="Called the Read tool", own=False),
        Part(kind="synthetic", text="/compact", own=False),
    )


def test_the_text_of_a_compaction_is_a_summary_and_its_thoughts_are_not() -> None:
    parts = [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "## Goal"}]
    assert told(decode("assistant", *parts, summary=True)) == [
        ("reasoning", "Hm."),
        ("summary", "## Goal"),
    ]
    # The summary of a user's message is an object about the diffs.
    assert told(decode("user", *parts, summary={"diffs": []})) == [
        ("reasoning", "Hm."),
        ("text", "## Goal"),
    ]


def test_a_completed_call_has_a_row_for_its_name_each_input_and_its_output() -> None:
    message = decode(
        "assistant",
        tool(
            "bash",
            input={"command": 'print("x")', "timeout": 60000, "quiet": True, "env": None},
            output="x\n",
            title="Print",
            metadata={"output": "x\n", "description": "twice"},
            time={"start": T0, "end": T0 + 30},
        ),
    )
    assert message.parts == (
        Part(
            kind="tool",
            text="bash",
            name="bash",
            call=0,
            title="Print",
            status="completed",
            started_ms=T0,
            ended_ms=T0 + 30,
        ),
        Part(kind="input", text='print("x")', name="command", call=0),
        Part(kind="input", text="60000", name="timeout", call=0),
        Part(kind="input", text="true", name="quiet", call=0),
        Part(kind="output", text="x\n", call=0),
    )


def test_nested_inputs_are_named_by_their_place() -> None:
    message = decode(
        "assistant",
        tool(
            "question",
            input={"questions": [{"header": "Queue", "options": ["a", {"label": "b"}]}, "plain"]},
        ),
    )
    assert [(part.name, part.text) for part in message.parts if part.kind == "input"] == [
        ("questions[0].header", "Queue"),
        ("questions[0].options[0]", "a"),
        ("questions[0].options[1].label", "b"),
        ("questions[1]", "plain"),
    ]


def test_an_input_of_very_many_values_is_one_text() -> None:
    wide = decode("assistant", tool("x", input={"rows": [f"row {n}" for n in range(65)]}))
    assert [part for part in wide.parts if part.kind == "input"] == [
        Part(kind="input", text="\n".join(f"row {n}" for n in range(65)), name="", call=0)
    ]
    less = decode("assistant", tool("x", input={"rows": [f"row {n}" for n in range(64)]}))
    assert len([part for part in less.parts if part.kind == "input"]) == 64


def test_a_long_to_do_list_keeps_a_row_for_each_value() -> None:
    todos = [{"content": f"step {n}", "status": "pending"} for n in range(100)]
    message = decode("assistant", tool("todowrite", input={"todos": todos}))
    rows = [(part.name, part.text) for part in message.parts if part.kind == "input"]
    assert rows[-2:] == [("todos[99].content", "step 99"), ("todos[99].status", "pending")]
    assert len(rows) == 200


def test_calls_are_numbered() -> None:
    message = decode(
        "assistant",
        tool("read", input={"filePath": "a"}, output="A"),
        {"type": "text", "text": "and"},
        tool("read", input={"filePath": "b"}, output="B"),
    )
    assert [(part.kind, part.call) for part in message.parts] == [
        ("tool", 0), ("input", 0), ("output", 0), ("text", None),
        ("tool", 1), ("input", 1), ("output", 1),
    ]  # fmt: skip


def test_a_failed_call_has_its_error_and_edits_nothing() -> None:
    message = decode(
        "assistant",
        tool(
            "edit",
            "error",
            input={"filePath": f"{APP}/a.ts"},
            error="oldString not found in content",
        ),
    )
    assert told(message) == [
        ("tool", "edit"),
        ("input", f"{APP}/a.ts"),
        ("error", "oldString not found in content"),
    ]
    assert message.edits == ()


def test_a_running_command_has_what_it_printed_so_far() -> None:
    running = tool("bash", "running", input={"command": "sleep"}, metadata={"output": "row 1\n"})
    assert told(decode("assistant", running)) == [
        ("tool", "bash"),
        ("input", "sleep"),
        ("output", "row 1\n"),
    ]


def test_a_pending_call_has_the_input_as_far_as_it_was_written() -> None:
    message = decode("assistant", tool("edit", "pending", input={}, raw='{"filePath": "a.t'))
    assert told(message) == [("tool", "edit"), ("input", '{"filePath": "a.t')]
    assert message.parts[0].status == "pending"
    assert message.edits == ()


def test_an_invalid_call_is_a_failed_call_of_the_tool_that_was_meant() -> None:
    error = "Model tried to call unavailable tool 'write_all'."
    answer = f"The arguments provided to the tool are invalid: {error}"
    message = decode(
        "assistant",
        tool(
            "invalid",
            input={"tool": "write", "error": error, "filePath": "a.ts"},
            output=answer,
            title="Invalid Tool",
        ),
    )
    assert told(message) == [("tool", "write"), ("input", "a.ts"), ("error", answer)]
    assert (message.parts[0].name, message.parts[0].status) == ("write", "error")
    assert message.edits == ()


def test_attachments_go_by_their_names_and_encoded_ones_by_their_kind() -> None:
    message = decode(
        "user",
        {
            "type": "file",
            "mime": "image/png",
            "filename": "shot.png",
            "url": "data:image/png;base64,AA==",
        },
        {"type": "file", "mime": "text/plain", "url": "file:///home/dev/app/a%20b.ts?start=4"},
        {"type": "file", "mime": "image/png", "url": "data:image/png;base64,iVBORw0KGgo="},
        {"type": "file"},
    )
    assert [(part.kind, part.name, part.text) for part in message.parts] == [
        ("file", "image/png", "shot.png"),
        ("file", "text/plain", "a b.ts"),
        ("file", "image/png", "[image/png, 8 B]"),
        ("file", None, ""),
    ]


def test_files_that_a_tool_returned_belong_to_its_call() -> None:
    attachment = {"type": "file", "mime": "image/png", "filename": "shot.png", "url": "data:,"}
    message = decode("assistant", tool("browser", output="ok", attachments=[attachment, 5]))
    assert message.parts[2:] == (
        Part(kind="file", text="shot.png", name="image/png", call=0),
        Part(kind="file", text="", call=0),
    )


def test_the_other_parts_of_a_message() -> None:
    message = decode(
        "assistant",
        {"type": "step-start", "snapshot": "abc"},
        {"type": "agent", "name": "explore", "source": {"value": "@explore"}},
        {"type": "subtask", "prompt": "Audit src", "description": "Audit", "agent": "explore"},
        {"type": "retry", "attempt": 1, "error": {"name": "APIError", "data": {"message": "busy"}}},
        {"type": "compaction", "auto": True},
        {"type": "snapshot", "snapshot": "abc"},
        {"type": "step-finish", "cost": 7.0, "tokens": {"input": 9}},
        {"type": "hologram", "text": "of a later version"},
        {"type": "hologram"},
        cost=0.5,
    )
    assert message.parts == (
        Part(kind="agent", text="explore"),
        Part(kind="subtask", text="Audit src", name="explore", title="Audit"),
        Part(kind="retry", text="APIError: busy", own=False),
        Part(kind="text", text="of a later version", own=False),
    )
    assert (message.cost, message.tokens) == (0.5, None)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            {"name": "MessageAbortedError", "data": {"message": "Aborted"}},
            "MessageAbortedError: Aborted",
        ),
        ({"name": "Unknown", "data": {}}, "Unknown"),
        ({"data": {"message": "only this"}}, "only this"),
        ("plain", "plain"),
    ],
)
def test_the_error_of_a_message_is_its_last_part(error: object, text: str) -> None:
    message = decode("assistant", {"type": "text", "text": "So far"}, error=error)
    assert told(message) == [("text", "So far"), ("error", text)]


EDITS: list[Any] = [
    pytest.param(
        tool("edit", input={"filePath": "/x/a.ts", "newString": "1"}), ["/x/a.ts"], [], id="edit"
    ),
    pytest.param(
        tool("write", input={"file_path": "src/a.ts"}),
        [f"{APP}/src/a.ts"],
        [],
        id="write-snake-case",
    ),
    pytest.param(
        tool(
            "edit",
            input={"filePath": "src/a.ts"},
            metadata={"filediff": {"file": f"{APP}/src/a.ts"}},
        ),
        [f"{APP}/src/a.ts"],
        [],
        id="metadata-repeats-the-input",
    ),
    pytest.param(
        tool("write", input={}, metadata={"filepath": f"{APP}/b.ts"}),
        [f"{APP}/b.ts"],
        [f"{APP}/b.ts"],
        id="metadata-alone",
    ),
    pytest.param(
        tool(
            "multiedit",
            input={"filePath": "a.ts", "edits": [{"filePath": "b.ts"}, {"newString": "x"}]},
            metadata={
                "results": [
                    {"filediff": {"file": f"{APP}/a.ts"}},
                    {"metadata": {"filepath": "c.ts"}},
                ]
            },
        ),
        [f"{APP}/a.ts", f"{APP}/b.ts", f"{APP}/c.ts"],
        [f"{APP}/c.ts"],
        id="multiedit",
    ),
    pytest.param(
        tool(
            "apply_patch",
            input={"patchText": "*** Begin Patch\n*** Update File: a.ts\n*** Move to: b.ts\n"},
            metadata={
                "files": [
                    {
                        "filePath": f"{APP}/a.ts",
                        "relativePath": "a.ts",
                        "type": "move",
                        "movePath": f"{APP}/b.ts",
                    },
                    {"filePath": f"{APP}/c.ts", "relativePath": "c.ts", "type": "add"},
                ]
            },
        ),
        [f"{APP}/a.ts", f"{APP}/b.ts", f"{APP}/c.ts"],
        [f"{APP}/c.ts"],
        id="patch",
    ),
    pytest.param(
        tool("edit", input={"filePath": "C:\\repo\\a.ts"}), ["C:/repo/a.ts"], [], id="windows"
    ),
    pytest.param(tool("read", input={"filePath": "/x/a.ts"}), [], [], id="read"),
    pytest.param(
        tool("bash", input={"path": "/x/a.ts"}, metadata={"files": ["/x/b.ts"]}), [], [], id="bash"
    ),
    pytest.param(tool("edit", "running", input={"filePath": "/x/a.ts"}), [], [], id="running"),
    pytest.param(
        tool("edit", input={"filePath": 5}, metadata={"files": [None, {}], "results": 3}),
        [],
        [],
        id="types",
    ),
]


@pytest.mark.parametrize(("part", "edited", "named"), EDITS)
def test_files_that_a_call_edited(part: object, edited: list[str], named: list[str]) -> None:
    """edited: all of them; named: those that no input names, which become parts."""
    message = decode("assistant", part)
    name = part["tool"] if isinstance(part, dict) else ""
    assert message.edits == tuple(FileEdit(path, name) for path in edited)
    assert [(part.text, part.call) for part in message.parts if part.kind == "path"] == [
        (path, 0) for path in named
    ]


def test_a_snapshot_adds_what_no_tool_named() -> None:
    message = decode(
        "assistant",
        {
            "type": "patch",
            "hash": "abc",
            "files": [f"{APP}/a.ts", f"{APP}/gen.ts", 7, f"{APP}/gen.ts"],
        },
        tool("edit", input={"filePath": "a.ts"}),
        tool("edit", "error", input={"filePath": "broken.ts"}, error="no"),
        {"type": "patch", "hash": "def", "files": [f"{APP}/broken.ts"]},
    )
    assert message.edits == (
        FileEdit(f"{APP}/a.ts", "edit"),
        FileEdit(f"{APP}/gen.ts", None),
        FileEdit(f"{APP}/broken.ts", None),
    )
    assert [part for part in message.parts if part.kind == "path"] == [
        Part(kind="path", text=f"{APP}/gen.ts")
    ]


def test_a_snapshot_path_of_windows_is_found_as_it_is_typed_there() -> None:
    message = decode("assistant", {"type": "patch", "files": ["C:\\repo\\a.ts"]})
    assert message.parts == (Part(kind="path", text="C:\\repo\\a.ts"),)
    assert message.edits == (FileEdit("C:/repo/a.ts", None),)


def test_without_a_directory_relative_paths_stay_so() -> None:
    message = decode("assistant", tool("edit", input={"filePath": "./a.ts"}), directory=None)
    assert message.edits == (FileEdit("a.ts", "edit"),)


def test_nothing_is_told_twice() -> None:
    diff = "--- a.ts\n+++ a.ts\n-old\n+new"
    message = decode(
        "assistant",
        tool(
            "edit",
            input={"filePath": "a.ts", "oldString": "old", "newString": "new"},
            output="Edit applied successfully.",
            metadata={
                "diff": diff,
                "filediff": {"file": f"{APP}/a.ts", "before": "old", "after": "new"},
                "preview": "new",
                "diagnostics": {},
            },
        ),
    )
    assert told(message) == [
        ("tool", "edit"), ("input", "a.ts"), ("input", "old"), ("input", "new"),
        ("output", "Edit applied successfully."),
    ]  # fmt: skip


def test_encoded_data_is_told_by_its_size_everywhere() -> None:
    image = "data:image/png;base64," + "iVBORw0KGgoA" * 100
    message = decode(
        "assistant",
        {"type": "text", "text": f"see {image}"},
        tool("fetch", input={"url": image}, output=f"got {image}", error=image),
    )
    assert told(message) == [
        ("text", "see [image/png, 900 B]"), ("tool", "fetch"), ("input", "[image/png, 900 B]"),
        ("output", "got [image/png, 900 B]"), ("error", "[image/png, 900 B]"),
    ]  # fmt: skip


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "state",
                    "input",
                    "output",
                    "status",
                    "time",
                    "created",
                    "start",
                    "files",
                    "filePath",
                    "metadata",
                    "tool",
                    "role",
                    "model",
                    "cost",
                    "tokens",
                    "cache",
                    "error",
                    "name",
                    "data",
                    "message",
                    "url",
                    "summary",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
TYPES = st.sampled_from(
    [
        "text",
        "reasoning",
        "tool",
        "file",
        "patch",
        "agent",
        "subtask",
        "retry",
        "compaction",
        "snapshot",
        "other",
    ]
)


@given(st.dictionaries(st.text(max_size=8), ANYTHING), st.lists(st.tuples(TYPES, ANYTHING)))
def test_no_message_is_too_odd_to_decode(
    data: dict[str, Any], parts: list[tuple[str, object]]
) -> None:
    odd = [{**value, "type": kind} if isinstance(value, dict) else value for kind, value in parts]
    message = message_v1("m", data, odd, stamp="s", row_ms=None, directory=APP)
    assert message.id == "m"
    assert all(isinstance(part.text, str) for part in message.parts)
    assert len({edit.path for edit in message.edits}) == len(message.edits)


def test_figures_of_which_no_sum_could_be_taken_are_noise() -> None:
    message = decode(
        "assistant",
        cost=1e308,
        tokens={"input": 2**63 - 1, "output": -5, "reasoning": 10**15, "cache": {"read": 1e16}},
    )
    assert message.cost is None
    assert message.tokens == Tokens(
        input=0, output=0, reasoning=10**15, cache_read=0, cache_write=0
    )
