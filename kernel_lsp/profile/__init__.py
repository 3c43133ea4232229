"""What a kernel does on this machine, measured: samples and cache misses by line, and the machine's own ceilings."""
