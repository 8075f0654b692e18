-- Asks Keyrun whether a request may pass: docs/guard.md. HAProxy's `haproxy.cfg` in this folder loads
-- it. For HAProxy 2.6 or newer.

-- What Keyrun needs of the request. It gets no more, and never a body.
local asked = { "authorization", "x-api-key", "x-forwarded-for", "x-request-id", "traceparent", "tracestate" }
-- Who calls, for the service.
local callers = { "x-keyrun-team", "x-keyrun-key", "x-keyrun-app", "x-keyrun-plan" }
-- What is left of the limit, for the caller.
local limits = { "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "ratelimit", "ratelimit-policy" }
-- Of the connection to Keyrun alone.
local hops = { ["connection"] = true, ["keep-alive"] = true, ["transfer-encoding"] = true, ["content-length"] = true }

-- The headers of HAProxy count their values from 0.
local function values(list)
  local found = {}
  for place = 0, #list do
    found[#found + 1] = list[place]
  end
  return found
end

-- The answer for the caller is Keyrun's.
local function refuse(txn, answer)
  local reply = txn:reply({ status = answer.status, body = answer.body })
  for name, list in pairs(answer.headers) do
    if not hops[name] then
      for _, value in ipairs(values(list)) do
        reply:add_header(name, value)
      end
    end
  end
  txn:done(reply)
end

-- `http-request lua.keyrun <app id>`: `txn.keyrun` is `accepted` where the request may go on.
core.register_action("keyrun", { "http-req" }, function(txn, app)
  local came = txn.http:req_get_headers()
  local headers = {}
  for _, name in ipairs(asked) do
    if came[name] then
      headers[name] = values(came[name])
    end
  end
  local answer = core.httpclient():get({
    url = "http://keyrun/api/apps/" .. app .. "/guard",
    -- `listen keyrun` of haproxy.cfg, which knows the instances and keeps the connections to them.
    dst = "127.0.0.1:8001",
    headers = headers,
    -- Longer than the section's: after its own, the client would ask three times more.
    timeout = 15000,
  })
  -- Every answer of Keyrun's has an id. One without is HAProxy's own: no instance is there.
  if not answer or not answer.headers or not answer.headers["x-request-id"] then
    return
  end
  if answer.status ~= 200 then
    return refuse(txn, answer)
  end
  for _, name in ipairs(callers) do
    txn.http:req_set_header(name, answer.headers[name][0])
  end
  for _, name in ipairs(limits) do
    if answer.headers[name] then
      txn:set_var("txn." .. name:gsub("-", "_"), answer.headers[name][0])
    end
  end
  txn:set_var("txn.keyrun", "accepted")
end, 1)
