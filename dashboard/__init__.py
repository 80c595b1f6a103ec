"""The dashboard: pages in `app_pages/`, figures in `charts/`, loaders in `data.py`."""
