"""What a secret looks like: precise shapes, so that few other texts are taken for one."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MIN_ENTROPY: Final = 3.5
"""Bits per character from which a value after ``password =`` and its like looks random."""

SHOWN: Final = 4
"""Characters of a secret that are shown, at its start."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """kind: what is found, for people. needs: texts of which one must occur, in lower case;
    looking for these first is what makes a scan of gigabytes bearable. The group ``secret``
    is the secret itself."""

    kind: str
    needs: tuple[str, ...]
    regex: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Secret:
    """A likely secret: its kind and where it stands in the text, in code points."""

    kind: str
    start: int
    end: int


def _pattern(kind: str, needs: str, regex: str, flags: int = 0) -> Pattern:
    return Pattern(kind, tuple(needs.split()), re.compile(regex, flags))


_EDGE = r"(?<![A-Za-z0-9_\-])"
_END = r"(?![A-Za-z0-9_\-])"

PATTERNS: Final = (
    Pattern(
        "private key",
        ("private key-----",),
        re.compile(
            r"(?P<secret>-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----"
            r"(?:\\[nr]|[\sA-Za-z0-9+/=:,\-]){0,400}?[A-Za-z0-9+/=]{40}(?:\\[nr]|[\sA-Za-z0-9+/=]){0,8000})"
        ),
    ),
    _pattern(
        "AWS access key", "akia asia", rf"{_EDGE}(?P<secret>(?:AKIA|ASIA)[A-Z2-7]{{16}}){_END}"
    ),
    _pattern(
        "GitHub token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        rf"{_EDGE}(?P<secret>gh[pousr]_[A-Za-z0-9]{{36,255}}|github_pat_[A-Za-z0-9_]{{50,255}}){_END}",
    ),
    _pattern("GitLab token", "glpat-", rf"{_EDGE}(?P<secret>glpat-[A-Za-z0-9_\-]{{20,64}}){_END}"),
    _pattern(
        "Anthropic key",
        "sk-ant-",
        rf"{_EDGE}(?P<secret>sk-ant-[a-z0-9]+-[A-Za-z0-9_\-]{{32,200}}){_END}",
    ),
    _pattern(
        "OpenAI key",
        "sk-",
        rf"{_EDGE}(?P<secret>sk-(?:proj|svcacct|admin)-[A-Za-z0-9_\-]{{40,200}}"
        rf"|sk-[A-Za-z0-9]{{20}}T3BlbkFJ[A-Za-z0-9]{{20}}|sk-or-v1-[0-9a-f]{{64}}){_END}",
    ),
    _pattern("Google API key", "aiza", rf"{_EDGE}(?P<secret>AIza[A-Za-z0-9_\-]{{35}}){_END}"),
    _pattern(
        "Slack token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xapp-",
        rf"{_EDGE}(?P<secret>(?:xox[abprs]|xapp)-[0-9]+-[A-Za-z0-9\-]{{16,200}}){_END}",
    ),
    _pattern(
        "Stripe key", "_live_", rf"{_EDGE}(?P<secret>(?:sk|rk)_live_[A-Za-z0-9]{{20,200}}){_END}"
    ),
    _pattern("npm token", "npm_", rf"{_EDGE}(?P<secret>npm_[A-Za-z0-9]{{36}}){_END}"),
    _pattern(
        "PyPI token",
        "pypi-ageichlwas5vcmc",
        rf"{_EDGE}(?P<secret>pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_\-]{{50,500}})",
    ),
    _pattern("Hugging Face token", "hf_", rf"{_EDGE}(?P<secret>hf_[A-Za-z0-9]{{34}}){_END}"),
    _pattern(
        "SendGrid key",
        "sg.",
        rf"{_EDGE}(?P<secret>SG\.[A-Za-z0-9_\-]{{22}}\.[A-Za-z0-9_\-]{{43}}){_END}",
    ),
    _pattern(
        "Telegram token",
        ":aa",
        r"(?<![0-9A-Za-z])(?P<secret>[0-9]{8,10}:AA[A-Za-z0-9_\-]{33})(?![A-Za-z0-9_\-])",
    ),
    _pattern(
        "JSON web token",
        "eyj",
        rf"{_EDGE}(?P<secret>eyJ[A-Za-z0-9_\-]{{10,}}\.eyJ[A-Za-z0-9_\-]{{10,}}\.[A-Za-z0-9_\-]{{20,}})",
    ),
    _pattern(
        "password in a URL",
        "://",
        r"://[^\s:/@'\"<>]{1,64}:(?P<secret>[^\s:/@'\"<>${}]{6,128})@[\w.\-]+",
    ),
)

ASSIGNMENT: Final = _pattern(
    "assigned secret",
    "password passwd secret token api_key apikey api-key access_key private_key credential",
    r"(?:password|passwd|secret|token|api[_\-]?key|access[_\-]?key|private[_\-]?key|credential)s?"
    r"[\"']?\s{0,3}(?:=>|:=|=|:)\s{0,3}"
    r"(?P<quote>[\"'`]?)(?P<secret>[A-Za-z0-9+/_\-.=!@#%^&*~]{16,200})(?P=quote)(?![\w(\[.])",
    re.IGNORECASE,
)

DUMMY: Final = re.compile(
    r"example|dummy|placeholder|changeme|change_me|your[_\-]|xxx|\*\*\*|\.\.\.|redacted|1234567"
    r"|abcdef|test|process\.env|os\.environ|getenv|https?:|\.(?:com|ts|py|js|json|md)$",
    re.IGNORECASE,
)
"""What makes a found value somebody's example or a piece of code."""


def find_secrets(text: str) -> Iterator[Secret]:
    """Yield likely secrets in the order of their kinds; no character belongs to two."""
    lower = text.lower()
    taken: list[Secret] = []
    for pattern in (*PATTERNS, ASSIGNMENT):
        if not any(need in lower for need in pattern.needs):
            continue
        for match in pattern.regex.finditer(text):
            start, end = match.span("secret")
            if any(start < other.end and other.start < end for other in taken):
                continue
            if _is_likely(pattern, match["secret"]):
                taken.append(Secret(pattern.kind, start, end))
                yield taken[-1]


def masked(secret: str) -> str:
    """Return as much of a secret as tells its owner which one it is."""
    first_line = secret.splitlines()[0]
    if first_line.startswith("-----BEGIN"):
        return f"{first_line[:40]}..."
    return f"{secret[:SHOWN]}... ({len(secret)} characters)"


def entropy(text: str) -> float:
    """Return the bits per character that the characters' frequencies tell."""
    counts = Counter(text).values()
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts)


def _is_likely(pattern: Pattern, secret: str) -> bool:
    if pattern is ASSIGNMENT:
        mixed = any(c.isdigit() for c in secret) and any(c.isalpha() for c in secret)
        return mixed and entropy(secret) >= MIN_ENTROPY and not DUMMY.search(secret)
    if pattern.kind == "private key":
        return True
    return not re.search(r"example|xxxx|\*\*\*|0123456789", secret, re.IGNORECASE)
