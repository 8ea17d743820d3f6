"""Where history is read from: one module per kind of place, each with the hook that finds it."""

BUILTIN = ("sync.sources.sqlite", "sync.sources.json_store", "sync.sources.api")
"""Modules that implement register_sources; a place found twice belongs to the first."""
