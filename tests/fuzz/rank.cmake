ringfence_fuzz(jinja SOURCES fuzz_jinja.c LIBS ringfence::rank PkgConfig::JANSSON MAX_BYTES 8192)
ringfence_fuzz(shards SOURCES fuzz_shards.c LIBS ringfence::rank MAX_BYTES 4096)
ringfence_fuzz(token_file SOURCES fuzz_token_file.c directory.c LIBS ringfence::rank MAX_BYTES 1024)
ringfence_fuzz(tokenizer SOURCES fuzz_tokenizer.c LIBS ringfence::rank MAX_BYTES 4096)
ringfence_fuzz(config SOURCES fuzz_config.c LIBS ringfence::rank MAX_BYTES 2048)
ringfence_fuzz(record SOURCES fuzz_record.c LIBS ringfence::rank MAX_BYTES 1024)
ringfence_fuzz(safetensors_index SOURCES fuzz_safetensors_index.c LIBS ringfence::base_json PkgConfig::JANSSON
               MAX_BYTES 2048)
ringfence_fuzz(small_files SOURCES fuzz_small_files.c directory.c LIBS ringfence::rank ringfence::proto
               MAX_BYTES 2048)
