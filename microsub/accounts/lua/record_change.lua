-- Sets and deletes fields of an existing record: of a user, a session, a grant, a token.
--
-- Atomic: the check and the write, so that nothing is written for a user that never existed, and a record that has ended
-- meanwhile isn't created again. A change of the user's identity also deletes what the former provider said of tokens.
--
-- KEYS  1 record  2.. others: with the same lifetime; or foreign, networks, and further keys of that identity, if these
--       are to be deleted
-- ARGV  1 field: that every such record has  2 life?: seconds that all keys live from now on, or ''  3 token_pattern?:
--       to delete the stored tokens of other providers, or ''  4.. fields: pairs of field and value; an empty value
--       deletes the field, except for the one that every record has
-- reply 0: there is none; 1
-- include: fields
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
for i = 4, #ARGV, 2 do
  local stays = ARGV[i + 1] ~= '' or ARGV[i] == ARGV[1]
  set_field(KEYS[1], ARGV[i], stays and ARGV[i + 1])
end
if ARGV[2] ~= '' then
  for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[2]) end
end
if ARGV[3] ~= '' then
  for _, digest in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    redis.call('DEL', (string.gsub(ARGV[3], '%*', digest)))
  end
  for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end
end
return 1
