-- urls_of(lines): an item's URLs, which a script is given one on each line.
local function urls_of(lines)
  local urls = {}
  for url in string.gmatch(lines, '[^\n]+') do urls[#urls + 1] = url end
  return urls
end

-- ruled(hashes_of_urls, urls): whether any of the rule hashes holds any of the item's URLs (author's and sources').
local function ruled(keys, urls)
  if #urls == 0 then return false end
  for _, key in ipairs(keys) do
    for _, found in ipairs(redis.call('HMGET', key, unpack(urls))) do
      if found then return true end
    end
  end
  return false
end

-- some(keys): those that exist, so that a reader without rules pays for one EXISTS and no more.
local function some(keys)
  local there = {}
  if redis.call('EXISTS', unpack(keys)) == 0 then return there end
  for _, key in ipairs(keys) do
    if redis.call('EXISTS', key) == 1 then there[#there + 1] = key end
  end
  return there
end
