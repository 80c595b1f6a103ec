"""What `streamlit run` serves: the app, and the metrics of its runs for Prometheus."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dashboard.server import read_settings
from warmup_insights.drainer import open_store
from warmup_insights.errors import WarmupInsightsError
from warmup_insights.export.prometheus import prometheus_text
from warmup_insights.runs import current

MOST_RUNS = 100
"""Runs with metrics, the newest; each has some sixty samples at every scrape."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"


def metrics(request: Request) -> PlainTextResponse:
    """The newest runs as `export --format prometheus` writes them."""
    try:
        with open_store(read_settings().database) as store:
            newest = store.runs(limit=MOST_RUNS)
            text = prometheus_text([current(store, run).summary for run in newest])
    except WarmupInsightsError as error:
        return PlainTextResponse(f"{error}\n", status_code=503)
    return PlainTextResponse(text, media_type=TEXT)


HOSTS = list(st.get_option("server.allowedHosts")) or ["*"]
"""Names by which this server may be called, as for the pages; `*` is any."""
app = st.App(
    Path(__file__).with_name("app.py"),
    routes=[
        Route(
            "/metrics", metrics, methods=["GET"],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)],
        )
    ],
)  # fmt: skip
