# cmake --install: programs, their data and manual pages, examples and the pages of docs/. libcoll installs itself
# (collectives/package). The components are runtime (programs and data), libcoll (the shared libraries), dev (headers,
# archives, what compilers look for) and docs.

# Pages of these programs for man(1), made of their --help. launcher lists no commands there, of which plan has a help of its own.
function(ringfence_man)
  set(pages "")
  foreach(program ${ARGN})
    set(page ${CMAKE_BINARY_DIR}/man/${program}.1)
    set(commands "")
    if(program STREQUAL launcher)
      set(commands plan)
    endif()
    add_custom_command(
      OUTPUT ${page}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man
      COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/man.sh ${PROJECT_VERSION} $<TARGET_FILE:${program}> ${commands} > ${page}
      DEPENDS ${program} ${CMAKE_SOURCE_DIR}/cmake/man.sh ${CMAKE_SOURCE_DIR}/cmake/man.awk
      COMMENT "Making ${program}.1"
      VERBATIM)
    list(APPEND pages ${page})
  endforeach()
  add_custom_target(ringfence-man ALL DEPENDS ${pages})
  install(
    FILES ${pages}
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT docs)
endfunction()

if(RINGFENCE_LIBCOLL_ONLY)
  install(TARGETS coll-bench coll-simulate COMPONENT runtime)
  ringfence_man(coll-bench coll-simulate)
else()
  # Of rank there is no page: the launcher starts it.
  set(programs launcher coll-bench coll-simulate pipeline-simulate budget-service tokenizer-encode tokenizer-learn random-checkpoint)
  install(TARGETS ${programs} rank COMPONENT runtime)
  ringfence_man(${programs})
  install(
    DIRECTORY ${CMAKE_BINARY_DIR}/share/ringfence/
    DESTINATION ${CMAKE_INSTALL_DATADIR}/ringfence
    COMPONENT runtime
    PATTERN drivers EXCLUDE) # budget-service/drivers installs them, as programs

  # Examples that pages tell to copy. The units start the program where it is installed.
  set(examples ${CMAKE_INSTALL_DATADIR}/ringfence/examples)
  foreach(from budget-service/examples/budget-service.service launcher/examples/ringfence-head.service
               launcher/examples/ringfence-agent.service)
    get_filename_component(name ${from} NAME)
    file(READ ${from} unit)
    string(REPLACE /usr/local/bin/ ${CMAKE_INSTALL_FULL_BINDIR}/ unit "${unit}")
    file(CONFIGURE OUTPUT examples/${name} CONTENT "${unit}" @ONLY)
    set_property(
      DIRECTORY
      APPEND
      PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
    install(
      FILES ${CMAKE_BINARY_DIR}/examples/${name}
      DESTINATION ${examples}
      COMPONENT docs)
  endforeach()
  install(
    PROGRAMS budget-service/examples/alarm.sh budget-service/examples/bundle.sh budget-service/examples/on-instance.sh
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
