-- Sets and deletes what is known of a feed, and notes what of it is not as it was, to be announced.
--
-- Atomic: the note is written in the step that changes anything, so that no crash leaves a change that nobody hears of;
-- and what others have changed and not announced yet stays in it. A reading writes nothing when a later one has begun.
--
-- KEYS  1 feed
-- ARGV  1 the reading that writes, or ''  2 a nonce, which no other call has  3 how many fields follow that are compared
--       4.. per field: name, '1' to set or '' to delete, value; behind those, the fields that are written only where any
--       of them is not as it was
-- reply {the names that changed, the note}: the note is 'nonce name name …', or '' where nothing is to be announced
-- include: overtaken
if redis.call('EXISTS', KEYS[1]) == 0 or overtaken(KEYS[1], ARGV[1]) then return { '', '' } end
local behind = 4 + 3 * ARGV[3]

local function write(at)
  if ARGV[at + 1] == '1' then
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2])
  else
    redis.call('HDEL', KEYS[1], ARGV[at])
  end
end

local changed = {}
for at = 4, behind - 1, 3 do
  local before = redis.call('HGET', KEYS[1], ARGV[at])
  local now = ARGV[at + 1] == '1' and ARGV[at + 2]
  if before ~= now then
    write(at)
    changed[#changed + 1] = ARGV[at]
  end
end
local note = redis.call('HGET', KEYS[1], 'untold') or ''
if #changed == 0 then return { '', note } end
for at = behind, #ARGV, 3 do write(at) end
local names, known = {}, {}
local function add(name)
  if not known[name] then names[#names + 1] = name end
  known[name] = true
end
for name in string.gmatch(string.match(note, ' .*') or '', '%S+') do add(name) end
for _, name in ipairs(changed) do add(name) end
note = ARGV[2] .. ' ' .. table.concat(names, ' ')
redis.call('HSET', KEYS[1], 'untold', note)
return { table.concat(changed, ' '), note }
