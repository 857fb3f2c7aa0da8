-- Prints wrk's results as numbers: requests, duration, p50 and p99 in microseconds, failed requests.
-- The script has no function for requests or responses, so wrk does not call it while it measures.
done = function(summary, latency)
   local errors = summary.errors
   io.write(string.format("figures %d %d %d %d %d\n", summary.requests, summary.duration,
      latency:percentile(50), latency:percentile(99),
      errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
