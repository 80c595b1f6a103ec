"""Archives: their logs are read as if they lay in a folder, damaged ones as far as they go."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile

import pytest
import zstandard

from tests.cli.decisions import invoke
from tests.helpers import ROOT
from warmup_insights.ingest import bundles

LOG = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
POD = "var/log/pods/serving_vllm-0_0123abcd-0123-4567-89ab-0123456789ab/engine/3.log"
WRITTEN_AT = 1_722_500_000


def tar_of(files, mode="w"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), WRITTEN_AT
            tar.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return buffer.getvalue()


def zip_of(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, date_time=(2024, 8, 1, 8, 0, 0))
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


FILES = {
    POD: LOG.read_bytes(),
    "../../outside.log": b"nothing here\n",
    "notes.md": b"x",
}
ARCHIVES = {
    "b.zip": zip_of(FILES),
    "b.tar": tar_of(FILES),
    "b.tar.gz": tar_of(FILES, "w:gz"),
    "b.tgz": tar_of(FILES, "w:gz"),
    "dot.tar": tar_of({f"./{name}": data for name, data in FILES.items()}),
    "b.tar.zst": zstandard.ZstdCompressor().compress(tar_of(FILES)),
}


def ingest(path, tmp_path, *options):
    result = invoke("ingest", path, "--db", tmp_path / "runs.db", "--json", *options)
    return result, {f["path"]: f for f in json.loads(result.stdout)["files"]}


@pytest.mark.parametrize("name", ARCHIVES)
def test_logs_of_an_archive_are_read_and_nothing_else(tmp_path, name):
    bundle = tmp_path / name
    bundle.write_bytes(ARCHIVES[name])
    _, files = ingest(bundle, tmp_path)
    assert set(files) == {f"{bundle}/{POD}", f"{bundle}/../../outside.log"}
    (run_id,) = files[f"{bundle}/{POD}"]["runs"]
    shown = json.loads(
        invoke("show", run_id, "--json", "--db", tmp_path / "runs.db").stdout
    )
    assert shown["source"]["name"] == "serving_vllm-0_engine_3.log"
    assert shown["time"]["started_at"].startswith("2024-08")
    assert not (tmp_path.parent / "outside.log").exists()
    _, files = ingest(bundle, tmp_path)
    assert files[f"{bundle}/{POD}"]["state"] == "unchanged"


@pytest.mark.long
def test_several_processes_give_the_same(tmp_path):
    bundle = tmp_path / "b.zip"
    bundle.write_bytes(zip_of({f"{n}/server.log": LOG.read_bytes() + b"%d\n" % n
                               for n in range(6)}))  # fmt: skip
    _, files = ingest(bundle, tmp_path, "--jobs", "2")
    assert len(files) == 6
    assert all(len(file["runs"]) == 1 for file in files.values())


def test_a_damaged_archive_gives_what_it_can(tmp_path):
    whole = tar_of({"a.log": LOG.read_bytes(), "b.log": os.urandom(400_000)})
    bundle = tmp_path / "b.tar"
    bundle.write_bytes(whole[: len(LOG.read_bytes()) + 5_000])
    result, files = ingest(bundle, tmp_path)
    assert result.exit_code == 1
    assert len(files[f"{bundle}/a.log"]["runs"]) == 1
    assert "what could be unpacked was read" in files[str(bundle)]["error"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"not an archive at all", "nothing was read"),
        (zip_of({"notes.md": b"x"}), "none of them named like a log"),
        (zip_of({}), "none of them named like a log"),
    ],
)
def test_an_archive_without_logs_is_one_sentence(tmp_path, data, words):
    bundle = tmp_path / "b.zip"
    bundle.write_bytes(data)
    (tmp_path / "good.log").write_bytes(LOG.read_bytes())
    found = invoke(
        "ingest", bundle, tmp_path / "good.log", "--db", tmp_path / "runs.db", "--json"
    )
    bad, good = json.loads(found.stdout)["files"]
    assert words in bad["error"]
    assert len(good["runs"]) == 1
    alone = invoke("ingest", bundle, "--db", tmp_path / "other.db", "--json")
    assert words in str(alone.exception) or words in alone.output


def test_an_archive_that_unpacks_to_far_too_much_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(bundles, "RATIO_FROM", 1 << 20)
    monkeypatch.setattr(bundles, "MAX_RATIO", 2)
    bomb = zip_of({f"{n}.log": bytes(3 << 20) for n in range(5)})
    found = bundles.unpack(io.BytesIO(bomb), "b.zip", tmp_path / "out")
    assert "far more" in found[-1].problem
    total = sum(f.stat().st_size for f in (tmp_path / "out").rglob("*.log"))
    assert total < 4 << 20


def test_show_names_the_way_for_an_archive(tmp_path):
    bundle = tmp_path / "b.zip"
    bundle.write_bytes(ARCHIVES["b.zip"])
    assert "use ingest" in str(invoke("show", bundle).exception)
