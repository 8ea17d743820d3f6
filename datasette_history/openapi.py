"""``/-/history/openapi.json``: an OpenAPI 3.1 description, made of the tools' definitions."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from datasette import Response

from datasette_history.answer_schemas import ANSWERS, COMPONENTS
from datasette_history.tools import TOOLS, Tool
from datasette_history.views import DATABASE_SCHEMA, opened, with_database
from datasette_history.web import answers_errors, json_response

if TYPE_CHECKING:
    from datasette.app import Datasette
    from datasette.utils.asgi import Request

    from datasette_history.render import Json

DESCRIPTION: Final = (
    "Past sessions of OpenCode: four tools to search and read them, each as JSON and as compact "
    "text for a language model. Nothing here changes anything. All of it needs Datasette's "
    "permission view-database on the index; an agent sends its token as a bearer token."
)

ERRORS: Final = {
    "400": "An input cannot be used; the message says which, and what to write instead",
    "403": "Not logged in, or not allowed to see the index",
    "404": "A session, message or database that is named is not there",
    "503": "There is no index yet, or the question took too long",
}


@answers_errors
async def openapi_json(datasette: Datasette, request: Request) -> Response:
    """Answer ``/-/history/openapi.json``."""
    await opened(datasette, request)
    home = str(datasette.absolute_url(request, datasette.urls.path("/")))
    return json_response(document(home.rstrip("/")))


def document(server: str) -> Json:
    """Return the description. server: address of the Datasette, without a slash behind."""
    paths: Json = {}
    for tool in TOOLS.values():
        for form in ("json", "txt"):
            answers = {"200": _answer(tool, form), **_errors(form)}
            paths[f"/-/history/{tool.name}.{form}"] = {
                "get": {**_about(tool, form, "get"), "parameters": _parameters(tool)}
                | {"responses": answers},
                "post": {**_about(tool, form, "post"), "requestBody": _body(tool)}
                | {"responses": answers},
            }
    paths["/-/history/tools.json"] = _plain("tools", "The tools with their inputs", "Tools")
    paths["/-/history/status.json"] = _plain("status", "What is indexed, and from where", "Status")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "OpenCode history",
            "version": version("datasette-history"),
            "description": DESCRIPTION,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": server}],
        "security": [{"token": []}, {"cookie": []}, {}],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "ds_actor"},
            },
        },
    }


def _about(tool: Tool, form: str, method: str) -> Json:
    words = [tool.name.replace("-", "_"), *(["text"] if form == "txt" else [])]
    words += ["post"] if method == "post" else []
    return {
        "operationId": "_".join(words),
        "summary": tool.summary + (", as text" if form == "txt" else ""),
        "description": tool.description,
    }


def _parameters(tool: Tool) -> list[Json]:
    schema = tool.input_schema()
    return [
        _query_parameter(name, inner, required=name in schema["required"])
        for name, inner in with_database(schema)["properties"].items()
    ]


def _query_parameter(name: str, schema: Json, *, required: bool) -> Json:
    plain = {key: value for key, value in schema.items() if key != "description"}
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": schema["description"],
        "schema": plain,
    }


def _body(tool: Tool) -> Json:
    return {
        "required": True,
        "content": {"application/json": {"schema": with_database(tool.input_schema())}},
    }


def _answer(tool: Tool, form: str) -> Json:
    if form == "txt":
        return {"description": "The answer", "content": {"text/plain": {"schema": _TEXT}}}
    return {
        "description": "The answer",
        "content": {"application/json": {"schema": ANSWERS[tool.name]}},
    }


def _errors(form: str) -> Json:
    content: dict[str, Any] = {
        "json": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        "txt": {"text/plain": {"schema": _TEXT}},
    }
    return {
        status: {"description": meaning, "content": content[form]}
        for status, meaning in ERRORS.items()
    }


def _plain(name: str, summary: str, schema: str) -> Json:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "parameters": [_query_parameter("database", DATABASE_SCHEMA, required=False)],
            "responses": {
                "200": {"description": "The answer", "content": content},
                **_errors("json"),
            },
        }
    }


_TEXT: Final = {"type": "string"}
