-- What wrk found, in numbers: requests, microseconds, p50 and p99 in microseconds, failed requests.
-- (Without a function for requests or responses wrk calls nothing in here while it measures.)
done = function(summary, latency)
   local errors = summary.errors
   io.write(string.format("figures %d %d %d %d %d\n", summary.requests, summary.duration,
      latency:percentile(50), latency:percentile(99),
      errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
