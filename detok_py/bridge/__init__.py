"""The bridge: any local engine on one side, detok.v1 over a WebSocket on the other. The asyncio rim around wire.py and session.py."""
