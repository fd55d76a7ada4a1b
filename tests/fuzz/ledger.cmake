ringfence_fuzz(bill SOURCES fuzz_bill.c LIBS ringfence::budget-guard MAX_BYTES 8192)
ringfence_fuzz(policy SOURCES fuzz_policy.c LIBS ringfence::budget-guard MAX_BYTES 4096)
ringfence_fuzz(evidence SOURCES fuzz_evidence.c LIBS ringfence::budget-guard INCLUDES
               budget-service/ledger MAX_BYTES 4096)
