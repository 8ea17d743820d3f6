"""Logins, tokens and the files that hold them."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from sync.cli.door import LoginLinks, build_datasette
from sync.cli.guard import LOOPBACK_HOSTS, Guard
from sync.errors import IndexUnusable
from sync.private_files import AGENT_TOKEN, COOKIE_SECRET, private_text, secret_text, write_private
from tests.builders import copy, fill, session, user
from tests.servers import running

HISTORY = "/-/history/search-messages.json?query=secret"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def make_index(folder: Path) -> Path:
    return fill(folder / "history.db", copy(session("s"), user("m", "secret words")))


def test_each_login_link_lets_one_browser_in_and_then_comes_another(tmp_path: Path) -> None:
    datasette = build_datasette(make_index(tmp_path), sample=False, open_access=False)
    asyncio.run(datasette.invoke_startup())
    links: list[str] = []
    app = LoginLinks(datasette.app(), datasette, "", links.append)
    with running(Guard(app, LOOPBACK_HOSTS)) as address:
        for number in range(2):
            with httpx.Client(base_url=address) as browser:
                assert browser.get(HISTORY).status_code == 403
                assert browser.get(links[number]).status_code == 302
                assert browser.get(HISTORY).status_code == 200
        for used in links[:2]:
            assert httpx.get(address + used).status_code == 403
        assert httpx.get(f"{address}/-/auth-token?token=").status_code == 403
    assert len(links) == len(set(links)) == 3


@pytest.mark.asyncio
async def test_the_token_is_on_no_page_and_in_no_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    datasette = build_datasette(make_index(tmp_path), sample=False, open_access=False)
    await datasette.invoke_startup()
    token = (tmp_path / AGENT_TOKEN).read_text()
    secret = (tmp_path / COOKIE_SECRET).read_text()
    transport = httpx.ASGITransport(app=Guard(datasette.app(), LOOPBACK_HOSTS))
    headers = {"authorization": f"Bearer {token}"}
    said = ""
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for path in (
            "/-/metadata.json", "/-/metadata", "/-/config.json", "/-/plugins.json?all=1",
            "/-/settings.json", "/-/actor.json", "/none", "/history/none.json",
            "/history.json?sql=select+nothing", HISTORY,
        ):  # fmt: skip
            said += (await client.get(path, headers=headers)).text
        assert (await client.get(HISTORY, headers=headers)).status_code == 200
        wrong = {"authorization": "Bearer größe".encode()}
        assert (await client.get(HISTORY, headers=wrong)).status_code == 403
    printed = "".join(capfd.readouterr())
    for known in (token, secret):
        assert known not in said
        assert known not in printed


def test_a_secret_is_made_once_private_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    old = os.umask(0)
    try:
        secret = secret_text(path)
    finally:
        os.umask(old)
    assert len(secret) == 43
    assert secret_text(path) == secret == path.read_text()
    assert mode(path) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["secret"]


def test_a_secret_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("of-an-editor\n")
    path.chmod(0o644)
    assert secret_text(path) == "of-an-editor" == path.read_text()
    assert mode(path) == 0o600


def test_an_empty_secret_is_never_used(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(" \n")
    assert len(secret_text(path)) == 43
    assert mode(path) == 0o600


def test_a_link_in_place_of_a_secret_is_refused_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("known to others")
    target.chmod(0o644)
    link = tmp_path / "secret"
    for of in (target, tmp_path / "missing"):
        link.unlink(missing_ok=True)
        link.symlink_to(of)
        with pytest.raises(IndexUnusable, match="no link"):
            secret_text(link)
    assert (target.read_text(), mode(target)) == ("known to others", 0o644)
    assert not (tmp_path / "missing").exists()


def test_a_pipe_in_place_of_a_secret_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "secret")
    with pytest.raises(IndexUnusable, match="not a file of this user"):
        secret_text(tmp_path / "secret")


@pytest.mark.skipif(os.geteuid() != 0, reason="not applicable: only root can give files away")
def test_a_secret_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("planted")
    os.chown(path, 12345, 12345)
    with pytest.raises(IndexUnusable, match="not a file of this user"):
        secret_text(path)


def test_two_servers_that_start_at_once_agree_on_the_secret(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sync.private_files import secret_text; "
        "sys.stdin.readline(); print(secret_text(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "secret")]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    answers = {process.communicate("go\n", timeout=60)[0].strip() for process in processes}
    assert answers == {(tmp_path / "secret").read_text()}


def test_a_private_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "list"
    assert private_text(path) is None
    write_private(path, "one")
    write_private(path, "two")
    assert (private_text(path), mode(path)) == ("two", 0o600)
    with pytest.raises(IndexUnusable, match="cannot be written"):
        write_private(tmp_path / "missing" / "list", "three")
    assert [p.name for p in tmp_path.iterdir()] == ["list"]
