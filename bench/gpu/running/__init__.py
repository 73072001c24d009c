"""What the benchmarks run on and with: places, programs, tables, the driver."""
