foreach(noun IN ITEMS money time secret_file)
  ringfence_test(budget-${noun} SOURCES test_${noun}.c LIBS ringfence::budget LABELS unit
                 TIMEOUT 10)
endforeach()
foreach(noun IN ITEMS secret_key harden)
  ringfence_test(budget-${noun} SOURCES test_${noun}.c LIBS ringfence::budget-guard
                 PkgConfig::SODIUM LABELS unit TIMEOUT 30)
endforeach()
