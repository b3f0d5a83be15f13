-- Takes items into one timeline, newest first.
--
-- Atomic per item: the subscription, the filter, `gone`, twins, block, mute and limit are asked and the item is written in
-- one step, so that nothing which happens at the same time (an unfollow, a mute, a removal, the same delivery again)
-- finds a gap. Running it again with the same items changes nothing: what stands in posts, hidden or `gone` is known.
--
-- An item that is in `gone` stays out, but for two reasons: it left unread by an unfollow, or it yielded to a twin that
-- has left by an unfollow since. (A twin whose partner isn't known here any more stays out: the partner may have been
-- read.)
--
-- Twins: where the winner stands and its feed is followed, the item goes to `gone` at once; a twin that yields, or whose
-- feed isn't followed any more, hands over its place with its read state; a twin that left for good (read, removed,
-- …) keeps the item out for the same reason. Of two that stand because nobody knew that they are twins, the one whose
-- feed isn't followed any more leaves; if it was read, the other one was.
--
-- A first fill may come in several parts: the first document that is read of a feed may be read twice, and be another
-- one by then. What its readings have that is older than the follow counts as one fill, whichever part comes first. What
-- is left of the unread slots stands in `unfilled` until posts of a later document come; without it there is none left.
--
-- The newest of a fill stay unread. What is blocked or muted takes up none of their slots, since nobody sees it; what
-- the reader is done with does: older posts don't become unread in its stead.
--
-- Filters are more than Lua can judge by. So the caller says by which filters it has chosen the items, and where the
-- channel has others the reply names these and nothing happens: what is added was chosen by the filters of that very
-- moment. The script runs for every subscriber of a feed, so each command counts here: most
-- timelines have neither rules nor hidden items, which one EXISTS says, and ZADD NX says whether an item stands already.
--
-- KEYS  1 channel  2 feeds  3 posts  4 unread  5 read  6 gone  7 unfilled  8 hidden  9 hidden-read
--       10, 11 muted (channel, global)  12, 13 blocked (channel, global)
-- ARGV  1 feed, or '' for an item of no feed  2 now  3, 4 what holds where the channel says nothing: its limit, 0 for
--       none, and how many of the newest of a first fill stay unread  5 '' or what the reply to the call before had last
--       (a first fill that goes on)  6 the filters by which the items were chosen, '' for none, '*' for
--       items that come in anyway, with 3 and 4 as they are
--       7.. per item, newest first: id, score, lines of URLs (author, sources), '' or 'id feed 1 id feed 0 …' of its
--       twins, 1 where that one wins; 1 where it is of its feed's first document, else '', and behind that 'a' for what
--       may have been in the timeline before, 'd' where besides nothing is known of what was read there
-- reply {'channel'} no such channel; {'feed'} not followed there; {'filters', filters} choose by these first; else
--       {'', added, read, hidden, suppressed, evicted, 'time of following n m' or ''}, lists of ids as 'id id …'; n is
--       how many items of the fill were given so far, m how many of them took a slot
-- include: reasons
-- include: enter
-- include: leave
-- include: rules
local FIRST_ITEM, FIELDS, AT_ONCE = 7, 5, 100

local call = redis.call
local head = call('HMGET', KEYS[1], 'name', 'removed', 'filters', 'max_items', 'first_fetch_unread')
if not head[1] or head[2] then return { 'channel' } end
local feed, now, chosen_by = ARGV[1], ARGV[2], ARGV[6]
if feed ~= '' and call('HEXISTS', KEYS[2], feed) == 0 then return { 'feed' } end
local limit, fresh = tonumber(ARGV[3]), tonumber(ARGV[4])
if chosen_by ~= '*' then
  if chosen_by ~= (head[3] or '') then return { 'filters', head[3] or '' } end
  limit, fresh = tonumber(head[4]) or limit, tonumber(head[5]) or fresh
end

