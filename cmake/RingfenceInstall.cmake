# cmake --install: programs, their data, examples and the pages. libcoll installs itself (collectives/package). The components are
# runtime (programs and data), libcoll (the shared libraries), dev (headers, archives, what compilers look for) and docs.
if(RINGFENCE_LIBCOLL_ONLY)
  install(TARGETS coll-bench coll-simulate COMPONENT runtime)
else()
  install(TARGETS launcher rank coll-bench coll-simulate budget-service tokenizer-encode tokenizer-learn COMPONENT runtime)
  install(
    DIRECTORY ${CMAKE_BINARY_DIR}/share/ringfence/
    DESTINATION ${CMAKE_INSTALL_DATADIR}/ringfence
    COMPONENT runtime)

  # Examples that pages tell to copy. The unit starts the program where it is installed.
  set(examples ${CMAKE_INSTALL_DATADIR}/ringfence/examples)
  file(READ budget-service/examples/budget-service.service unit)
  string(REPLACE /usr/local/bin/ ${CMAKE_INSTALL_FULL_BINDIR}/ unit "${unit}")
  file(CONFIGURE OUTPUT examples/budget-service.service CONTENT "${unit}" @ONLY)
  set_property(
    DIRECTORY
    APPEND
    PROPERTY CMAKE_CONFIGURE_DEPENDS budget-service/examples/budget-service.service)
  install(
    FILES ${CMAKE_BINARY_DIR}/examples/budget-service.service
    DESTINATION ${examples}
    COMPONENT docs)
  install(
    PROGRAMS budget-service/examples/alarm.sh
    DESTINATION ${examples}
    COMPONENT docs)
  install(
    DIRECTORY docker/kubernetes
    DESTINATION ${examples}
    COMPONENT docs)

  # Pages lead to each other as they do here; their links to sources lead nowhere.
  install(
    FILES README.md ARCHITECTURE.md GLOSSARY.md
    DESTINATION ${CMAKE_INSTALL_DOCDIR}
    COMPONENT docs)
  install(
    DIRECTORY docs
    DESTINATION ${CMAKE_INSTALL_DOCDIR}
    COMPONENT docs)
endif()

install(
  FILES LICENSE NOTICE
  DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT docs)
