"""A generated history as plain values: sessions one after another, in constant memory.

Equal sizes and seeds give equal histories; nothing reads the clock. Which sessions hold
which needle is a rule on the session's number, so that a test can say what must be found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal

from benchmarks.words import Words

START_MS: Final = 1_735_689_600_000
"""2025-01-01T00:00:00Z, when the first session begins."""
SPAN_MS: Final = 420 * 86_400_000
"""The last session begins this much later."""
MAX_OUTPUT: Final = 60_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much to generate. text_bytes is a target that is met within a few per cent."""

    name: str
    text_bytes: int
    sessions: int
    long_messages: int
    longest_messages: int


SIZES: Final = {
    size.name: size
    for size in (
        Size("XS", 2_000_000, 120, 60, 240),
        Size("S", 50_000_000, 600, 2_000, 12_000),
        Size("M", 500_000_000, 4_000, 2_000, 12_000),
        Size("L", 2_000_000_000, 14_000, 2_000, 12_000),
    )
}


@dataclass(frozen=True, slots=True)
class Needle:
    """A text that stands in the sessions numbered `first`, `first + step` ... and no others."""

    text: str
    step: int | None
    first: int = 0

    def sessions(self, total: int) -> range:
        """Return the numbers of the sessions that hold it."""
        if self.step is None:
            return range(self.first, self.first)
        return range(min(self.first, total - 1), total, self.step or total)


NEEDLES: Final = {
    "one": Needle("zephyrquartz", 10**9, 61),
    "percent": Needle("quokkaledger", 100, 37),
    "half": Needle("marmaladeflux", 2, 1),
    "phrase": Needle("rotate the tangerine lantern", 10**9, 77),
    "phrase_tenth": Needle("please check the result again, then open", 10, 3),
    "absent": Needle("xylophonewombat", None),
    "absent_usual": Needle("returntheerror", None),  # made of trigrams that are everywhere
}
DECOYS: Final = ("the tangerine crate", "rotate the paper lantern")
"""Words of the phrase apart, in every fifth session: they must not answer for it."""
COMMON_WORDS: Final = ("error", "function", "result")
"""Words that nearly every session holds."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. edited: the file that it wrote, None for tools that only look."""

    tool: str
    input: Mapping[str, str]
    output: str
    failed: bool = False
    edited: str | None = None


