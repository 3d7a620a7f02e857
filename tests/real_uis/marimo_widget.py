"""Tokens and a widget of detok_py in a notebook of marimo. Run it as `marimo run`."""

import marimo

app = marimo.App()


@app.cell
def _():
    import detok_py as d

    tokens = d.TokenList(None, [b"caf\xc3", b"\xa9 \xf0\x9f", b"\x98\x80!"])
    return d, tokens


@app.cell
def _(tokens):
    tokens  # noqa: B018 - marimo shows it


@app.cell
def _(d, tokens):
    d.widget(tokens)


if __name__ == "__main__":
    app.run()
