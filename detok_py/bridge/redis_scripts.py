"""What the Redis store does atomically: Lua scripts, each on the keys of one run.

A run has five keys with one hash tag: `own` (the digest of its request, and whose it is), `run` (a
hash: who produces and who reads it, the epoch of the reader and its credit, what the log has), `log`
and `cmd` (streams), and `lease`, which is there for as long as the producer lives. The id of an
entry of the log is its last position and the number of its batch, so the entries before an
acknowledged position can be dropped by their ids.
"""

_YOUNG = """
local function young(seconds)
  local up = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
  return up and tonumber(up) < tonumber(seconds)
end
"""

# KEYS own run log cmd lease; ARGV value replica ttl lease_ms grace.
# A store that has just been started may have lost runs; their producers put them back first.
CLAIM = (
    _YOUNG
    + """
local held = redis.call('GET', KEYS[1])
if held then return {'held', held} end
if young(ARGV[5]) then return {'young', ''} end
redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[3])
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
redis.call('HSET', KEYS[2], 'producer', ARGV[2], 'reader', ARGV[2], 'epoch', 1, 'ack', 0, 'n', 0, 'pos', 0)
redis.call('EXPIRE', KEYS[2], ARGV[3])
redis.call('SET', KEYS[5], ARGV[1], 'PX', ARGV[4])
return {'held', ARGV[1]}
"""
)

# KEYS own run log cmd lease; ARGV value n end blob sha lease_ms data model ended base replica
# channel tag. Appends a batch once, however often it is sent.
APPEND = """
local held = redis.call('GET', KEYS[1])
local r = redis.call('HMGET', KEYS[2], 'n', 'end', 'reader')
if not held or not r[1] then return 'lost' end
if held ~= ARGV[1] then return 'fenced' end
local n = tonumber(r[1])
if r[2] == 'dead' then return 'ended' end
if n >= tonumber(ARGV[2]) then return 'ok' end
if n < tonumber(ARGV[2]) - 1 then return 'lost' end
local id = ARGV[3] .. '-' .. ARGV[2]
redis.call('XADD', KEYS[3], id, 'b', ARGV[4])
if n == 0 then redis.call('EXPIRE', KEYS[3], math.max(1, redis.call('TTL', KEYS[1]))) end
redis.call('HSET', KEYS[2], 'n', ARGV[2], 'pos', ARGV[3], 'sha', ARGV[5], 'data', ARGV[7], 'model', ARGV[8])
if ARGV[9] == '1' then redis.call('HSET', KEYS[2], 'end', '1') end
if ARGV[10] ~= '0' then redis.call('XTRIM', KEYS[3], 'MINID', ARGV[10] .. '-0') end
redis.call('SET', KEYS[5], ARGV[1], 'PX', ARGV[6])
if r[3] ~= ARGV[11] then
  redis.call('PUBLISH', ARGV[12] .. r[3], 'D' .. ARGV[13] .. id .. ' ' .. ARGV[4])
end
return 'ok'
"""

# KEYS own run log cmd lease; ARGV value replica reader epoch ack n end blob sha data model ended ttl
# lease_ms channel tag. Puts a run back that the store has lost, or has lost the last part of.
RESTORE = """
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return 'fenced' end
local r = redis.call('HMGET', KEYS[2], 'n', 'end', 'epoch', 'reader', 'ack')
if r[2] == 'dead' then return 'ended' end
local epoch, reader, ack = ARGV[4], ARGV[3], ARGV[5]
if r[3] and tonumber(r[3]) >= tonumber(epoch) then epoch, reader, ack = r[3], r[4], r[5] end
redis.call('DEL', KEYS[2], KEYS[3])
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[13])
redis.call('HSET', KEYS[2], 'producer', ARGV[2], 'reader', reader, 'epoch', epoch, 'ack', ack,
  'n', ARGV[6], 'pos', ARGV[7], 'sha', ARGV[9], 'data', ARGV[10], 'model', ARGV[11])
if ARGV[12] == '1' then redis.call('HSET', KEYS[2], 'end', '1') end
redis.call('EXPIRE', KEYS[2], ARGV[13])
if tonumber(ARGV[6]) > 0 then
  local id = ARGV[7] .. '-' .. ARGV[6]
  redis.call('XADD', KEYS[3], id, 'b', ARGV[8])
  redis.call('EXPIRE', KEYS[3], ARGV[13])
  if reader ~= ARGV[2] then
    redis.call('PUBLISH', ARGV[15] .. reader, 'D' .. ARGV[16] .. id .. ' ' .. ARGV[8])
  end
end
redis.call('SET', KEYS[5], ARGV[1], 'PX', ARGV[14])
return 'ok'
"""

