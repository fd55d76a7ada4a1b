ringfence_fuzz(shm SOURCES fuzz_shm.c LIBS ringfence::coll INCLUDES collectives MAX_BYTES 2048)
ringfence_fuzz(identity SOURCES fuzz_identity.c LIBS ringfence::coll INCLUDES collectives
               MAX_BYTES 384)
