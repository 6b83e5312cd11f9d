"""Downloads from a real server on this machine that breaks off, truncates, lies and refuses."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ltr_harness.errors import FetchError
from ltr_harness.known_sets import Download
from ltr_harness.known_sets.fetch import fetch

CONTENT = bytes(i * 7 % 251 for i in range(300_000))


class Server(ThreadingHTTPServer):
    behaviour: list[str]
    asked: list[str | None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file"


class Handler(BaseHTTPRequestHandler):
    """Plays one entry of `behaviour` per request, the last one for ever."""

    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        plays = self.server.behaviour
        play = plays.pop(0) if len(plays) > 1 else plays[0]
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if play.isdigit():
            self.send_error(int(play))
            return
        if play.startswith("redirect "):
            self.send_response(302)
            self.send_header("Location", play.removeprefix("redirect "))
            self.end_headers()
            return
        if play == "rude":
            self.send_response(503, "\x1b[31mgo away\x1b[0m" * 20)
            self.end_headers()
            return
        if play == "wrong when resumed":
            play = "wrong bytes" if start else "drops"
        if play == "no ranges" or not asked:
            start = 0
        if start > len(CONTENT):
            self.send_error(416)
            return
        content = CONTENT[start:]
        if play == "wrong bytes":
            content = bytes([content[0] ^ 1]) + content[1:]
        if play == "longer":
            content += b"more"
        self.send_response(206 if start else 200)
        if start:
            shown = start + 5 if play == "other range" else start
            self.send_header("Content-Range", f"bytes {shown}-{len(CONTENT) - 1}/{len(CONTENT)}")
        if play != "truncated":  # without a length nobody can tell an early end from the end
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if play == "slow":
            self.drip(content)
            return
        sent = {"drops": 100_000, "truncated": 100_000, "one byte": 1}.get(play, len(content))
        self.wfile.write(content[:sent])
        self.wfile.flush()
        self.close_connection = True

    def drip(self, content: bytes) -> None:
        try:
            for byte in content:
                self.wfile.write(bytes([byte]))
                time.sleep(0.02)
        except OSError:  # nobody listens any more
            pass

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.behaviour, running.asked = ["well"], []
        thread = threading.Thread(
            target=running.serve_forever, args=(0.01,)
        )  # seconds until it sees that it is over
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def download(server: Server) -> Download:
    return Download("sub/file.txt", server.url, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def get(server: Server, folder: Path, *behaviour: str) -> bytes:
    server.behaviour = list(behaviour)
    return fetch(download(server), folder, pause_s=0.001).read_bytes()


def test_a_file_is_fetched_once(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = fetch(download(server), tmp_path, lambda done, total: seen.append((done, total)))
    assert path == tmp_path / "sub" / "file.txt"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (300_000, 300_000)
    assert get(server, tmp_path, "404") == CONTENT
    assert server.asked == [None], "it was there already"


@pytest.mark.parametrize("ending", ["drops", "truncated"])
def test_it_goes_on_where_it_broke_off(server: Server, tmp_path: Path, ending: str) -> None:
    assert get(server, tmp_path, ending, "503", ending, "well") == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=100000-", "bytes=200000-"]
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["file.txt"]


def test_a_server_without_ranges(server: Server, tmp_path: Path) -> None:
    assert get(server, tmp_path, "drops", "no ranges") == CONTENT


def test_what_is_left_of_an_earlier_command_is_used(server: Server, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file.txt.part").write_bytes(CONTENT[:250_000])
    assert get(server, tmp_path, "well") == CONTENT
    assert server.asked == ["bytes=250000-"]


@pytest.mark.parametrize("left", [b"x" * 1000, b"x" * len(CONTENT), CONTENT[:-1] + b"x"])
def test_wrong_leftovers_are_thrown_away(server: Server, tmp_path: Path, left: bytes) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file.txt.part").write_bytes(left)
    assert get(server, tmp_path, "well") == CONTENT


def test_a_damaged_file_in_place_is_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file.txt").write_bytes(CONTENT[:-1] + b"x")
    assert get(server, tmp_path, "well") == CONTENT


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (
            ["wrong bytes"],
            r"file: has the SHA-256 [0-9a-f]{64}; expected [0-9a-f]{64}; the file there has changed",
        ),
        (["longer"], "file: is longer than 300,000 bytes; expected 300,000 bytes"),
        (["404"], "file: the server answers 404 Not Found$"),
        (
            ["500"],
            "the server answers 500 .*; expected 300,000 bytes, 0 are there; run the same command again",
        ),
        (
            ["drops", "503"],
            "the server answers 503 .*; expected 300,000 bytes, 100,000 are there; run the same",
        ),
    ],
)
def test_what_cannot_be_had(server: Server, tmp_path: Path, behaviour: list[str], message: str) -> None:
    with pytest.raises(FetchError, match=message):
        get(server, tmp_path, *behaviour)
    assert not (tmp_path / "sub" / "file.txt").exists()
    left = (tmp_path / "sub" / "file.txt.part").exists()
    assert left == (behaviour[0] == "drops")


def test_another_range_than_asked_for_is_not_believed(server: Server, tmp_path: Path) -> None:
    assert get(server, tmp_path, "drops", "other range", "well") == CONTENT


@pytest.mark.parametrize(
    ("behaviour", "requests", "message"),
    [
        # from zero, the rest with other bytes; once more from zero; then it is the server's fault
        (
            ["wrong when resumed"],
            4,
            "has the SHA-256 [0-9a-f]{64}; expected [0-9a-f]{64}; the file there has",
        ),
        (["one byte"], 4, "expected 300,000 bytes, 4 are there; run the same command again"),
        (["drops", "other range", "drops", "other range"], 4, "the server sent another range than asked for"),
        (["drops", "416", "drops", "416"], 4, "the server has no such range"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_it_ends_whatever_the_server_does(
    server: Server, tmp_path: Path, behaviour: list[str], requests: int, message: str
) -> None:
    with pytest.raises(FetchError, match=message):
        get(server, tmp_path, *behaviour)
    assert len(server.asked) == requests


def test_many_interruptions_are_no_reason_to_give_up(server: Server, tmp_path: Path) -> None:
    """Each attempt brings a third: three are enough, whatever fails in between."""
    assert (
        get(server, tmp_path, "drops", "503", "503", "503", "drops", "503", "503", "503", "well") == CONTENT
    )


@pytest.mark.long
def test_a_server_that_hardly_sends_anything(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ltr_harness.known_sets.fetch._TIMEOUT_S", 0.3)
    with pytest.raises(FetchError, match="the server sends fewer than 1,000 bytes per second"):
        get(server, tmp_path, "slow")
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    "location", ["http://[::1", "http://host:port/", "file:///etc/passwd", "http://a b/", "http://", ""]
)
def test_a_redirection_that_leads_nowhere(server: Server, tmp_path: Path, location: str) -> None:
    with pytest.raises(
        FetchError, match=r"run the same command again|the server answers 302 Found|answers 404"
    ):
        get(server, tmp_path, f"redirect {location}", "404")


def test_the_servers_own_words_are_not_repeated(server: Server, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="the server answers 503 Service Unavailable;") as failed:
        get(server, tmp_path, "rude")
    assert "\x1b" not in str(failed.value)


def test_nobody_listens(tmp_path: Path) -> None:
    nowhere = Download("file", "http://127.0.0.1:9/file", 10, "0" * 64)
    with pytest.raises(FetchError, match=r"the connection broke off \(.*refused"):
        fetch(nowhere, tmp_path, pause_s=0.001)
