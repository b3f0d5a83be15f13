-- wrk script: prints the figures as one JSON line, latencies in microseconds (https://github.com/wg/wrk, SCRIPTING).

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function done(summary, latency, requests)
  local counted = 0
  for _, thread in ipairs(threads) do
    counted = counted + (thread:get("counted") or 0)
  end
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"microseconds":%d,"p50":%d,"p99":%d,"failed":%d,"counted":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout, counted))
end
