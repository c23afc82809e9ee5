"""Sizes and numbers as a command line has them."""

from __future__ import annotations

import argparse
import re

from farlane.backend.host.fairness import MOST_WEIGHT
from farlane.backend.host.session import HIGHEST_PRIORITY

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_bytes(text: str) -> int:
    """4096, 512M, 2G (powers of two)."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write it as 4096, 512M or 2G")
    return int(match[1]) * _UNITS[match[2].upper()]


def parse_positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def parse_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def parse_priority(text: str) -> int:
    if not text.isdecimal() or int(text) > HIGHEST_PRIORITY:
        raise argparse.ArgumentTypeError(f"{text!r} is no priority: they are 0 to {HIGHEST_PRIORITY}")
    return int(text)


def parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, 0 to 86400")
    return seconds


def parse_gpus(text: str) -> list[int]:
    """0 or 0,1."""
    numbers = [each.strip() for each in text.split(",")]
    if not all(each.isdecimal() for each in numbers) or len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"{text!r} names no GPUs; write them as 0 or 0,1")
    return [int(each) for each in numbers]


def parse_weight(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_WEIGHT:
        raise argparse.ArgumentTypeError(f"{text!r} is no weight: they are 1 to {MOST_WEIGHT}")
    return int(text)


def parse_share(text: str) -> float:
    """25%, as 0.25."""
    number = text.removesuffix("%")
    try:
        share = float(number) / 100
    except ValueError:
        share = 0.0
    if number == text or not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no part of the time; write it as 25%")
    return share
