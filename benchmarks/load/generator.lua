-- Sends the bodies of a file, one a line, in turn. Arguments: file, first line (from 0), mean pause in ms (0: none).
-- Pauses are exponential, so that requests of many connections arrive as they do from many people.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"

local bodies, at, pause_ms = {}, 0, 0

function init(arguments)
   for body in io.lines(arguments[1]) do bodies[#bodies + 1] = body end
   at, pause_ms = tonumber(arguments[2]), tonumber(arguments[3])
   math.randomseed(at + 1)
   if pause_ms == 0 then delay = nil end
end

function delay()
   return math.floor(-pause_ms * math.log(1 - math.random()) + 0.5)
end

function request()
   local body = bodies[at % #bodies + 1]
   at = at + 1
   return wrk.format(nil, nil, nil, body)
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format('\n{"requests": %d, "duration_s": %.6f, "p50_s": %.6f, "p99_s": %.6f, "failed": %d}\n',
      summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e6, latency:percentile(99) / 1e6,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
