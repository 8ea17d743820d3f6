"""The command ``opencode-history``."""

from sync.cli.main import cli

__all__ = ["cli"]
