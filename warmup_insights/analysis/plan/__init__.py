"""What other settings would give, predicted from one run."""

from __future__ import annotations
