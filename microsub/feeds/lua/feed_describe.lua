-- Sets and deletes fields of a feed's description, and notes the changes, to be announced.
--
-- Atomic: the note is written in the step that makes the change, so that no crash leaves an unannounced change without
-- one; unannounced changes by others stay in the note. A reading writes nothing if a later one has begun.
--
-- KEYS  1 feed
-- ARGV  1 reading: the one that writes, or ''  2 nonce: unique to this call  3 compared: how many fields follow that
--       are compared  4.. fields: per field: name, '1' to set or '' to delete, value; then the fields to write only if
--       any of these changed
-- reply {the names that changed, the note}: the note is 'nonce name name …', or '' if there is nothing to announce
-- include: fields
-- include: overtaken
if redis.call('EXISTS', KEYS[1]) == 0 or overtaken(KEYS[1], ARGV[1]) then return { '', '' } end
local behind = 4 + 3 * ARGV[3]

local changed = {}
for at = 4, behind - 1, 3 do
  local before = redis.call('HGET', KEYS[1], ARGV[at])
  local now = ARGV[at + 1] == '1' and ARGV[at + 2]
  if before ~= now then
    set_field(KEYS[1], ARGV[at], now)
    changed[#changed + 1] = ARGV[at]
  end
end
local note = redis.call('HGET', KEYS[1], 'untold') or ''
if #changed == 0 then return { '', note } end
for at = behind, #ARGV, 3 do set_field(KEYS[1], ARGV[at], ARGV[at + 1] == '1' and ARGV[at + 2]) end
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
