# cmake --install: programs, their data and the pages. libcoll installs itself (collectives/package). The components are
# runtime (programs and data), libcoll (the shared libraries), dev (headers, archives, what compilers look for) and docs.
if(RINGFENCE_LIBCOLL_ONLY)
  install(TARGETS coll-simulate COMPONENT runtime)
else()
  install(TARGETS launcher rank coll-bench coll-simulate budget-service tokenizer-learn COMPONENT runtime)
  install(
    DIRECTORY ${CMAKE_BINARY_DIR}/share/ringfence/
    DESTINATION ${CMAKE_INSTALL_DATADIR}/ringfence
    COMPONENT runtime)
endif()
