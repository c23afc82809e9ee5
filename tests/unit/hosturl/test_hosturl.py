"""Host URLs: the grammar, by the cases that the shim's parser is tested with, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from farlane import hosturl

LINES = (Path(__file__).parents[3] / "protos/hosturl/cases.tsv").read_text().splitlines()
CASES = [line.split("\t") for line in LINES if not line.startswith("#")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_cases(case: list[str]) -> None:
    text, meaning, *parts = case
    if meaning == "refused":
        with pytest.raises(hosturl.HostUrlError, match="is no host URL: "):
            hosturl.parse(text)
        return
    url = hosturl.parse(text)
    assert url == meant(meaning, *parts)
    assert hosturl.parse(str(url)) == url


def meant(kind: str, place: str, port: str = "0") -> hosturl.HostUrl:
    match kind:
        case "tcp" | "tls":
            return hosturl.TcpUrl(place, int(port), kind == "tls")
        case "vsock" | "vsock+tls":
            return hosturl.VsockUrl(int(place), int(port), kind == "vsock+tls")
        case _:
            return hosturl.UnixUrl(place)


def test_port_0_is_for_who_listens() -> None:
    assert hosturl.parse("grpc://h:0", listening=True) == hosturl.TcpUrl("h", 0)
    assert hosturl.parse("vsock://2:0", listening=True) == hosturl.VsockUrl(2, 0)


def test_any_cid_is_for_who_listens() -> None:
    url = hosturl.parse("vsock+tls://any:7070", listening=True)
    assert url == hosturl.VsockUrl(hosturl.ANY_CID, 7070, tls=True)
    assert str(url) == "vsock+tls://any:7070"
    with pytest.raises(hosturl.HostUrlError, match="only who listens"):
        hosturl.parse("vsock://any:7070")


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("unix:///s", True),
        ("grpc://localhost:1", True),
        ("grpc://127.0.0.2:1", True),
        ("grpc://[::1]:1", True),
        ("grpc://0.0.0.0:1", False),
        ("grpc://10.0.0.1:1", False),
        ("grpc://127.example:1", False),
        ("vsock://1:1", True),
        ("vsock://2:1", False),
    ],
)
def test_local(text: str, local: bool) -> None:
    assert hosturl.parse(text).local is local


def test_targets() -> None:
    assert hosturl.parse("grpc://[::1]:7070").target == "[::1]:7070"
    assert hosturl.parse("vsock+tls://2:7070").target == "vsock:2:7070"
    assert hosturl.parse("grpc://gpu-host:1/").target == "gpu-host:1"
    assert hosturl.parse("unix:///run/farlane.sock").target == "unix:///run/farlane.sock"
