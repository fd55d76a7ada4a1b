# The service with its failpoints compiled in, as a program of the tests alone.
get_target_property(guard_sources ringfence_budget-guard SOURCES)
get_target_property(guard_directory ringfence_budget-guard SOURCE_DIR)
set(serve_sources "")
foreach(source IN LISTS guard_sources)
  if(NOT IS_ABSOLUTE ${source})
    set(source ${guard_directory}/${source})
  endif()
  list(APPEND serve_sources ${source})
endforeach()
add_executable(budget-serve-test serve_program.c ${serve_sources}
                                 ${PROJECT_SOURCE_DIR}/budget-service/ledger/failpoint.c)
set_target_properties(budget-serve-test PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                   ${CMAKE_BINARY_DIR}/tests/bin)
target_compile_definitions(budget-serve-test PRIVATE BUDGET_FAILPOINTS)
target_include_directories(budget-serve-test PRIVATE ${PROJECT_SOURCE_DIR}/budget-service
                                                     ${PROJECT_SOURCE_DIR}/budget-service/token
                                                     ${PROJECT_SOURCE_DIR}/budget-service/include)
target_link_libraries(
  budget-serve-test PRIVATE ringfence_options ringfence::budget PkgConfig::SODIUM PkgConfig::SQLITE
                            PkgConfig::JANSSON PkgConfig::ZMQ Threads::Threads)

# ringfence_service_test(NAME TIMEOUT SECONDS [LABELS ...] [ARGS ...]): test_NAME.c with a service.
function(ringfence_service_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS;ARGS" ${ARGN})
  string(REPLACE "-" "_" file ${name})
  ringfence_test(
    budget-${name} SOURCES test_${file}.c service_fixture.c service_raw.c LIBS ringfence::budget-guard PkgConfig::ZMQ
    PkgConfig::SODIUM PkgConfig::SQLITE LABELS ${ARG_LABELS} TIMEOUT ${ARG_TIMEOUT} ARGS ${ARG_ARGS})
  target_include_directories(test-budget-${name} PRIVATE ${PROJECT_SOURCE_DIR}/budget-service)
  add_dependencies(test-budget-${name} budget-serve-test)
  target_compile_definitions(test-budget-${name}
                             PRIVATE BUDGET_SERVE_TEST="$<TARGET_FILE:budget-serve-test>")
endfunction()

ringfence_test(budget-link SOURCES test_link.c LIBS ringfence::budget PkgConfig::ZMQ LABELS ipc)
target_include_directories(test-budget-link PRIVATE ${PROJECT_SOURCE_DIR}/budget-service)
ringfence_test(budget-seen SOURCES test_seen.c LIBS ringfence::budget LABELS ipc)
target_include_directories(test-budget-seen PRIVATE ${PROJECT_SOURCE_DIR}/budget-service)
ringfence_service_test(service LABELS ipc TIMEOUT 180)
ringfence_service_test(service-facts LABELS ipc TIMEOUT 180)
target_compile_definitions(test-budget-service-facts
                           PRIVATE BUDGET_SERVICE_PATH="$<TARGET_FILE:budget-service>")
add_dependencies(test-budget-service-facts budget-service)
ringfence_service_test(service-alarms LABELS ipc TIMEOUT 180)
set_tests_properties(budget-service-alarms PROPERTIES COST 20)
ringfence_service_test(service-export LABELS ipc TIMEOUT 180)
ringfence_service_test(service-roles LABELS ipc TIMEOUT 180)
ringfence_service_test(service-start LABELS ipc TIMEOUT 180)
ringfence_service_test(service-tampered LABELS ipc TIMEOUT 180)
ringfence_service_test(service-launcher LABELS ipc TIMEOUT 180)
target_link_libraries(test-budget-service-launcher PRIVATE ringfence_test_program)
target_compile_definitions(
  test-budget-service-launcher PRIVATE LAUNCHER_PATH="$<TARGET_FILE:launcher>"
                                       RANK_PATH="$<TARGET_FILE:rank>"
                                       BUDGET_SERVICE_PATH="$<TARGET_FILE:budget-service>")
add_dependencies(test-budget-service-launcher launcher rank budget-service)
set_tests_properties(budget-service-launcher PROPERTIES COST 40)
# Sanitizers have allocators of their own, which do not say how much memory is in use.
ringfence_service_test(service-hostile LABELS ipc dev-only TIMEOUT 180)
ringfence_service_test(service-race LABELS ipc TIMEOUT 180)
ringfence_service_test(service-crash LABELS fault TIMEOUT 180)
set_tests_properties(budget-service-crash budget-service-facts PROPERTIES COST 20)

# The same, longer: 1000 races, 500 kills.
add_test(NAME budget-service-race-1000 COMMAND test-budget-service-race --rounds 1000)
add_test(NAME budget-service-crash-500 COMMAND test-budget-service-crash --rounds 500)
set_tests_properties(budget-service-race-1000 budget-service-crash-500 PROPERTIES LABELS slow TIMEOUT
                                                                                  1500)
