"""What a visitor of the dashboard sends cannot name files, fill the memory or act for others."""

from __future__ import annotations

import gzip
import http.client
import io
import os
import socket
import stat
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
import streamlit as st
import zstandard

from parsers import source
from parsers.source import open_path
from tests.dashboard.browser import serving
from tests.dashboard.test_pages import open_page, texts
from tests.helpers import ROOT
from warmup_insights.errors import InputError
from warmup_insights.ingest.find import find_files
from warmup_insights.ingest.single import ingest_file, ingest_path
from warmup_insights.storage import EventStore

pytestmark = pytest.mark.long

LOG = (ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log").read_bytes()
MIB = 1 << 20


class Upload(io.BytesIO):
    """A file as the uploader gives it."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.name = name
        self.size = len(data)


@pytest.fixture
def upload(monkeypatch, tmp_path):
    """The first page after these files were dropped onto it."""

    def open_with(*files: Upload):
        monkeypatch.setattr(st, "file_uploader", lambda *args, **options: list(files))
        return open_page(monkeypatch, tmp_path / "a.db", "runs")

    EventStore(tmp_path / "a.db").close()
    return open_with


@pytest.mark.parametrize(
    "name", ["../../outside.log", "/etc/passwd", "C:\\x\\y.log", "a\x00b", "..", "-", "", "$HOME"]
)  # fmt: skip
def test_a_name_is_never_a_path(name, upload, tmp_path, monkeypatch):
    """The bytes that came are read, nothing else, and nothing is written beside."""
    monkeypatch.chdir(tmp_path)
    app = upload(Upload(name, LOG))
    assert not app.exception
    with EventStore(tmp_path / "a.db") as store:
        (found,) = store.sources()
        (run,) = store.runs()
    assert found.lines == LOG.count(b"\n")
    assert "/" not in found.name
    assert run.source_name == found.name
    assert {entry.name for entry in tmp_path.iterdir()} <= {
        "a.db",
        "a.db-wal",
        "a.db-shm",
    }


def test_too_many_at_once_are_refused(upload, tmp_path):
    app = upload(*(Upload(f"{n}.log", b"x" * (n + 1)) for n in range(101)))
    assert "At most 100 logs" in app.error[0].value
    with EventStore(tmp_path / "a.db") as store:
        assert store.sources() == []
    app = upload(*(Upload(f"{n}.log", LOG) for n in range(3)))
    assert not app.error
    assert "already stored" in texts(app)


@pytest.mark.parametrize(
    "pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"]
)
def test_an_upload_that_unpacks_without_measure_is_stopped(pack, upload, monkeypatch):
    monkeypatch.setattr(source, "RATIO_FROM", MIB)
    monkeypatch.setattr(source, "MAX_RATIO", 50)
    app = upload(Upload("bomb.gz", pack(LOG + b"0" * (32 * MIB))))
    assert "unpacks to more than" in texts(app)


def test_packed_in_packed_is_not_unpacked_twice(tmp_path):
    with EventStore(tmp_path / "a.db") as store:
        twice = io.BytesIO(gzip.compress(gzip.compress(LOG)))
        outcome = ingest_file(store, twice, "twice.gz")
    assert outcome.run_ids == []
    assert "not a text file" in outcome.report["problems"][0]


def test_links_pipes_and_devices_in_a_folder_are_left_out(tmp_path):
    (tmp_path / "real.log").write_bytes(LOG)
    (tmp_path / "link.log").symlink_to("/etc/passwd")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.log")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.log"))
        found = [os.path.basename(path) for path in find_files([str(tmp_path)])]
    assert found == ["real.log"]


@pytest.mark.skipif(os.geteuid() != 0, reason="making a device needs root")
def test_a_device_in_a_folder_is_left_out(tmp_path):
    (tmp_path / "real.log").write_bytes(LOG)
    try:
        os.mknod(tmp_path / "zero.log", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except OSError as error:
        pytest.skip(f"no devices here: {error}")
    assert len(list(find_files([str(tmp_path)]))) == 1


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/tty"])
def test_a_device_is_refused_by_name(device, tmp_path):
    with pytest.raises(InputError, match=r"neither a file nor a pipe|cannot be read"):
        open_path(type(tmp_path)(device))
    with EventStore(tmp_path / "a.db") as store, pytest.raises(InputError):
        ingest_path(store, device)


def request(address, method, path, body=None, headers=()):
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=600)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    except (BrokenPipeError, ConnectionResetError):
        return 413, {}, b""  # the server hung up while we were sending
    finally:
        connection.close()


@contextmanager
def visiting(address, headers):
    """The id of a session, as long as its page is open."""
    from streamlit.proto.BackMsg_pb2 import BackMsg
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

    client = pytest.importorskip("websockets.sync.client")
    stream = f"ws://{urlsplit(address).netloc}/_stcore/stream"
    with client.connect(stream, additional_headers=headers, max_size=None) as page:
        page.send(BackMsg(rerun_script={"query_string": ""}).SerializeToString())
        message = ForwardMsg()
        while message.WhichOneof("type") != "new_session":
            message.ParseFromString(page.recv(timeout=600))
        yield message.new_session.initialize.session_id


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("uploads") / "a.db"
    EventStore(path).close()
    with serving(path, "--max-upload-mb", "1") as (address, _):
        yield address


@pytest.fixture
def token(server):
    """The headers with which the server's own page sends."""
    status, headers, _ = request(server, "GET", "/_stcore/health")
    assert status == 200
    cookie = headers["set-cookie"].partition(";")[0]
    value = cookie.partition("=")[2].strip('"')
    return {**FORM, "X-Xsrftoken": value, "Cookie": cookie}


UPLOADS = "/_stcore/upload_file/{}/1"
FORM = {"Content-Type": "multipart/form-data; boundary=b"}


def form_of(size: int) -> bytes:
    head = 'Content-Disposition: form-data; name="f"; filename="../../x.log"'
    return f"--b\r\n{head}\r\n\r\n".encode() + b"x" * size + b"\r\n--b--\r\n"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_other_sites_cannot_send_for_a_visitor(method, server, token):
    """A browser sends the cookie along, but no other site can read its token."""
    forged = {**FORM, "X-Xsrftoken": "2|1|2|3", "Cookie": token["Cookie"]}
    only_cookie = {**FORM, "Cookie": token["Cookie"]}
    with visiting(server, {}) as session:
        path = UPLOADS.format(session)
        for headers in (FORM, only_cookie, forged):
            assert request(server, method, path, form_of(10), headers)[0] == 403
        assert request(server, method, path, form_of(10), token)[0] == 204
    nobody = UPLOADS.format("11111111-1111-1111-1111-111111111111")
    assert request(server, "PUT", nobody, form_of(10), token)[0] == 400


def test_an_upload_beyond_the_limit_is_refused(server, token):
    with visiting(server, {}) as session:
        path = UPLOADS.format(session)
        assert request(server, "PUT", path, form_of(MIB // 2), token)[0] == 204
        assert request(server, "PUT", path, form_of(MIB + 1000), token)[0] == 413
        assert request(server, "PUT", path, form_of(20 * MIB), token)[0] == 413


def test_the_server_listens_on_this_machine_only(server):
    port = urlsplit(server).port
    for address in _own_addresses():
        with socket.socket() as client:
            client.settimeout(2)
            assert client.connect_ex((address, port)) != 0
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) == 0


def test_a_page_of_another_name_gets_no_session(server):
    for header in ("Host", "Origin"):
        upgrade = {
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
        status = request(server, "GET", "/_stcore/stream", None, upgrade)[0]
        assert status == 101
        name = "evil.example" if header == "Host" else "http://evil.example"
        evil = {**upgrade, header: name}
        assert request(server, "GET", "/_stcore/stream", None, evil)[0] in (400, 403)


def _own_addresses() -> list[str]:
    """Addresses of this machine that others can reach."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    except OSError:
        return []
    return [a[4][0] for a in found if not a[4][0].startswith("127.")]
