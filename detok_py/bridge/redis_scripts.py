"""The atomic operations of the Redis store: Lua scripts, each for one or several runs.

A run has four keys with one hash tag: `run` (a hash: the claim, the turn of the reader, its credit,
the state of the log), `log` (a stream to which the producer appends), `asks` (a stream to which
readers append) and `lease`, which exists while the producer lives. The id of an entry of the log is
its last position and the number of its batch, so the entries before an acknowledged position can be
dropped by their ids.

Each script takes the keys `run log asks lease` of each run, and for each run the number of its
arguments, and these. It returns a list with what is described here for each run.
"""

from ..protocol.reader import MAX_READERS

_COMMON = """
local function young(seconds)
  local up = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
  return up and tonumber(up) < tonumber(seconds)
end
local function keep(ttl)
  if ttl ~= '0' then for i = 1, 3 do redis.call('EXPIRE', KEYS[i], ttl) end end
end
"""


def _for_each(*parts: str) -> str:
    """Return the script that does for each run what `parts` do with KEYS and ARGV of one run."""
    return f"""
local function one(KEYS, ARGV)
{"".join(parts)}
end
local replies, at = {{}}, 1
for i = 1, #KEYS / 4 do
  local n = tonumber(ARGV[at])
  replies[i] = one({{unpack(KEYS, 4 * i - 3, 4 * i)}}, {{unpack(ARGV, at + 1, at + n)}})
  at = at + n + 1
end
return replies
"""


# The readers of a run, to order what they ask for as `Attempts` of protocol/reader.py does:
# `readers` are the ids of sessions, the latest last ('-' for a session without an id), and
# `attempt` is the number of the last attempt of the latest. Returns whether an attempt is the
# newest, and if so, notes it.
_ATTEMPTS = (
    f"""
local max_readers = {MAX_READERS + 1}
"""
    + """
local function newest(reader, attempt)
  local r = redis.call('HMGET', KEYS[1], 'readers', 'attempt')
  local readers, id = r[1] or '', reader == '' and '-' or reader
  if string.match(readers, '(%S*) $') ~= id then
    if id ~= '-' and string.find(' ' .. readers, ' ' .. id .. ' ', 1, true) then return false end
    readers = readers .. id .. ' '
    local _, many = string.gsub(readers, ' ', '')
    if many > max_readers then readers = string.match(readers, ' (.*)') end
  elseif tonumber(attempt) < tonumber(r[2]) then
    return false
  end
  redis.call('HSET', KEYS[1], 'readers', readers, 'attempt', attempt)
  return true
end
"""
)

# ARGV claim digest lease_ms grace reader attempt. Returns {claim, digest, whether it is confirmed}
# of the run. A claim expires with its lease until its owner confirms it, so an abandoned claim has
# no effect. A Redis that has just started ('young') may have lost runs: their producers restore
# them first.
CLAIM = _for_each(
    _COMMON,
    _ATTEMPTS,
    """
local held = redis.call('HMGET', KEYS[1], 'claim', 'digest', 'sure')
if held[1] then return {held[1], held[2], held[3] or ''} end
if young(ARGV[4]) then return {'young', '', ''} end
redis.call('DEL', KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'claim', ARGV[1], 'digest', ARGV[2], 'turn', 1, 'ack', 0, 'n', 0, 'pos', 0)
newest(ARGV[5], ARGV[6])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[4], ARGV[1], 'PX', ARGV[3])
return {ARGV[1], ARGV[2], ''}
""",
)

# ARGV claim lease_ms ttl grace number end [entry sha256 ended base [data model]]. Appends a batch
# if the caller owns the run; a batch that is sent twice is appended once. The first batch carries
# `data` and `model`. Number 0 only renews the lease; `end` is then the number of the last appended
# batch. Returns {'ok'} for a batch, {'ok', turn, ack, cancel, ttl} for number 0; {'lost', whether
# Redis is young}, if earlier batches are missing; {'fenced'}, if another replica owns the run;
# {'ended'}, if a reader has ended it.
APPEND = _for_each(
    _COMMON,
    """
local r = redis.call('HMGET', KEYS[1], 'claim', 'n', 'end', 'turn', 'ack', 'cancel')
if r[1] and r[1] ~= ARGV[1] then return {'fenced'} end
if r[3] == 'dead' then return {'ended'} end
local n, number = tonumber(r[2] or 0), tonumber(ARGV[5])
local gone = not r[1] or (n > 0 and redis.call('EXISTS', KEYS[2]) == 0)
local before = number > 0 and number - 1 or tonumber(ARGV[6])
if gone or n < before then
  return {'lost', young(ARGV[4]) and 1 or 0}
end
if n < number then
  redis.call('XADD', KEYS[2], ARGV[6] .. '-' .. number, 'b', ARGV[7])
  redis.call('HSET', KEYS[1], 'n', number, 'pos', ARGV[6], 'sha', ARGV[8])
  if n == 0 then redis.call('HSET', KEYS[1], 'data', ARGV[11], 'model', ARGV[12]) end
  if ARGV[9] == '1' then redis.call('HSET', KEYS[1], 'end', '1') end
  if ARGV[10] ~= '0' then redis.call('XTRIM', KEYS[2], 'MINID', ARGV[10] .. '-0') end
end
if number == 0 then redis.call('HSET', KEYS[1], 'sure', 1) end
keep(ARGV[3])
redis.call('SET', KEYS[4], ARGV[1], 'PX', ARGV[2])
if number > 0 then return {'ok'} end
redis.call('HDEL', KEYS[1], 'missed')
return {'ok', r[4], r[5], r[6] or '', redis.call('TTL', KEYS[1])}
""",
)

