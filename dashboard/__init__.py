"""The dashboard: pages in `app_pages/`, figures in `charts*.py`, loaders in `data.py`."""
