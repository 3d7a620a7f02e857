"""Tokens, vocabularies and streams as a notebook shows them, and a widget that plays a stream.

`tokens` lists the tokens of a text or a stream, and `html` draws what a notebook shows. `player` is
the widget, with `player.js` in the page; it needs anywidget (the extra `notebook`). `engine` asks a
bridge over a WebSocket.

Runs in: CPython, Pyodide by micropip.
Imports: errors, decode, protocol, tokenizers.
"""
