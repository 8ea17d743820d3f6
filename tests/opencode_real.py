"""Real OpenCode from npm, served to a test with a scripted model instead of a language model.

A prompt that holds ``CALLS: [["write", {"filePath": "a.txt", "content": "x"}]]`` makes the
model call those tools; then it answers "Done with" and the prompt's first line.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

VERSION = "1.18.33"
CACHE_VARIABLE = "HISTORY_TEST_CACHE"
START_S = 90
PASSWORD = "s3cret"

Json = dict[str, Any]


def opencode_binary() -> Path:
    """Return the executable, installed once per machine; skip the test where that cannot be."""
    for program in ("npm", "rg", "git"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on PATH")
    cache = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache/datasette-history-tests")
    folder = cache / f"opencode-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _binaries(folder):
            done = subprocess.run(
                ["npm", "install", f"opencode-ai@{VERSION}", "--prefix", str(folder),
                 "--no-audit", "--no-fund", "--ignore-scripts"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                pytest.skip(f"npm could not install OpenCode: {done.stderr[-300:]}")
    for binary in _binaries(folder):
        # The package for newer processors does not run on older ones.
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
        if done.stdout.strip() == VERSION:
            return binary
    pytest.skip("not applicable: npm has no OpenCode that runs on this machine")


def _binaries(folder: Path) -> list[Path]:
    return sorted(folder.glob("node_modules/opencode-*-*/bin/opencode"))


class RealOpenCode:
    """A running server. home: its HOME; work: a git repository that it works in."""

    def __init__(self, home: Path, work: Path, url: str) -> None:
        self.home = home
        self.work = work
        self.http = httpx.Client(
            base_url=url, auth=("opencode", PASSWORD), timeout=60, trust_env=False
        )
        self.url = url
        self.database = home / ".local/share/opencode/opencode.db"

    def session(self, title: str) -> str:
        made: Json = self._send("POST", "/session", {"title": title})
        return str(made["id"])

    def prompt(self, session_id: str, text: str) -> Json:
        """Send a prompt and return the last answer, once its turn has ended."""
        body = {"parts": [{"type": "text", "text": text}]}
        answer: Json = self._send("POST", f"/session/{session_id}/message", body)
        return answer

    def rename(self, session_id: str, title: str) -> None:
        self._send("PATCH", f"/session/{session_id}", {"title": title})

    def delete(self, session_id: str) -> None:
        self._send("DELETE", f"/session/{session_id}", None)

    # 1.18's early V2 API, which keeps its messages apart

    def early_session(self) -> str:
        body = {
            "location": {"directory": str(self.work)},
            "model": {"id": "m", "providerID": "scripted"},
        }
        made: Json = self._send("POST", "/api/session", body)
        return str(made["data"]["id"])

    def early_prompt(self, session_id: str, text: str) -> None:
        """Send a prompt; unlike prompt(), this does not wait for the answer."""
        self._send("POST", f"/api/session/{session_id}/prompt", {"prompt": {"text": text}})

    def early_messages(self, session_id: str) -> str:
        """Return the session's messages as JSON text."""
        return json.dumps(self._send("GET", f"/api/session/{session_id}/message", None))

    def _send(self, method: str, path: str, body: Json | None) -> Any:
        answer = self.http.request(method, path, json=body, params={"directory": str(self.work)})
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()


@contextmanager
def real_opencode(binary: Path, folder: Path) -> Iterator[RealOpenCode]:
    """Serve a new, empty OpenCode in a folder until the block ends."""
    home, work = folder / "home", folder / "work"
    work.mkdir(parents=True)
    (work / "README.md").write_text("# Work\n", encoding="utf-8")
    env = _environment(home)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *command], cwd=work, env=env, check=True)
    with scripted_model() as model_url, (folder / "server.log").open("wb") as log:
        _configure(home, model_url)
        port = _free_port()
        process = subprocess.Popen(
            [binary, "serve", "--port", str(port), "--hostname", "127.0.0.1"],
            cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        server = RealOpenCode(home, work, f"http://127.0.0.1:{port}")
        try:
            _wait_for_server(server, process, folder / "server.log")
            yield server
        finally:
            server.http.close()
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_SERVER_PASSWORD": PASSWORD,
        "GIT_AUTHOR_NAME": "Mira Dev",
        "GIT_AUTHOR_EMAIL": "mira@example.com",
        "GIT_COMMITTER_NAME": "Mira Dev",
        "GIT_COMMITTER_EMAIL": "mira@example.com",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }


def _configure(home: Path, model_url: str) -> None:
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    model = {
        "name": "M",
        "cost": {"input": 1, "output": 2},
        "limit": {"context": 100000, "output": 4000},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{model_url}/v1", "apiKey": "none"},
        "models": {"m": model},
    }
    config = {
        "provider": {"scripted": provider},
        "model": "scripted/m",
        "small_model": "scripted/m",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"edit": "allow", "bash": "allow"},
    }
    (folder / "opencode.json").write_text(json.dumps(config), encoding="utf-8")


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _wait_for_server(server: RealOpenCode, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            # What arrives while it starts may never be answered.
            if server.http.get("/global/health", timeout=2).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise RuntimeError(f"OpenCode did not start: {log.read_text(encoding='utf-8')[-2000:]}")


# The model


@contextmanager
def scripted_model() -> Iterator[str]:
    """Serve an OpenAI-compatible model that only does what prompts tell it to."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Model(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for delta, reason in _answer(body):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            chunk = {
                "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
                "model": "m", "choices": [choice],
            }  # fmt: skip
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")


def _answer(body: Json) -> list[tuple[Json, str | None]]:
    messages = body["messages"]
    asked = max(n for n, message in enumerate(messages) if message["role"] == "user")
    prompt = _text(messages[asked])
    first_line = prompt.partition("\n")[0]
    _, marker, calls = prompt.partition("CALLS: ")
    if not body.get("tools"):
        return [({"role": "assistant", "content": "Generated title"}, None), ({}, "stop")]
    if marker and asked == len(messages) - 1:
        found, _end = json.JSONDecoder().raw_decode(calls)
        tools = [
            {
                "index": number,
                "id": f"call_{len(messages)}_{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for number, (name, arguments) in enumerate(found)
        ]
        return [({"role": "assistant", "tool_calls": tools}, None), ({}, "tool_calls")]
    return [({"role": "assistant", "content": f"Done with {first_line}"}, None), ({}, "stop")]


def _text(message: Json) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)
