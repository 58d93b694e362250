window.BENCHMARK_DATA = {
  "lastUpdate": 1795000000000,
  "repoUrl": "https://example.org/storage",
  "entries": {
    "Throughput Benchmark": [
      {"commit": {"id": "b2", "message": "second", "timestamp": "2026-11-20T10:00:00Z"}, "date": 1795100000000, "tool": "customBiggerIsBetter", "benches": [
        {"name": "sequential_read", "value": 2100.5, "unit": "MiB/s"},
        {"name": "time_to_first_byte", "value": 12.5, "unit": "milliseconds"}]},
      {"commit": {"id": "a1", "message": "first", "timestamp": "2026-11-19T10:00:00Z"}, "date": 1795000000000, "tool": "customBiggerIsBetter", "benches": [
        {"name": "sequential_read", "value": 2000.0, "unit": "MiB/s"},
        {"name": "sequential_write", "value": "1500", "unit": "MB/s", "range": "± 20"},
        {"name": "open_file", "value": 850, "unit": "ns/iter", "range": "± 12"},
        {"name": "peak_memory", "value": 512, "unit": "MiB"}]}
    ]
  }
}
