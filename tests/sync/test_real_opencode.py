"""Real OpenCode at work while ``watch`` runs: found, renamed and gone within five seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.opencode_real import PASSWORD, RealOpenCode, opencode_binary, real_opencode
from tests.sync.watching import command, eventually, found, read_until, require_sound, rows

QUICK_S = 5.0


@pytest.fixture(scope="module")
def opencode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealOpenCode]:
    with real_opencode(opencode_binary(), tmp_path_factory.mktemp("opencode")) as server:
        yield server


def calls(*tools: tuple[str, dict[str, str]]) -> str:
    return f"CALLS: {json.dumps(tools)}"


@pytest.mark.parametrize("watched", ["service", "database", "both"])
def test_what_happens_in_opencode_is_found_within_seconds(
    opencode: RealOpenCode, tmp_path: Path, watched: str
) -> None:
    index = tmp_path / "history.db"
    service, database = ["--url", opencode.url], ["--db", str(opencode.database)]
    words = {"service": service, "database": database, "both": service + database}[watched]
    before = opencode.session(f"{watched}: before")
    opencode.prompt(before, f"the {watched} pelican was here first")
    variables = {"OPENCODE_SERVER_PASSWORD": PASSWORD}
    with command(tmp_path, "watch", "--index", index, *words, **variables) as process:
        read_until(process, "Watching for changes")
        assert found(index, f"the {watched} pelican was here first") == [before]

        file = opencode.work / f"{watched}.txt"
        session = opencode.session(f"{watched}: a walrus")
        write = ("write", {"filePath": str(file), "content": f"{watched} ibex\n"})
        bash = ("bash", {"command": f"echo {watched} $((6 * 7))", "description": "Count"})
        opencode.prompt(session, f"write about the {watched} ibex\n{calls(write, bash)}")
        answer = f"Done with write about the {watched} ibex"
        assert eventually(lambda: found(index, answer) == [session]) < QUICK_S
        assert found(index, f"{watched} 42") == [session]
        edits = "SELECT path, tool FROM file_edits WHERE session_id = ?"
        assert (str(file), "write") in rows(index, edits, session)

        opencode.prompt(session, f"and about the {watched} quokka")
        assert eventually(lambda: found(index, f"the {watched} quokka") == [session]) < QUICK_S
        opencode.rename(session, f"{watched}: renamed")
        assert eventually(lambda: found(index, f"{watched}: renamed") == [session]) < QUICK_S
        assert found(index, f"{watched}: a walrus") == []
        opencode.delete(session)
        assert eventually(lambda: found(index, f"{watched} ibex") == []) < QUICK_S
        assert found(index, f"the {watched} pelican was here first") == [before]

        process.terminate()
        output, _ = process.communicate(timeout=20)
        assert (process.returncode, output) == (0, "")
    require_sound(index)


def test_a_session_of_the_early_v2_api_is_found_too(opencode: RealOpenCode, tmp_path: Path) -> None:
    index = tmp_path / "history.db"
    opencode.prompt(opencode.session("warm"), "wake up")
    variables = {"OPENCODE_SERVER_PASSWORD": PASSWORD}
    words = ("watch", "--index", index, "--url", opencode.url)
    with command(tmp_path, *words, **variables) as process:
        read_until(process, "Watching for changes")
        session = opencode.early_session()
        opencode.early_prompt(session, "the early narwhal")
        eventually(lambda: "Done with the early narwhal" in opencode.early_messages(session))
        assert (
            eventually(lambda: found(index, "Done with the early narwhal") == [session]) < QUICK_S
        )
        opencode.delete(session)
        assert eventually(lambda: found(index, "early narwhal") == []) < QUICK_S
