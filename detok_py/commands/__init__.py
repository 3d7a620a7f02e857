"""Subcommands of `detok` that need no server and no browser.

Runs in: CPython.
Imports: errors, decode, formats, tokenizers.
"""
