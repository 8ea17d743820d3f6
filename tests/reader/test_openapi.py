"""The OpenAPI description: valid, complete, and true of what the server answers."""

from __future__ import annotations

import asyncio
import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from datasette.app import Datasette
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from datasette_history.openapi import document
from datasette_history.tools import TOOLS
from tests.builders import fill
from tests.history import build
from tests.servers import running
from tests.test_same_answers import CASES

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
EXAMPLES = 20
"""Generated requests for each of the operations."""

KNOWN_VALUES = """
[parameters]
sessionID = ["ses_login", "ses_theme", "ses_child"]
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    index = build(tmp_path_factory.mktemp("openapi") / "history.db")
    datasette = Datasette([str(index)])
    asyncio.run(datasette.invoke_startup())
    with running(datasette.app()) as address:
        yield address


@pytest.fixture(scope="module")
def description(address: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{address}/-/history/openapi.json").json()
    return found


def test_description_is_valid_openapi(description: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(description).validate()


def test_description_is_what_the_module_makes_of_the_servers_address(
    address: str, description: dict[str, Any]
) -> None:
    assert description == json.loads(json.dumps(document(address)))


def test_every_tool_is_there_with_its_own_inputs(description: dict[str, Any]) -> None:
    for tool in TOOLS.values():
        schema = tool.input_schema()
        names = [*schema["properties"], "database"]
        for form in ("json", "txt"):
            path = description["paths"][f"/-/history/{tool.name}.{form}"]
            assert [given["name"] for given in path["get"]["parameters"]] == names
            required = {given["name"] for given in path["get"]["parameters"] if given["required"]}
            assert required == set(schema["required"])
            body = path["post"]["requestBody"]["content"]["application/json"]["schema"]
            assert body["properties"].items() >= schema["properties"].items()
            assert body["additionalProperties"] is False


def test_operation_ids_are_unique(description: dict[str, Any]) -> None:
    ids = [one["operationId"] for path in description["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids)) == 18


def closed(value: Any) -> Any:
    """Return a schema that allows no key but those it describes."""
    if isinstance(value, list):
        return [closed(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    inside = {key: closed(inner) for key, inner in value.items()}
    if inside.get("type") == "object" and "properties" in inside:
        inside["additionalProperties"] = False
    return inside


def validator(description: dict[str, Any], path: str, status: int) -> Draft202012Validator:
    content = description["paths"][path]["get"]["responses"][str(status)]["content"]
    schema = copy.deepcopy(content["application/json"]["schema"])
    return Draft202012Validator(
        closed({**schema, "components": description["components"]}),
    )


@pytest.mark.parametrize("case", CASES)
def test_no_answer_says_more_or_less_than_described(
    address: str, description: dict[str, Any], case: str
) -> None:
    tool, inputs = CASES[case]
    path = f"/-/history/{tool}.json"
    answer = httpx.get(address + path, params=inputs)
    validator(description, path, answer.status_code).validate(answer.json())


@pytest.mark.parametrize("path", ["/-/history/status.json", "/-/history/tools.json"])
def test_plain_answers_say_what_is_described(
    address: str, description: dict[str, Any], path: str
) -> None:
    validator(description, path, 200).validate(httpx.get(address + path).json())


def test_schemas_are_strict_enough_to_fail(address: str, description: dict[str, Any]) -> None:
    path = "/-/history/read.json"
    answer = httpx.get(address + path, params={"sessionID": "ses_login"}).json()
    checked = validator(description, path, 200)
    assert checked.is_valid(answer)
    assert not checked.is_valid({**answer, "surplus": 1})
    assert not checked.is_valid({key: answer[key] for key in answer if key != "nextCursor"})
    answer["messages"][0]["timestamp"] = "today"
    assert not checked.is_valid(answer)


def test_description_is_as_private_as_the_index(tmp_path: Path) -> None:
    datasette = Datasette([str(fill(tmp_path / "history.db"))], metadata={"allow": False})

    async def status() -> int:
        await datasette.invoke_startup()
        code: int = (await datasette.client.get("/-/history/openapi.json")).status_code
        return code

    assert asyncio.run(status()) == 403


def test_generated_requests_break_neither_the_server_nor_the_description(
    address: str, tmp_path: Path
) -> None:
    (tmp_path / "schemathesis.toml").write_text(KNOWN_VALUES, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()",
            "--no-color", "run", f"{address}/-/history/openapi.json",
            "--phases", "fuzzing", "--max-examples", str(EXAMPLES), "--generation-deterministic",
            "--checks", ",".join(CHECKS), "--workers", "1",
        ],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Tested: 18" in done.stdout
