"""The placement policies of a fleet, by the names that users say. A new one is a file beside this one, and its row here."""

from __future__ import annotations

from collections.abc import Mapping

from farlane.fleet.placement import locality, pack, spread
from farlane.fleet.placement.book import Policy

POLICIES: Mapping[str, Policy] = {"pack": pack.choose, "spread": spread.choose, "locality": locality.choose}
