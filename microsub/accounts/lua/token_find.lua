-- Reads an access token with its user, and the source of which it is the token or to which its app posts.
--
-- Atomic: a token, its grant and its source end in separate steps, of which this sees one state. Writes nothing.
--
-- KEYS  1 user  2 token  3 sources
-- ARGV  1 grant_pattern  2 mark: prefix of the mark of a source's token
-- reply {scope, client, created, expires, foreign, grant, mark}, {me, created, disabled of the user}, the source's id
--       or '', its record or nothing
local token = redis.call('HMGET', KEYS[2], 'scope', 'client', 'created', 'expires', 'foreign', 'grant', 'mark')
local user = redis.call('HMGET', KEYS[1], 'me', 'created', 'disabled')
local grant, mark, source = token[6], token[7], false
if mark and mark:sub(1, #ARGV[2]) == ARGV[2] then
  source = mark:sub(#ARGV[2] + 1)
elseif grant then
  source = redis.call('HGET', (ARGV[1]:gsub('%*', grant)), 'source')
end
return { token, user, source or '', source and redis.call('HGET', KEYS[3], source) }
