"""Words, sentences, code and terminal output: what generated histories are made of.

Everything is drawn from one seeded generator, so equal seeds give equal texts. Lines come
from pools that are made once; fresh identifiers and numbers are mixed into every block, so
that no two blocks are alike and rare words stay rare.
"""

from __future__ import annotations

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

_ONSETS: Final = [
    "b",
    "c",
    "ch",
    "cl",
    "cr",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "pr",
    "qu",
    "r",
    "s",
    "sh",
    "st",
    "t",
    "tr",
    "v",
    "w",
    "y",
    "z",
]
_VOWELS: Final = ["a", "e", "i", "o", "u", "ai", "ea", "ee", "io", "ou"]
_CODAS: Final = ["", "", "", "n", "r", "l", "t", "s", "ck", "nd", "st", "m", "p", "ng"]
_ENDINGS: Final = ["", "", "", "s", "ed", "ing", "er", "tion", "ment", "able", "ly", "ness", "al"]

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


class Words:
    """Pools of sentences, code lines and output lines in a Zipf-distributed vocabulary."""

    def __init__(self, seed: int, *, vocabulary: int = 30_000, pool: int = 24_000) -> None:
        rng = Random(f"words {seed}")
        self.vocabulary = [*COMMON, *_made_up(rng, vocabulary - len(COMMON))]
        self._cumulative = list(accumulate((rank + 2.7) ** -1.15 for rank in range(vocabulary)))
        self.identifiers = [_identifier(rng, self.draw(rng, 2)) for _ in range(pool // 2)]
        self.sentences = [self._sentence(rng) for _ in range(pool)]
        self.code = [self._filled(rng, rng.choice(CODE_SHAPES)) for _ in range(pool)]
        self.output = [self._filled(rng, rng.choice(OUTPUT_SHAPES)) for _ in range(pool)]

    def draw(self, rng: Random, count: int) -> list[str]:
        """Return that many words, frequent ones more often."""
        return rng.choices(self.vocabulary, cum_weights=self._cumulative, k=count)

    def title(self, rng: Random) -> str:
        return " ".join(self.draw(rng, rng.randint(3, 8))).capitalize()

    def prose(self, rng: Random, length: int) -> str:
        """Return paragraphs of at least `length` characters, one sentence more at most."""
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
    def _block(rng: Random, pool: list[str], length: int, joint: str) -> str:
        mean = 64
        picked = rng.choices(pool, k=max(1, length // mean))
        text = joint.join(picked)
        while len(text) < length:
            text += joint + rng.choice(pool)
        return text

    def _sentence(self, rng: Random) -> str:
        words = self.draw(rng, rng.randint(6, 18))
        if rng.random() < 0.3:
            words[rng.randrange(len(words))] = f"`{rng.choice(self.identifiers)}`"
        text = " ".join(words)
        return text[0].upper() + text[1:] + rng.choice((".", ".", ".", "?", ":", ".\n\n"))

    def _filled(self, rng: Random, shape: str) -> str:
        a, b, c, d = rng.choices(self.identifiers, k=4)
        w, x, y, z = self.draw(rng, 4)
        n, m = rng.randrange(10_000), rng.randrange(100)
        return shape.format(a=a, b=b, c=c, d=d, w=w, x=x, y=y, z=z, n=n, m=m)


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
