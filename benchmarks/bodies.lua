-- wrk script: POSTs the lines of a file, one after the other, and counts replies that say `"updated":1`.
-- Arguments: the file, and how many of its lines to skip (an earlier round has sent them).
-- After the last line it begins again.

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
dofile(here .. "/report.lua")

local bodies = {}
local position = 0
counted = 0

function init(args)
  for line in io.lines(args[1]) do
    bodies[#bodies + 1] = line
  end
  position = tonumber(args[2]) or 0
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
end

function request()
  position = position % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[position])
end

function response(status, headers, body)
  if body:find('"updated":1', 1, true) then
    counted = counted + 1
  end
end
