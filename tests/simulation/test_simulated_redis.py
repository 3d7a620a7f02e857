"""The Redis of the simulation replies as a real one does: random commands go to both."""

import random
import re
import time

import pytest
import redis
from redis_rig import redis_server
from simulated_redis import Data, Refused

from detok_py.bridge import redis_scripts as scripts
from detok_py.bridge.redis_link import PARTS, key_of
from detok_py.protocol.reader import ANYONE, MAX_READERS, Attempt, Attempts

pytestmark = [pytest.mark.native, pytest.mark.slow]

CLAIMS = ["one", "other"]
TAGS = ["ab", "cd"]
DEAD = '{"type":"error","code":4503'


def numbers(rng):
    return rng.choice([0, 0, 1, 2, 3, 10])


def random_call(rng):
    """Return a script and its arguments, as the store calls it."""
    claim, lease, ttl = rng.choice(CLAIMS), 100_000, rng.choice([0, 90])
    grace = rng.choice([0, 0, 0, 10**9])
    number, end, acked = numbers(rng), numbers(rng), numbers(rng)
    attempt = (rng.choice(["", "a", "ab", "b"]), numbers(rng))
    batch = (number, end, f"entry{number}", f"sha{number}", rng.choice([0, 0, 1]))
    start = ["ids", "m"] if number < 2 else []
    asked = rng.choice(["take", "take", "ack", "cancel"])
    return rng.choice(
        [
            (scripts.CLAIM, claim, rng.choice(["d", "e"]), lease, grace, *attempt),
            (scripts.APPEND, claim, lease, ttl, 0, 0, number),
            (scripts.APPEND, claim, lease, ttl, grace, *batch, acked, *start),
            (scripts.RESTORE, claim, lease, 90, 0, *batch, "d", acked, numbers(rng), "ids", "m"),
            (scripts.LOOK, rng.choice(["0-0", "(1-1", f"{end}-0"]), ttl, grace, DEAD),
            (scripts.ASK, asked, acked, numbers(rng), ttl, *attempt),
            (scripts.FORGET, rng.choice([claim, ""])),
        ]
    )


def random_commands(rng):
    """Return the words of a command."""
    if rng.random() < 0.8:
        script, *words = random_call(rng)
        calls = [words]
        for _ in range(numbers(rng) % 3):
            while (other := random_call(rng))[0] != script:
                pass
            calls.append(other[1:])
        tags = [rng.choice(TAGS) for _ in calls]
        keys = [key_of(tag, part) for tag in tags for part in PARTS]
        arguments = [word for words in calls for word in (len(words), *words)]
        return ["EVALSHA", script, len(keys), *keys, *arguments]
    tag = rng.choice(TAGS)
    keys = [key_of(tag, part) for part in PARTS]
    key = rng.choice(keys[1:3])
    return rng.choice(
        [
            ["DEL", rng.choice(keys)],
            ["EXISTS", rng.choice(keys)],
            ["TTL", rng.choice(keys)],
            ["EXPIRE", rng.choice(keys), 90],
            ["XREAD", "BLOCK", 1, "STREAMS", keys[1], keys[2], "0-0", "3-0"],
            ["XADD", key, "MAXLEN", "~", 1, "*", "w", ""],
            ["SET", keys[3], "x", "PX", 100_000],
            ["HGET", keys[0], "claim"],
            ["CONFIG", "SET", "maxmemory", rng.choice([0, 1])],
        ]
    )


def plain(reply):
    """Return a reply without what clocks say."""
    if isinstance(reply, (redis.ResponseError, Refused)):
        return "error"
    if isinstance(reply, dict):
        return [[plain(key), plain(value)] for key, value in reply.items()]
    if isinstance(reply, (list, tuple)):
        return [plain(part) for part in reply]
    if isinstance(reply, bytes) and re.fullmatch(rb"\d{10,}-\d+", reply):
        return "an id by the clock"
    return reply


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(10))
def test_a_real_redis_replies_the_same(seed):
    rng = random.Random(seed)
    with redis_server(keeps=False) as server:
        client = redis.Redis(unix_socket_path=server.url.removeprefix("unix://"))
        for reply in ("HELLO", "XREAD", "TTL", "EXISTS", "EXPIRE", "DEL", "SET", "HGET", "XADD"):
            client.response_callbacks.pop(reply, None)
        shas = {text: client.script_load(text) for text in scripts.ALL}
        for n in range(30):
            client.config_set("maxmemory", 0)
            client.flushall()
            data = Data(time.time)
            for text in scripts.ALL:
                data.do_script(b"LOAD", text.encode())
            for _ in range(rng.randrange(40)):
                words = [shas.get(word, word) for word in random_commands(rng)]
                sent = [str(word).encode() for word in words]
                try:
                    expected = client.execute_command(*words)
                except redis.ResponseError as error:
                    expected = error
                try:
                    found = data.run(sent)
                except Refused as error:
                    found = error
                assert plain(found) == plain(expected), (n, words)
        client.close()


@pytest.mark.parametrize("readers", [3, 2 * MAX_READERS])
def test_redis_orders_attempts_as_one_bridge_does(readers):
    rng = random.Random(readers)
    data = Data(time.time)
    keys = [key_of("ab", part).encode() for part in PARTS]

    def run(text, *words):
        sha = data.do_script(b"LOAD", text.encode())
        arguments = [str(word).encode() for word in (len(words), *words)]
        return data.run([b"EVALSHA", sha, b"4", *keys, *arguments])[0]

    refused = 0
    for _ in range(20):
        data.drop(keys[0])
        attempts = Attempts()
        attempts.add(Attempt("r0", 0))
        run(scripts.CLAIM, "one", "digest", 100_000, 0, *attempts.last)
        for _ in range(200):
            attempt = Attempt(f"r{rng.randrange(readers)}", rng.randrange(4))
            attempt = ANYONE if rng.random() < 0.02 else attempt
            older = attempts.are_after(attempt)
            turn = run(scripts.ASK, "take", 0, 0, 90, *attempt)
            assert (turn == -1) == older
            if not older:
                attempts.add(attempt)
            refused += older
    assert refused