Piece = tuple[Literal["text", "reasoning"], str] | Call


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. Times in milliseconds."""

    role: Literal["user", "assistant"]
    created_ms: int
    completed_ms: int
    pieces: tuple[Piece, ...]

    def texts(self) -> Iterator[str]:
        """Yield what a search can find in the message, piece by piece."""
        for piece in self.pieces:
            if isinstance(piece, Call):
                yield piece.tool
                yield from piece.input.values()
                yield piece.output
            else:
                yield piece[1]


@dataclass(frozen=True, slots=True)
class Project:
    id: str
    worktree: str
    sandboxes: tuple[str, ...]
    name: str | None
    files: tuple[str, ...]  # relative to the worktree


@dataclass(slots=True)
class Plan:
    """A session before its messages: what it is and how long it should be."""

    number: int
    title: str
    project: Project
    directory: str
    parent: int | None
    created_ms: int
    turns: int
    text_bytes: int
    planted: list[str] = field(default_factory=list)


class History:
    """The sessions of one size and seed, in order of their creation."""

    def __init__(self, size: Size, seed: int = 7) -> None:
        self.size = size
        self.seed = seed
        self.words = Words(seed)
        self.projects = _projects(Random(f"projects {seed}"), self.words)
        self.long = size.sessions // 3
        self.longest = size.sessions // 2

    def plans(self) -> Iterator[Plan]:
        """Yield every session without its messages, oldest first."""
        rng = Random(f"plans {self.seed} {self.size.name}")
        weights = [(rank + 1) ** -0.9 for rank in range(len(self.projects))]
        reserved = self.size.long_messages * 880 + self.size.longest_messages * 770
        budget = max(self.size.text_bytes - reserved, 0) / self.size.sessions
        last_root: Plan | None = None
        for number in range(self.size.sessions):
            child = last_root is not None and rng.random() < 0.18
            project = rng.choices(self.projects, weights=weights)[0]
            length = int(budget * min(rng.lognormvariate(-0.5, 1.0), 12.0) * 1.10)
            plan = Plan(
                number=number,
                title=self.words.title(rng),
                project=project,
                directory=rng.choice((project.worktree, *project.sandboxes)),
                parent=None,
                created_ms=START_MS + SPAN_MS * number // self.size.sessions,
                turns=max(2, length // 2_600),
                text_bytes=length,
            )
            if child and last_root is not None:
                plan.parent = last_root.number
                plan.project, plan.directory = last_root.project, last_root.directory
                plan.title += " (@explore subagent)"
            else:
                last_root = plan
            self._special(plan)
            plan.planted = self._planted(number)
            yield plan

    def turns(self, plan: Plan) -> Iterator[Turn]:
        """Yield a session's messages; every question has one answer or several."""
        rng = Random(f"turns {self.seed} {self.size.name} {plan.number}")
        mean = plan.text_bytes / plan.turns
        now = plan.created_ms
        planted: dict[int, str] = {}
        for text in plan.planted:
            spot = rng.randrange(plan.turns)
            planted[spot] = f"{planted[spot]}. {text}" if spot in planted else text
        question = True
        for index in range(plan.turns):
            extra = planted.get(index, "")
            if question:
                pieces: tuple[Piece, ...] = (("text", self._prompt(rng, extra)),)
                spent = 200
            else:
                pieces, spent = self._answer(rng, plan, mean * 1.45, extra)
            completed = now + spent
            yield Turn("user" if question else "assistant", now, completed, pieces)
            now = completed + rng.randrange(50, 4_000)
            question = not question and rng.random() < 0.32 if index else False

    def _special(self, plan: Plan) -> None:
        for number, turns, bytes_each in (
            (self.long, self.size.long_messages, 700),
            (self.longest, self.size.longest_messages, 600),
        ):
            if plan.number == number:
                plan.turns, plan.text_bytes = turns, turns * bytes_each

    def _planted(self, number: int) -> list[str]:
        total = self.size.sessions
        found = [n.text for n in NEEDLES.values() if number in n.sessions(total)]
        return found + list(DECOYS) if number % 5 == 0 else found

    def _prompt(self, rng: Random, extra: str) -> str:
        text = self.words.prose(rng, rng.randint(40, 400))
        return f"{text} {extra}." if extra else text

    def _answer(
        self, rng: Random, plan: Plan, length: float, extra: str
    ) -> tuple[tuple[Piece, ...], int]:
        pieces: list[Piece] = []
        if rng.random() < 0.35:
            pieces.append(("reasoning", self.words.prose(rng, rng.randint(100, 700))))
        text = self.words.prose(rng, rng.randint(60, 500))
        pieces.append(("text", f"{text} {extra}." if extra else text))
        rest = length - 600
        if rest > 0 or rng.random() < 0.4:
            calls = rng.choice((1, 1, 1, 2, 3))
            for _ in range(calls):
                share = int(max(rest, 150) / calls * min(rng.lognormvariate(-0.7, 1.2), 40.0))
                pieces.append(self._call(rng, plan, min(max(share, 40), MAX_OUTPUT)))
        return tuple(pieces), rng.randrange(300, 30_000)

    def _call(self, rng: Random, plan: Plan, length: int) -> Call:
        relative = rng.choice(plan.project.files)
        path = f"{plan.directory}/{relative}"
        words = self.words
        kind = rng.random()
        if kind < 0.16:
            half = min(length // 2, 6_000)
            old, new = words.source(rng, half), words.source(rng, half)
            edit = {"filePath": path, "oldString": old, "newString": new}
            if rng.random() < 0.08:
                return Call("edit", edit, "Could not find oldString in the file.", failed=True)
            return Call("edit", edit, "Edit applied successfully.", edited=path)
        if kind < 0.22:
            content = words.source(rng, min(length, 20_000))
            return Call(
                "write",
                {"filePath": path, "content": content},
                "Wrote file successfully.",
                edited=path,
            )
        if kind < 0.52:
            return Call("read", {"filePath": path}, words.source(rng, length))
        if kind < 0.62:
            pattern = rng.choice(words.identifiers)
            return Call(
                "grep", {"pattern": pattern, "path": plan.directory}, words.terminal(rng, length)
            )
        command = f"npm run {rng.choice(words.identifiers)} -- {relative}"
        shell = {"command": command, "description": words.title(rng)}
        return Call("bash", shell, words.terminal(rng, length), failed=rng.random() < 0.06)


def _projects(rng: Random, words: Words) -> list[Project]:
    made = []
    for number in range(14):
        name = f"{words.draw(rng, 1)[0]}-{words.draw(rng, 1)[0]}-{number}"
        root = f"/home/dev/{name}"
        files = {
            f"{rng.choice(('src', 'lib', 'tests', 'app'))}/{'/'.join(words.draw(rng, 1))}"
            f"/{rng.choice(words.identifiers)}.{rng.choice(('ts', 'py', 'css', 'sql', 'md'))}"
            for _ in range(160)
        }
        trees = tuple(f"{root}-wt{tree}" for tree in range(rng.randrange(4)))
        made.append(
            Project(f"{rng.getrandbits(160):040x}", root, trees, name, tuple(sorted(files)))
        )
    made.append(Project("global", "/", ("/home/dev/notes", "/tmp/scratch"), None, ("todo.md",)))
    return made
