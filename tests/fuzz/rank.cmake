ringfence_fuzz(shards SOURCES fuzz_shards.c LIBS ringfence::rank MAX_BYTES 4096)
