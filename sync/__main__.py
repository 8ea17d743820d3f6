"""``python -m sync`` is ``opencode-history``."""

from sync.cli import cli

cli(prog_name="opencode-history")