# KEYS own run log cmd lease; ARGV value lease_ms ttl since grace. The producer's look, twice a
# second.
RENEW = (
    _YOUNG
    + """
local held = redis.call('GET', KEYS[1])
local r = redis.call('HMGET', KEYS[2], 'epoch', 'ack', 'reader', 'end')
if not held or not r[1] then return {'lost', young(ARGV[5]) and 1 or 0} end
if held ~= ARGV[1] then return {'fenced'} end
if ARGV[3] ~= '0' then
  for i = 1, 4 do redis.call('EXPIRE', KEYS[i], ARGV[3]) end
end
if r[4] == 'dead' then return {'ended'} end
redis.call('SET', KEYS[5], ARGV[1], 'PX', ARGV[2])
return {'ok', r[1], r[2], r[3], redis.call('XRANGE', KEYS[4], '(' .. ARGV[4] .. '-0', '+')}
"""
)

# KEYS own run log cmd lease; ARGV from ttl grace dead channel tag. What a reader is missing. If the
# producer is dead, the run is ended here, once, with the sum of what the log has.
FOLLOW = (
    _YOUNG
    + """
local r = redis.call('HMGET', KEYS[2], 'epoch', 'reader', 'data', 'model', 'pos', 'n', 'sha', 'end')
if redis.call('EXISTS', KEYS[1]) == 0 or not r[1] then
  return {young(ARGV[3]) and 'young' or 'gone'}
end
if ARGV[2] ~= '0' then
  for i = 1, 4 do redis.call('EXPIRE', KEYS[i], ARGV[2]) end
end
if not r[8] and redis.call('EXISTS', KEYS[5]) == 0 and not young(ARGV[3]) then
  local blob = '{"s":' .. r[5] .. ',"e":' .. ARGV[4]
  if r[7] then blob = blob .. ',"sha256":"' .. r[7] .. '"' end
  blob = blob .. '}}\\n'
  local id = r[5] .. '-' .. string.format('%d', tonumber(r[6]) + 1)
  redis.call('XADD', KEYS[3], id, 'b', blob)
  redis.call('EXPIRE', KEYS[3], math.max(1, redis.call('TTL', KEYS[1])))
  redis.call('HSET', KEYS[2], 'end', 'dead')
  redis.call('PUBLISH', ARGV[5] .. r[2], 'D' .. ARGV[6] .. id .. ' ' .. blob)
end
return {'ok', r[1], r[2], r[3] or '', r[4] or '', r[5],
  redis.call('XRANGE', KEYS[3], ARGV[1], '+'), redis.call('GET', KEYS[1])}
"""
)

# KEYS own run log cmd lease; ARGV kind replica after ttl epoch channel tag. A reader takes the run
# over, or cancels it: both are commands with an epoch of their own.
COMMAND = """
local r = redis.call('HMGET', KEYS[2], 'producer', 'reader', 'epoch')
if not r[1] or redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[1] == 'cancel' and tonumber(r[3]) > tonumber(ARGV[5]) then return -1 end
local epoch = redis.call('HINCRBY', KEYS[2], 'epoch', 1)
redis.call('HSET', KEYS[2], 'reader', ARGV[2], 'ack', ARGV[3])
redis.call('XADD', KEYS[4], 'MAXLEN', '~', '64', epoch .. '-0', 'k', ARGV[1], 'r', ARGV[2], 'a', ARGV[3])
for i = 1, 4 do redis.call('EXPIRE', KEYS[i], ARGV[4]) end
if r[2] ~= ARGV[2] then
  redis.call('PUBLISH', ARGV[6] .. r[2], 'T' .. ARGV[7] .. epoch)
end
if r[1] ~= ARGV[2] then
  redis.call('PUBLISH', ARGV[6] .. r[1], 'C' .. ARGV[7] .. epoch .. ' ' .. ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3])
end
return epoch
"""

# KEYS own run log cmd lease; ARGV epoch n replica channel tag. The credit of the reader of an epoch.
ACK = """
local r = redis.call('HMGET', KEYS[2], 'epoch', 'producer')
if not r[1] then return 0 end
if tonumber(r[1]) > tonumber(ARGV[1]) then return -1 end
redis.call('HSET', KEYS[2], 'ack', ARGV[2])
redis.call('PUBLISH', ARGV[4] .. r[2], 'A' .. ARGV[5] .. ARGV[1] .. ' ' .. ARGV[2])
return 1
"""

# KEYS own run log cmd lease; ARGV value.
FORGET = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', unpack(KEYS)) end
return 1
"""

ALL = (CLAIM, APPEND, RESTORE, RENEW, FOLLOW, COMMAND, ACK, FORGET)
