foreach(noun IN ITEMS money time)
  ringfence_test(budget-${noun} SOURCES test_${noun}.c LIBS ringfence::budget LABELS unit
                 TIMEOUT 10)
endforeach()
