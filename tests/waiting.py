"""Waiting for what a test means: a failure names the condition and the values that it saw last."""

import ast
import asyncio
import inspect
import textwrap
import time


async def eventually(condition, seconds=60.0):
    """Wait until a condition, written as a lambda, holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, told(condition, seconds)
        await asyncio.sleep(0.01)


def eventually_sync(condition, seconds=60.0):
    """Do the same where no event loop runs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, told(condition, seconds)
        time.sleep(0.01)


async def arriving(chunks):
    """Yield the chunks, each in a turn of the loop of its own."""
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


def told(condition, seconds):
    """Return the sentence that names a condition and the values of what it compares.

    >>> runs = {"a": 7}
    >>> told(lambda: len(runs) > 1 or not runs["a"], 60)
    "after 60 s not yet: len(runs) > 1 or not runs['a']; last seen: len(runs) = 1, runs['a'] = 7"
    """
    source = textwrap.dedent(inspect.getsource(condition)).strip()
    try:
        tree = ast.parse(source)
    except SyntaxError:  # the lambda is in a statement that goes on
        return f"after {seconds:g} s not yet: {source}"
    body = next(node for node in ast.walk(tree) if isinstance(node, ast.Lambda)).body
    names = {**condition.__globals__, **inspect.getclosurevars(condition).nonlocals}
    seen = {ast.unparse(node): node for node in compared(body)}
    values = ", ".join(f"{part} = {value(node, names)}" for part, node in seen.items())
    return f"after {seconds:g} s not yet: {ast.unparse(body)}; last seen: {values}"


def compared(node):
    """Return the parts of an expression whose values decide it."""
    match node:
        case ast.BoolOp(values=parts):
            return [part for each in parts for part in compared(each)]
        case ast.UnaryOp(operand=operand):
            return compared(operand)
        case ast.Compare(left=left, comparators=others):
            return [part for each in (left, *others) for part in compared(each)]
        case ast.Constant():
            return []
    return [node]


def value(node, names):
    """Return the value of an expression as it is shown, or why it has none."""
    try:
        shown = repr(eval(compile(ast.Expression(node), "", "eval"), names))
    except Exception as error:
        shown = repr(error)
    return shown if len(shown) <= 300 else f"{shown[:300]}…"
