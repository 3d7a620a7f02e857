"""What a page complains of."""

from typing import Any

WRONG = ("error", "warning")


def heard(page: Any, *kinds: str) -> list[str]:
    """Return a list that takes the console's messages of a page, of these kinds or of all, and the
    errors of its scripts, each as "kind: text".
    """
    complaints: list[str] = []

    def hear(message: Any) -> None:
        if message.type in kinds or not kinds:
            complaints.append(f"{message.type}: {message.text}")

    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(f"pageerror: {error}"))
    return complaints
