-- A request from files: BODY (none: GET), TYPE, HEAD (the length of the JSON part of a binary request).
if os.getenv("BODY") ~= "" then
    local file = assert(io.open(os.getenv("BODY"), "rb"))
    wrk.method = "POST"
    wrk.body = file:read("*a")
    wrk.headers["Content-Type"] = os.getenv("TYPE")
end
if os.getenv("HEAD") ~= "" then wrk.headers["Inference-Header-Content-Length"] = os.getenv("HEAD") end

-- One line for serving.sh.
function done(summary, latency)
    local errors = summary.errors
    io.write(string.format("RESULT %.0f %.0f %.0f %d\n", latency:percentile(50), latency:percentile(99),
        summary.requests / summary.duration * 1e6, errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
