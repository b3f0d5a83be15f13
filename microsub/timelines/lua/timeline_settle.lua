-- Applies the rules of this moment to items: blocked ones leave, muted ones are hidden, others are shown.
--
-- Atomic per item: its URLs are held against the rules in the step that moves it, so mute and unmute at the same time end as
-- the rules do, whichever batch runs last: a rule is written before its first batch, and every batch obeys all rules that
-- stand. The read flag goes along, so the unread count follows of itself. Items that aren't in the channel are ignored.
--
-- KEYS  1 posts  2 unread  3 read  4 hidden  5 hidden-read  6 gone  7, 8 muted (channel, global)  9, 10 blocked
-- ARGV  1 now in whole seconds  2.. per item: id, n, n URLs of author and sources
-- reply 'id id …' that moved
-- include: reasons
-- include: enter
-- include: leave
-- include: rules

local sets = { posts = KEYS[1], unread = KEYS[2], read = KEYS[3], hidden = KEYS[4], hidden_read = KEYS[5], gone = KEYS[6] }
local mutes, blocks = some({ KEYS[7], KEYS[8] }), some({ KEYS[9], KEYS[10] })
local seconds = tonumber(ARGV[1])
local moved = {}

local at = 2
while at <= #ARGV do
  local id, urls = ARGV[at], {}
  for i = 1, tonumber(ARGV[at + 1]) do urls[i] = ARGV[at + 1 + i] end
  at = at + 2 + #urls
  local shown = redis.call('ZSCORE', sets.posts, id)
  local hidden = not shown and redis.call('ZSCORE', sets.hidden, id)
  if shown or hidden then
    local is_blocked = ruled(blocks, urls)
    local is_muted = not is_blocked and ruled(mutes, urls)
    local changes = is_muted == not hidden
    if is_blocked then
      leave(sets, id, seconds, BLOCKED)
    elseif changes then
      local read_at = redis.call('ZSCORE', shown and sets.read or sets.hidden_read, id)
      take_out(sets, id)
      enter(sets, id, shown or hidden, read_at, is_muted)
    end
    if is_blocked or changes then moved[#moved + 1] = id end
  end
end
return table.concat(moved, ' ')
