foreach(noun IN ITEMS token claims money keyring)
  ringfence_fuzz(${noun} SOURCES fuzz_${noun}.c LIBS ringfence::budget ringfence::base MAX_BYTES 6200)
endforeach()
ringfence_fuzz(key_file SOURCES fuzz_key_file.c LIBS ringfence::budget-guard
               INCLUDES budget-service/token MAX_BYTES 512)