local posts, unread, gone = KEYS[3], KEYS[4], KEYS[6]
local sets = { posts = posts, unread = unread, read = KEYS[5], hidden = KEYS[8], hidden_read = KEYS[9], gone = gone }
local given = (#ARGV - FIRST_ITEM + 1) / FIELDS
local filled_from, is_hiding, mutes, blocks = '', false, nil, nil
local goes_on, left_unread, unfilled = false, 0, nil
-- Of this fill so far: how many items were given, and how many of the slots that stay unread are taken.
local given_before, slots = 0, 0
if ARGV[5] ~= '' then
  filled_from, given_before, slots = string.match(ARGV[5], '^(%S+) (%d+) (%d+)$')
  given_before, slots = tonumber(given_before), tonumber(slots)
end
if call('EXISTS', unpack(KEYS, 7)) > 0 then
  is_hiding = call('EXISTS', KEYS[8], KEYS[9]) > 0
  mutes, blocks = some({ KEYS[10], KEYS[11] }), some({ KEYS[12], KEYS[13] })
  -- A feed that had nothing isn't filled yet; one whose items were all filtered out is.
  local since = feed ~= '' and (#ARGV >= FIRST_ITEM or chosen_by ~= '') and call('HGET', KEYS[7], feed)
  if since then
    unfilled = since
    goes_on = string.sub(since, 1, 5) == 'left '
    if goes_on then
      left_unread = tonumber(string.sub(since, 6)) or 0
    else
      filled_from = since
    end
    call('HDEL', KEYS[7], feed)
  end
end
local read_before = tonumber(filled_from)
local added, read, hidden, suppressed, evicted = {}, {}, {}, {}, {}

-- Posts of the first document that were published before the follow are as old as the first fill, which they come after.
-- What comes again, from a rebuild, was in the timeline before, as a rule: what was read of it is in `read` or in `gone`.
local again = string.match(ARGV[FIRST_ITEM + 4] or '', '[ad]')
local followed_at
local old_given = 0
local function is_old(score)
  if not followed_at then
    local subscription = feed ~= '' and call('HGET', KEYS[2], feed) or ''
    followed_at = tonumber(string.match(subscription, '"followed_at":([%d.eE+-]+)')) or 0
  end
  return tonumber(score) < followed_at
end

local function stands(id)
  return call('ZSCORE', posts, id) or (is_hiding and call('ZSCORE', sets.hidden, id))
end

-- A timeline that was lost may have left its read set behind: what was read once stays read.
local function time_of_reading(id)
  return call('ZSCORE', sets.read, id) or (is_hiding and call('ZSCORE', sets.hidden_read, id))
end

-- What the twins say: a reason of gone that takes the item along, or the list of those that hand over; and whether any
-- of them is known here.
local function yields(twins)
  local over, heard = {}, false
  for id, from, wins in string.gmatch(twins, '(%S+) (%S+) (%d)') do
    local left = call('ZSCORE', gone, id)
    if left then
      local reason = reason_of(left)
      if reason == UNFOLLOWED then
        heard = true
      elseif reason ~= TWIN then
        return reason, {}, true
      end
    elseif stands(id) then
      heard = true
      if wins == '1' and call('HEXISTS', KEYS[2], from) == 1 then return TWIN, {}, true end
      over[#over + 1] = id
    end
  end
  return nil, over, heard
end

-- Lets the oldest go where an item that was just added has made the timeline too long; false when that is the item.
local function fits(id)
  local excess = call('ZCARD', posts) - limit
  if excess < 1 then return true end
  if excess > AT_ONCE and call('ZRANK', posts, id) < excess then return false end
  local oldest = call('ZRANGE', posts, 0, math.min(excess, AT_ONCE) - 1)
  for _, out in ipairs(oldest) do
    if out == id then return false end
  end
  for _, out in ipairs(oldest) do
    call('ZREM', posts, out)
    if call('ZREM', unread, out) == 0 then call('ZREM', sets.read, out) end
    call('ZADD', gone, gone_at(math.floor(tonumber(now)), EVICTED), out)
    evicted[#evicted + 1] = out
  end
  return true
end

-- Takes out twins of an item that stands itself.
local function unite(id, twins)
  for one, from in string.gmatch(twins, '(%S+) (%S+) %d') do
    if stands(one) and call('HEXISTS', KEYS[2], from) == 0 then
      local read_at = time_of_reading(one)
      leave(sets, one, math.floor(tonumber(now)), TWIN)
      if read_at and call('ZREM', unread, id) == 1 then call('ZADD', sets.read, read_at, id) end
    end
  end
end

-- `given` is the number of items of this fill that were given before.
local function take(id, score, lines, twins, is_first, given)
  if again and is_old(score) then old_given = old_given + 1 end
  local left = call('ZSCORE', gone, id)
  local left_as = left and reason_of(left)
  if left and not MAY_RETURN[left_as] then
    if left_as ~= BLOCKED then slots = slots + 1 end
    suppressed[#suppressed + 1] = id
    return
  end
  if (mutes or left or twins ~= '') and stands(id) then
    if call('ZSCORE', posts, id) then slots = slots + 1 end
    unite(id, twins)
    return
  end
  local reason, over, heard
  if left_as == TWIN or twins ~= '' then
    reason, over, heard = yields(twins)
    if reason or (left_as == TWIN and not heard) then
      if reason then leave(sets, id, math.floor(tonumber(now)), reason) end
      slots = slots + 1
      suppressed[#suppressed + 1] = id
      return
    end
  end
  local is_muted = false
  if mutes then
    local urls = {}
    for url in string.gmatch(lines, '[^\n]+') do urls[#urls + 1] = url end
    if ruled(blocks, urls) then
      suppressed[#suppressed + 1] = id
      return
    end
    is_muted = ruled(mutes, urls)
  end
  local hands_over = over and #over > 0
  local read_at
  if hands_over then
    -- What a twin hands over is a slot that the timeline had already.
    read_at = time_of_reading(id)
    for _, one in ipairs(over) do read_at = read_at or time_of_reading(one) end
    for _, one in ipairs(over) do leave(sets, one, math.floor(tonumber(now)), TWIN) end
  end
  if not is_muted then
    if call('ZADD', posts, 'NX', score, id) == 0 then
      slots = slots + 1
      return
    end
    if limit > 0 and not hands_over and not fits(id) then
      call('ZREM', posts, id)
      return
    end
  end
  if not hands_over then
    read_at = time_of_reading(id)
    if not read_at and again and not read_before then
      -- Newer ones never came, or were unread; of older ones what the rule of the first fill leaves unread.
      if again == 'd' or (is_old(score) and old_given > fresh) then read_at = now end
    elseif not read_at and read_before then
      if (is_muted and given or slots) >= fresh and tonumber(score) < read_before then read_at = now end
    elseif not read_at and is_first and is_old(score) then
      if left_unread <= 0 then
        read_at = now
      elseif not is_muted then
        left_unread = left_unread - 1
      end
    end
  end
  if not is_muted then slots = slots + 1 end
  if left then call('ZREM', gone, id) end
  if is_muted then
    enter(sets, id, score, read_at, true)
    is_hiding = true
    hidden[#hidden + 1] = id
  else
    show_state(sets, id, score, read_at)
    local came = read_at and read or added
    came[#came + 1] = id
  end
end

local are_first = true
for at = FIRST_ITEM, #ARGV, FIELDS do
  local is_first = string.sub(ARGV[at + 4], 1, 1) == '1'
  are_first = are_first and is_first
  take(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], is_first, given_before + (at - FIRST_ITEM) / FIELDS)
end
if unfilled and (are_first or (again and goes_on)) then
  if not goes_on or read_before then left_unread = fresh - slots end
  if left_unread > 0 then call('HSET', KEYS[7], feed, string.format('left %d', left_unread)) end
end
local filled = filled_from ~= '' and string.format('%s %d %d', filled_from, given_before + given, slots) or ''
local function joined(ids) return table.concat(ids, ' ') end
return { '', joined(added), joined(read), joined(hidden), joined(suppressed), joined(evicted), filled }
