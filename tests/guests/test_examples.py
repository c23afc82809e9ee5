"""The examples of the gallery that need Python packages: each page's commands print what the page shows."""

from __future__ import annotations

import gallery
import pytest
from running import PYTHON

pytestmark = pytest.mark.guests


@pytest.mark.parametrize("name", [name for name in gallery.names() if gallery.needs_packages(name)])
def test_an_example_prints_what_its_page_says(name: str) -> None:
    assert PYTHON.exists(), "run `make test-guests`, which installs what these tests need"
    assert gallery.run(name, PYTHON) >= 1
