"""``python -m benchmarks``: measure and print."""

from benchmarks.run import main

main(prog_name="benchmarks")
