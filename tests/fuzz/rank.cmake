ringfence_fuzz(shards SOURCES fuzz_shards.c LIBS ringfence::rank MAX_BYTES 4096)
ringfence_fuzz(tokenizer SOURCES fuzz_tokenizer.c LIBS ringfence::rank MAX_BYTES 4096)
ringfence_fuzz(config SOURCES fuzz_config.c LIBS ringfence::rank MAX_BYTES 2048)
