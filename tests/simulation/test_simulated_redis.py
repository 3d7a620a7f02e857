"""The Redis of the simulation replies as a real one does: random commands go to both."""

import random
import re
import time

import pytest
import redis
from redis_rig import redis_server
from simulated_redis import Data, Refused

from detok_py.bridge import redis_scripts as scripts
from detok_py.bridge.redis_link import key_of

pytestmark = [pytest.mark.native, pytest.mark.slow]

CLAIMS = ["one", "other"]
TAGS = ["ab", "cd"]
DEAD = '{"type":"error","code":4503'


def numbers(rng):
    return rng.choice([0, 0, 1, 2, 3, 10])


def random_call(rng):
    """Return a script and its arguments, as the store calls it."""
    claim, lease, ttl, grace = rng.choice(CLAIMS), 100_000, rng.choice([0, 90]), 0
    number, end = numbers(rng), numbers(rng)
    batch = (number, end, f"entry{number}", f"sha{number}", rng.choice([0, 0, 1]))
    return rng.choice(
        [
            (scripts.CLAIM, claim, rng.choice(["d", "e"]), lease, rng.choice([0, 0, 0, 10**9])),
            (scripts.APPEND, claim, lease, ttl, grace, 0, number),
            (
                scripts.APPEND,
                claim,
                lease,
                ttl,
                rng.choice([0, 10**9]),
                *batch,
                numbers(rng),
                "ids",
                "m",
            ),
            (
                scripts.RESTORE,
                claim,
                lease,
                90,
                grace,
                *batch,
                "d",
                numbers(rng),
                numbers(rng),
                "ids",
                "m",
            ),
            (
                scripts.LOOK,
                rng.choice(["0-0", "(1-1", f"{end}-0"]),
                ttl,
                rng.choice([0, 10**9]),
                DEAD,
            ),
            (scripts.ASK, rng.choice(["take", "ack", "cancel"]), numbers(rng), numbers(rng), ttl),
            (scripts.FORGET, claim),
        ]
    )


def random_commands(rng):
    """Return the words of a command."""
    tag = rng.choice(TAGS)
    keys = [key_of(tag, part) for part in ("run", "log", "asks", "lease")]
    if rng.random() < 0.8:
        script, *words = random_call(rng)
        return ["EVALSHA", script, 4, *keys, *words]
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