# ARGV claim lease_ms ttl grace number end entry sha256 ended digest turn ack data model. Restores a
# run of which Redis has lost all or the last part.
RESTORE = _for_each(
    _COMMON,
    """
local r = redis.call('HMGET', KEYS[1], 'claim', 'end', 'turn', 'ack', 'cancel', 'readers', 'attempt')
if r[1] and r[1] ~= ARGV[1] then return 'fenced' end
if r[2] == 'dead' then return 'ended' end
local turn, ack = ARGV[11], ARGV[12]
if r[3] and tonumber(r[3]) >= tonumber(turn) then turn, ack = r[3], r[4] end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[1], 'claim', ARGV[1], 'digest', ARGV[10], 'sure', 1, 'turn', turn, 'ack', ack,
  'n', ARGV[5], 'pos', ARGV[6], 'sha', ARGV[8], 'data', ARGV[13], 'model', ARGV[14])
if ARGV[9] == '1' then redis.call('HSET', KEYS[1], 'end', '1') end
if r[5] then redis.call('HSET', KEYS[1], 'cancel', 1) end
if r[6] then redis.call('HSET', KEYS[1], 'readers', r[6], 'attempt', r[7]) end
if ARGV[5] ~= '0' then
  redis.call('XADD', KEYS[2], ARGV[6] .. '-' .. ARGV[5], 'b', ARGV[7])
end
keep(ARGV[3])
redis.call('SET', KEYS[4], ARGV[1], 'PX', ARGV[2])
return 'ok'
""",
)

# ARGV from ttl grace dead. Returns what a reader lacks: {'ok', turn, data, model, position, end,
# digest, entries, ack, readers, attempt}; {'lost'}, if the log is gone; {'gone'}, if the run is;
# {'young'}, if the run may still be restored. If the producer is dead, this script ends the run,
# once, with the SHA-256 of the log. It first notes that the lease is missing, and waits a second:
# a Redis that is full refuses that, and then no producer can renew its lease either.
LOOK = _for_each(
    _COMMON,
    """
local r = redis.call('HMGET', KEYS[1], 'turn', 'data', 'model', 'pos', 'n', 'sha', 'end', 'digest', 'sure',
  'ack', 'readers', 'attempt', 'missed')
if not r[1] then return {young(ARGV[3]) and 'young' or 'gone'} end
local no_lease = r[9] and not r[7] and redis.call('EXISTS', KEYS[4]) == 0 and not young(ARGV[3])
if no_lease and not r[13] then
  redis.call('HSET', KEYS[1], 'missed', 1)
  redis.call('SET', KEYS[4], '', 'PX', 1000)
  no_lease = false
end
if r[9] then keep(ARGV[2]) end
if r[5] ~= '0' and redis.call('EXISTS', KEYS[2]) == 0 then return {'lost'} end
if no_lease then
  local entry = '{"s":' .. r[4] .. ',"e":' .. ARGV[4]
  if r[6] then entry = entry .. ',"sha256":"' .. r[6] .. '"' end
  redis.call('XADD', KEYS[2], r[4] .. '-' .. string.format('%d', r[5] + 1), 'b', entry .. '}}\\n')
  redis.call('EXPIRE', KEYS[2], math.max(1, redis.call('TTL', KEYS[1])))
  redis.call('HSET', KEYS[1], 'end', 'dead', 'n', r[5] + 1)
  r[7] = 'dead'
end
return {'ok', r[1], r[2] or '', r[3] or '', r[4], r[7] or '', r[8],
  redis.call('XRANGE', KEYS[2], ARGV[1], '+'), r[10], r[11] or '', r[12] or 0}
""",
)

# ARGV word turn ack ttl reader attempt. A reader takes the run over ('take' begins a new turn),
# gives credit ('ack') or cancels the run ('cancel'). Returns its turn; 0, if there is no such run;
# -1, if another reader has a later turn, or a newer attempt has taken the run. Restores a turn that
# Redis has lost.
ASK = _for_each(
    _COMMON,
    _ATTEMPTS,
    """
local turn = redis.call('HGET', KEYS[1], 'turn')
if not turn then return 0 end
if ARGV[1] == 'take' then
  if not newest(ARGV[5], ARGV[6]) then return -1 end
  turn = redis.call('HINCRBY', KEYS[1], 'turn', 1)
elseif tonumber(turn) > tonumber(ARGV[2]) then
  return -1
else
  if tonumber(turn) < tonumber(ARGV[2]) then newest(ARGV[5], ARGV[6]) end
  turn = ARGV[2]
  redis.call('HSET', KEYS[1], 'turn', turn)
end
redis.call('HSET', KEYS[1], 'ack', ARGV[3])
if ARGV[1] == 'cancel' then redis.call('HSET', KEYS[1], 'cancel', 1) end
redis.call('XADD', KEYS[3], 'MAXLEN', '~', '64', '*', 'w', ARGV[1], 't', turn, 'a', ARGV[3])
if redis.call('HGET', KEYS[1], 'sure') then keep(ARGV[4]) else redis.call('EXPIRE', KEYS[3], ARGV[4]) end
return tonumber(turn)
""",
)

# ARGV claim. Deletes a run of the caller; without a claim, one that its producer has ended without
# data.
FORGET = _for_each("""
local r = redis.call('HMGET', KEYS[1], 'claim', 'end', 'pos')
local failed = ARGV[1] == '' and r[2] == '1' and r[3] == '0'
if r[1] == ARGV[1] or failed then redis.call('DEL', unpack(KEYS)) end
return 1
""")

ALL = (CLAIM, APPEND, RESTORE, LOOK, ASK, FORGET)
