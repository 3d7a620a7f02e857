"""`from __future__ import annotations` for MicroPython, which drops annotations anyway."""

annotations = None
