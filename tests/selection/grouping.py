"""Which tests run in one process, and in which order: what tests share is made once, and the longest begin first.

Tests of a file that use a fixture of module scope (a host, a compiled or analyzed program) are a group of `--dist loadgroup`, unless
the file says its groups itself (`pytest.mark.xdist_group`). Each worker would make that fixture for itself otherwise. Groups with a
test that is marked as slow come first, then those with more tests: at the end both workers are busy with short ones. That order
holds where xdist does not make its own (`--no-loadscope-reorder`).
"""

from __future__ import annotations

from collections import Counter

import pytest


def _shares(item: pytest.Item) -> bool:
    """Whether it uses a fixture of module scope."""
    definitions = getattr(item, "_fixtureinfo", None)
    found = definitions.name2fixturedefs.values() if definitions else ()
    return any(definition.scope == "module" for each in found for definition in each)


def arrange(items: list[pytest.Item]) -> None:
    """Groups the tests, and sorts the groups."""
    group: dict[pytest.Item, str] = {}
    for item in items:
        names = sorted(str(mark.args[0]) for mark in item.iter_markers("xdist_group"))
        if not names and _shares(item):
            names = [item.nodeid.partition("::")[0]]
            item.add_marker(pytest.mark.xdist_group(names[0]))
        group[item] = "_".join(names) or item.nodeid
    size = Counter(group.values())
    slow = {group[item] for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (group[item] not in slow, -size[group[item]]))
