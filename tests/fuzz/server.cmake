ringfence_fuzz(budget_request SOURCES fuzz_budget_request.c LIBS ringfence::budget ringfence::proto
               MAX_BYTES 4096)
ringfence_fuzz(zap SOURCES fuzz_zap.c LIBS ringfence::proto ringfence::base MAX_BYTES 2048)
