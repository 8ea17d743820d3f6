"""The plugins that find sources: the built-in ones and those of other packages."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points

import pluggy

from sync import hookspecs
from sync.hookspecs import PROJECT_NAME, Probe, SyncConfig
from sync.sources import BUILTIN

log = logging.getLogger(__name__)


def make_plugin_manager() -> pluggy.PluginManager:
    """Return a manager with the built-in sources first, then those of installed packages.

    Raises pluggy.PluginValidationError where a plugin implements a hook that does not exist.
    A package that cannot be imported is left out with a warning: the rest is still read.
    """
    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(hookspecs)
    for name in BUILTIN:
        manager.register(import_module(name), name=name)
    for entry in entry_points(group=PROJECT_NAME):
        try:
            plugin = entry.load()
        except Exception:
            log.warning("plugin %s (%s) cannot be loaded", entry.name, entry.value, exc_info=True)
            continue
        if not manager.is_blocked(entry.name) and manager.get_name(plugin) is None:
            manager.register(plugin, name=entry.name)
    manager.check_pending()
    return manager


def probe_sources(manager: pluggy.PluginManager, config: SyncConfig) -> list[Probe]:
    """Return every place that the plugins looked at, in the order in which they registered.

    A plugin that fails becomes a probe that says so; a source that an earlier plugin found,
    too, is left out.
    """
    probes: list[Probe] = []
    known: set[tuple[str, str]] = set()
    for name, plugin in manager.list_name_plugin():
        if plugin is None:
            continue
        for probe in _ask(manager, name, plugin, config):
            if probe.source is not None:
                key = (probe.source.kind, probe.source.location)
                if key in known:
                    continue
                known.add(key)
            probes.append(probe)
    return probes


def _ask(
    manager: pluggy.PluginManager, name: str, plugin: object, config: SyncConfig
) -> Sequence[Probe]:
    others = [other for other in manager.get_plugins() if other is not plugin]
    caller = manager.subset_hook_caller("register_sources", others)
    try:
        found: list[Sequence[Probe]] = caller(config=config)
    except Exception as error:
        log.debug("plugin %s failed", name, exc_info=True)
        return [Probe(location=f"plugin {name}", what=f"failed: {type(error).__name__}: {error}")]
    return [probe for probes in found for probe in probes]
