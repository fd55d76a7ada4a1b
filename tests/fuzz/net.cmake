ringfence_fuzz(bootstrap SOURCES fuzz_bootstrap.c LIBS ringfence::coll PkgConfig::SODIUM
               INCLUDES collectives MAX_BYTES 1100)
ringfence_fuzz(frames SOURCES fuzz_frames.c LIBS ringfence::coll PkgConfig::SODIUM
               INCLUDES collectives MAX_BYTES 20000)
ringfence_fuzz(hello SOURCES fuzz_hello.c LIBS ringfence::coll PkgConfig::SODIUM
               INCLUDES collectives MAX_BYTES 128)
ringfence_fuzz(messages SOURCES fuzz_messages.c LIBS ringfence::coll PkgConfig::SODIUM
               INCLUDES collectives MAX_BYTES 2000)
