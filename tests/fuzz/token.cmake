foreach(noun IN ITEMS token claims money keyring)
  ringfence_fuzz(${noun} SOURCES fuzz_${noun}.c LIBS ringfence::budget ringfence::base MAX_BYTES 6200)
endforeach()
