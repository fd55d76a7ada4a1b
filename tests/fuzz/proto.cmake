ringfence_fuzz(job SOURCES fuzz_job.c LIBS ringfence::proto ringfence::base MAX_BYTES 4096)
ringfence_fuzz(envelope SOURCES fuzz_envelope.c LIBS ringfence::proto ringfence::base MAX_BYTES 4096)
