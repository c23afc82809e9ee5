"""The one exception that reading an executable may raise."""

from __future__ import annotations


class AnalysisError(Exception):
    """The file cannot be analyzed; the message is for the user."""
