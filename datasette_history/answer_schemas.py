"""JSON Schemas of the answers that render.py spells, for openapi.json."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]


def _object(required: Schema, optional: Schema | None = None, description: str = "") -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }
    return {**schema, "description": description} if description else schema


def _list(items: Schema, description: str = "") -> Schema:
    schema: Schema = {"type": "array", "items": items}
    return {**schema, "description": description} if description else schema


def _text(description: str, *choices: str) -> Schema:
    schema: Schema = {"type": "string", "description": description}
    return {**schema, "enum": list(choices)} if choices else schema


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _number(description: str) -> Schema:
    return {"type": "integer", "description": description}


def _time(key: str, description: str) -> Schema:
    return {
        key: _number(f"{description}, in milliseconds since 1970"),
        f"{key}ISO": _or_null(_text("The same in UTC; null for years that a date cannot hold")),
    }


def _time_or_null(key: str, description: str) -> Schema:
    always = _time(key, description)
    return {**always, key: _or_null(always[key])}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


OK: Final = {"type": "boolean", "const": True}

MARKS: Final = {
    "copied": _flag("true where a fork copied the message"),
    "reverted": _flag("true where a revert undid the message"),
}

SESSION: Final = {
    "sessionID": _text("Id of the session"),
    "title": _text("Its title"),
    "projectID": _or_null(_text("Its project; null for none")),
    "directory": _or_null(_text("Where it ran")),
}

SESSION_OPTIONAL: Final = {
    "rootSessionID": _text("Session at the top of the parents of a subagent's"),
    **_time("archived", "When it was archived"),
    **_time("deleted", "When it was found deleted"),
    "stranded": _text("Why newer versions do not list it", "after-import", "perhaps-deleted"),
    "copyOf": _text("Session that it was forked from"),
    "forks": _list(_text("Fork that matches only by what it copied, and so is not listed")),
    "subagents": _list(_text("Matching subagent for which this root is listed")),
    "endUser": _text("Whom it was run for, where its title begins with a name in brackets"),
    "resume": _text("Command that continues it in its directory"),
}

UPDATED: Final = _time("updated", "Last activity")
URL: Final = {"url": _or_null(_text("Its page"))}

COMMON_OPTIONAL: Final = {
    "cappedFrom": _number("The limit that was asked for, where it was over the cap"),
    "indexing": _ref("Indexing"),
}

SEARCH_OPTIONAL: Final = {"notes": _list(_text("What to know of the answer")), **COMMON_OPTIONAL}
SEARCHED: Final = {"scope": _ref("Scope")}
MORE: Final = {"hasMore": _flag("Whether there is more than the limit let through")}

HIT: Final = _object(
    {
        "word": _text("Word or phrase of the query"),
        "messageID": _or_null(_text("First message that holds it; null for the title")),
        "role": _text("user, assistant, title, or OpenCode's own type of message"),
        **_time("timestamp", "When the message was made"),
        "excerpt": _text("Up to 300 characters around the match, … where it is cut"),
        **URL,
    },
    {"sessionID": _text("Subagent whose message it is, where its root is listed"), **MARKS},
)

EDIT: Final = _object(
    {
        **SESSION,
        "messageID": _text("Message that edited it"),
        **_time("timestamp", "When the message was made"),
        "path": _text("The file, absolute where that can be known"),
        "tool": _or_null(_text("Tool that edited it; null where only a snapshot shows it")),
        "firstEdit": _flag("Whether no earlier edit of the path is indexed within the scope"),
        "prompt": _or_null(_text("What the user had asked before, up to 300 characters")),
        "promptTruncated": _flag("Whether the prompt goes on"),
        "promptMessageID": _or_null(_text("Message of the prompt")),
        **URL,
    },
    {**SESSION_OPTIONAL, **MARKS},
)

MESSAGE: Final = _object(
    {
        "messageID": _text("Id of the message"),
        "role": _text("Who said it", "user", "assistant"),
        **_time("timestamp", "When it was made"),
        "content": _text("What was said, tool calls as [tool: NAME]"),
        "truncated": _flag("Whether content was cut at maxCharsPerMessage"),
        "toolResultsOmitted": _flag("Whether results of tools were left out"),
        "otherContentOmitted": _flag("Whether it has something that is never shown"),
        **URL,
    },
    {
        **MARKS,
        "onlyIn": _text("Older copy of the session that alone still has it", "json", "v1", "v2"),
    },
)

PROJECT: Final = _object(
    {
        "projectID": _or_null(_text("Id of the project; null for none")),
        "directories": _list(_text("Where its sessions ran")),
        "sessions": _number("How many sessions match"),
    },
    {"directoriesOmitted": _number("How many more directories there are")},
)

SOURCE: Final = _object(
    {
        "id": _number("Number of the source"),
        "kind": _text("api, db, storage, or a plugin's own"),
        "location": _text("Path or address"),
        **_time_or_null("lastSync", "When its last complete listing began"),
        "sessions": _number("Sessions that it holds"),
        "error": _or_null(_text("What went wrong in the last sync")),
    }
)

COMPONENTS: Final[dict[str, Schema]] = {
    "Session": _object({**SESSION, **UPDATED, **URL}, SESSION_OPTIONAL),
    "Hit": HIT,
    "Edit": EDIT,
    "Message": MESSAGE,
    "Project": PROJECT,
    "Source": SOURCE,
    "Scope": _object(
        {"all": _flag("Whether every session was searched")},
        {
            "projectIDs": _list(_text("Projects that were searched")),
            "directories": _list(_text("Directories without a project that were searched")),
        },
        "What was searched.",
    ),
    "Indexing": _object(
        {
            "running": _flag("Whether a sync is running"),
            "everCompleted": _flag("Whether one has ever finished"),
            "planned": _or_null(_number("Sessions to refresh; null while they are listed")),
            "done": _number("Sessions refreshed"),
            "note": _text("The same in words"),
        },
        description="How far the index is filled; only there while it is not complete.",
    ),
    "Error": _object(
        {
            "ok": {"type": "boolean", "const": False},
            "error": _text("What is wrong, and what to do"),
            "errors": _list(_text("The same, piece by piece")),
            "status": _number("The HTTP status"),
        }
    ),
    "Status": _object(
        {
            "ok": OK,
            "database": _text("Name of the attached index"),
            "sources": _list(_ref("Source")),
            "counts": _object(
                {
                    name: _number(f"Number of {name}")
                    for name in ("sessions", "projects", "messages", "edits", "problems")
                }
            ),
            "stranded": {"type": "object", "additionalProperties": {"type": "integer"}},
            **_time_or_null("lastSync", "When a sync last finished"),
            "running": _flag("Whether a sync is running"),
        },
        {"indexing": _ref("Indexing")},
    ),
    "Tools": _object(
        {
            "ok": OK,
            "tools": _list(
                _object(
                    {
                        "name": _text("Name of the tool"),
                        "summary": _text("One line"),
                        "description": _text("All there is to know"),
                        "url": _text("Where it answers"),
                        "inputSchema": {"type": "object"},
                    }
                )
            ),
        }
    ),
}

ANSWERS: Final[dict[str, Schema]] = {
    "search-messages": _object(
        {
            "ok": OK,
            "sessions": _list(
                _object(
                    {**SESSION, **UPDATED, **URL, "hits": _list(_ref("Hit"))}, SESSION_OPTIONAL
                ),
                "Newest first",
            ),
            **MORE,
            **SEARCHED,
        },
        SEARCH_OPTIONAL,
    ),
    "search-sessions": {
        "anyOf": [
            _object(
                {"ok": OK, "sessions": _list(_ref("Session"), "Newest first"), **MORE, **SEARCHED},
                SEARCH_OPTIONAL,
            ),
            _object(
                {"ok": OK, "projects": _list(_ref("Project"), "Largest first"), **MORE, **SEARCHED},
                SEARCH_OPTIONAL,
            ),
        ]
    },
    "search-edits": _object(
        {"ok": OK, "edits": _list(_ref("Edit"), "Newest first"), **MORE, **SEARCHED},
        SEARCH_OPTIONAL,
    ),
    "read": _object(
        {
            "ok": OK,
            **SESSION,
            **UPDATED,
            **URL,
            "messages": _list(_ref("Message"), "In their order"),
            "nextCursor": _or_null(_text("Cursor that goes on; null at the end")),
        },
        {
            "anchorIncluded": _flag("Whether messageID is among the messages"),
            **SESSION_OPTIONAL,
            **COMMON_OPTIONAL,
        },
    ),
}
