"""Words, sentences, code and terminal output: what generated histories are made of.

Everything is drawn from one seeded generator, so equal seeds give equal texts. Lines come from
pools that are made once; fresh words and numbers are mixed into every block, so that no two
blocks are alike and rare words stay rare. Neighbouring lines of a pool share their identifiers
and words, and a block takes its lines from one place, as in real files and logs: how many
different trigrams a text holds decides what a full-text index costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Final

_COMMON_TEXT: Final = """
    the to of and a in is it that for this we with on not be as file error test code function when
    if from can return value line user data should run use type new all but session string list
    name path request response index check call are was have has will do then so there which by an
    or at one no add fix change update remove read write open close send get set make build import
    export module class object array number key map query table row column database server client
    token cache page message event state handler config option default result output input failed
    passed missing empty before after first last next every only also more same still where what
    how why because instead already without between inside through however therefore please could
    would think need want look found work works working start stop wait retry timeout connection
    socket thread process memory disk version branch commit merge review release package
    dependency install command shell script directory folder parser schema migration transaction
    lock queue worker job task timer clock date time zone unit invoice account payment customer
    order email address password login logout permission role admin button form field label style
    layout image upload download stream buffer chunk byte length offset
"""
COMMON: Final = tuple(_COMMON_TEXT.split())
"""Real words, the most frequent first."""

_ONSET_TEXT: Final = "b c ch cl cr d dr f fl g gr h j k l m n p pl pr qu r s sh st t tr v w"
_ONSETS: Final = tuple(_ONSET_TEXT.split())
_VOWELS: Final = ("a", "e", "i", "o", "u", "a", "e", "i", "o", "ea", "io", "ou")
_CODAS: Final = ("", "", "", "n", "r", "l", "t", "s", "ck", "nd", "st", "m")
_ENDINGS: Final = ("", "", "", "s", "ed", "ing", "er", "tion", "ment", "able", "ly", "al")

CODE_SHAPES: Final = (
    "  const {a} = await {b}({c}, {{ {d}: {n} }})",
    '  if (!{a}.{b}) return {{ ok: false, reason: "{c}-{d}" }}',
    "export async function {a}({b}: string, {c}: number): Promise<{d}> {{",
    "    def {a}(self, {b}: str, {c}: int = {n}) -> {d}:",
    "        self.{a} = {b}[{n}] if {c} else {d}",
    "    for {a} in {b}.{c}():",
    '        raise ValueError(f"{a} {{{b}}} is not a {c}")',
    'import {{ {a}, {b} }} from "../{c}/{d}.ts"',
    "  // {w} {x} {y} {z}",
    "    # {w} {x} {y} {z}",
    '  expect({a}({b})).toEqual({{ {c}: "{d}" }})',
    "SELECT {a}, {b} FROM {c} WHERE {d} = {n} ORDER BY {a} DESC",
    "}}",
    "",
)
OUTPUT_SHAPES: Final = (
    "src/{a}/{b}.ts:{n}:{m}: error TS{n}: {w} {x} is not {y} to {z}",
    "  \u2713 {w} {x} {y} {z} ({m}ms)",
    "    at {a}.{b} (/srv/app/src/{c}/{d}.js:{n}:{m})",
    "{n}: {a} = {b}({c})",
    "[{n}.{m}] INFO {a}.{b} {w} {x} {y} id={n}",
    "[{n}.{m}] WARN {a}.{b} {w} {x} after {m} attempts",
    "-rw-r--r-- 1 dev dev {n} {a}-{b}.json",
    '{{"{a}": "{w}", "{b}": {n}, "{c}": ["{x}", "{y}"]}}',
    "FAIL tests/{a}/test_{b}.py::test_{c}_{d} - AssertionError: {w} {x}",
)


NEIGHBOURS: Final = 40
"""Lines of a pool that share their identifiers and words."""


class Words:
    """Pools of sentences, code lines and output lines in a Zipf-distributed vocabulary."""

    def __init__(self, seed: int, *, vocabulary: int = 30_000, pool: int = 24_000) -> None:
        rng = Random(f"words {seed}")
        self.vocabulary = [*COMMON, *_made_up(rng, vocabulary - len(COMMON))]
        self._cumulative = list(accumulate((rank + 2.7) ** -1.15 for rank in range(vocabulary)))
        self.identifiers = [_identifier(rng, self.draw(rng, 2)) for _ in range(pool // 2)]
        self.sentences = self._pool(rng, pool, self._sentence)
        self.code = self._pool(rng, pool, lambda rng, place: place.fill(rng, CODE_SHAPES))
        self.output = self._pool(rng, pool, lambda rng, place: place.fill(rng, OUTPUT_SHAPES))

    def draw(self, rng: Random, count: int) -> list[str]:
        """Return that many words, frequent ones more often."""
        return rng.choices(self.vocabulary, cum_weights=self._cumulative, k=count)

    def title(self, rng: Random) -> str:
        return " ".join(self.draw(rng, rng.randint(3, 8))).capitalize()

    def prose(self, rng: Random, length: int) -> str:
        """Return paragraphs of about `length` characters."""
        fresh = " ".join(self.draw(rng, 6))
        return f"{fresh.capitalize()} {self._block(rng, self.sentences, length, ' ')}"

    def source(self, rng: Random, length: int) -> str:
        """Return a piece of code of about `length` characters."""
        name = rng.choice(self.identifiers)
        return f"// {name} {rng.getrandbits(32):08x}\n" + self._block(rng, self.code, length, "\n")

    def terminal(self, rng: Random, length: int) -> str:
        """Return a tool's output of about `length` characters."""
        lines = self._block(rng, self.output, length, "\n")
        return f"{lines}\n{rng.getrandbits(40):010x} {' '.join(self.draw(rng, 3))}\n"

    @staticmethod
    def _block(rng: Random, pool: Sequence[str], length: int, joint: str) -> str:
        lines = max(1, length // 56)
        width = max(6, lines // 2)
        first = rng.randrange(len(pool) - width)
        place = pool[first : first + width]
        text = joint.join(rng.choices(place, k=lines))
        while len(text) < length:
            text += joint + rng.choice(place)
        return text[:length]

    def _pool(
        self, rng: Random, size: int, line: Callable[[Random, _Place], str]
    ) -> tuple[str, ...]:
        made: list[str] = []
        while len(made) < size:
            place = _Place(rng.choices(self.identifiers, k=8), self.draw(rng, 24))
            made += [line(rng, place) for _ in range(NEIGHBOURS)]
        return tuple(made)

    def _sentence(self, rng: Random, place: _Place) -> str:
        words = self.draw(rng, rng.randint(3, 9)) + rng.choices(place.words, k=rng.randint(3, 9))
        rng.shuffle(words)
        if rng.random() < 0.3:
            words[rng.randrange(len(words))] = f"`{rng.choice(place.identifiers)}`"
        text = " ".join(words)
        return text[0].upper() + text[1:] + rng.choice((".", ".", ".", "?", ":", ".\n\n"))


@dataclass(frozen=True, slots=True)
class _Place:
    """What neighbouring lines have in common."""

    identifiers: Sequence[str]
    words: Sequence[str]

    def fill(self, rng: Random, shapes: Sequence[str]) -> str:
        a, b, c, d = rng.choices(self.identifiers, k=4)
        w, x, y, z = rng.choices(self.words, k=4)
        n, m = rng.randrange(10_000), rng.randrange(100)
        return rng.choice(shapes).format(a=a, b=b, c=c, d=d, w=w, x=x, y=y, z=z, n=n, m=m)


def _made_up(rng: Random, count: int) -> list[str]:
    seen = set(COMMON)
    words: list[str] = []
    while len(words) < count:
        syllables = rng.choices((1, 2, 3), weights=(4, 5, 1))[0]
        word = "".join(
            rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(syllables)
        ) + rng.choice(_ENDINGS)
        if len(word) >= 4 and word not in seen:
            seen.add(word)
            words.append(word)
    return words


def _identifier(rng: Random, words: list[str]) -> str:
    if rng.random() < 0.5:
        return "_".join(words)
    return words[0] + "".join(word.capitalize() for word in words[1:])
