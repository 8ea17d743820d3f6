"""The examples of docs/agents.md, so that tests run what people will paste."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "agents.md"


def recipe(name: str) -> str:
    """Return the code block behind the comment that names it."""
    page = PAGE.read_text(encoding="utf-8")
    fenced = rf"^<!-- {re.escape(name)} -->\n```\w*\n(.*?)^```$"
    [block] = re.findall(fenced, page, re.MULTILINE | re.DOTALL)
    return str(block)


def json_recipe(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(recipe(name))
    return found
