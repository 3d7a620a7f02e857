"""The bridge: an asyncio server that streams tokens from a local engine over WebSocket (detok.v1).

Runs in: CPython.
Imports: captures, errors, decode, formats, page, protocol, tokenizers.
"""
