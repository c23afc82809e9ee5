"""Where a host is, and what it says about itself without a session: the call of AdminService.Describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane import hosturl
from farlane.frontend.errors import UserError
from farlane.hosturl import HostUrl

if TYPE_CHECKING:
    from farlane.v1 import admin_pb2


def parse_url(text: str) -> HostUrl:
    """Raises UserError when `text` is no host URL."""
    try:
        return hosturl.parse(text)
    except hosturl.HostUrlError as error:
        raise UserError(str(error), "Give the URL that `farlane serve` prints.", status=2) from None


def describe(url: HostUrl, timeout: float = 5.0) -> admin_pb2.DescribeReply:
    """Asks a host about itself. Raises UserError when it cannot be reached."""
    from farlane.hosturl import description  # gRPC takes longer than all else of a command that does not ask

    try:
        return description.describe(url, timeout)
    except description.NoAnswer as error:
        raise UserError(str(error), "Is `farlane serve` running there, and does it listen on that address?") from error
