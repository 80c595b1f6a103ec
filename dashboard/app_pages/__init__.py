"""One module per page; each has a `render` function that `app.py` routes to."""
