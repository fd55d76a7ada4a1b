foreach(noun IN ITEMS money receipt_clock secret_file time)
  ringfence_test(budget-${noun} SOURCES test_${noun}.c LIBS ringfence::budget LABELS unit)
endforeach()
ringfence_test(budget-secret_key SOURCES test_secret_key.c LIBS ringfence::budget-guard
               PkgConfig::SODIUM LABELS unit no-tsan)
ringfence_test(budget-key-store SOURCES test_key_store.c LIBS ringfence_budget_cli PkgConfig::SODIUM LABELS unit)
# The sanitizers leave mlock out.
ringfence_test(budget-harden SOURCES test_harden.c LIBS ringfence::budget-guard PkgConfig::SODIUM
               LABELS unit dev-only)
foreach(noun IN ITEMS token claims)
  ringfence_test(budget-${noun} SOURCES test_${noun}.c sample_token.c LIBS ringfence::budget
                 PkgConfig::SODIUM LABELS unit)
endforeach()
set_property(TEST budget-token APPEND PROPERTY LABELS no-tsan)
ringfence_test(budget-wire SOURCES test_wire.c LIBS ringfence::budget LABELS unit)
ringfence_test(budget-vectors SOURCES test_vectors.c LIBS ringfence::budget PkgConfig::SODIUM
               LABELS unit)
target_include_directories(test-budget-vectors PRIVATE ${CMAKE_SOURCE_DIR}/budget-service/token)
target_compile_definitions(test-budget-vectors
                           PRIVATE ORACLE_DIRECTORY="${CMAKE_SOURCE_DIR}/tests/oracle")

add_executable(token-tool token_tool.c)
set_target_properties(token-tool PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
target_link_libraries(token-tool PRIVATE ringfence_options ringfence::budget-guard)
target_include_directories(token-tool PRIVATE ${CMAKE_SOURCE_DIR}/budget-service/token)

add_test(NAME budget-costs COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/costs.sh
                                   ${CMAKE_BINARY_DIR}/bin)
set_tests_properties(budget-costs PROPERTIES LABELS "integration;dev-only" TIMEOUT 180
                                             SKIP_RETURN_CODE 77)
add_test(NAME budget-cli COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/cli.sh ${CMAKE_BINARY_DIR}/bin)
set_tests_properties(budget-cli PROPERTIES LABELS "integration;dev-only" TIMEOUT 180
                                           SKIP_RETURN_CODE 77)
add_test(NAME budget-forgotten COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/forgotten.sh ${CMAKE_BINARY_DIR}/bin
                                       ${PROJECT_SOURCE_DIR})
set_tests_properties(budget-forgotten PROPERTIES LABELS "integration;dev-only" TIMEOUT 180)
ringfence_test(budget-rent-driver SOURCES test_rent_driver.c LIBS ringfence_budget_rent LABELS unit no-tsan)
add_test(NAME budget-rent COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/rent.sh ${CMAKE_BINARY_DIR}/bin ${PROJECT_SOURCE_DIR})
add_test(NAME budget-rent-proof COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/rent_proof.sh ${CMAKE_BINARY_DIR}/bin
                                        ${PROJECT_SOURCE_DIR})
set_tests_properties(budget-rent budget-rent-proof PROPERTIES LABELS "integration" TIMEOUT 240)
add_library(ringfence_test_wrong_clock MODULE wrong_clock.c)
target_link_libraries(ringfence_test_wrong_clock PRIVATE ringfence_options)
add_test(NAME budget-rent-clock COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/rent_clock.sh ${CMAKE_BINARY_DIR}/bin
                                        ${PROJECT_SOURCE_DIR} $<TARGET_FILE:ringfence_test_wrong_clock>)
set_tests_properties(budget-rent-clock PROPERTIES LABELS "integration;dev-only" TIMEOUT 240)
add_test(NAME budget-anchor COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/anchor.sh ${CMAKE_BINARY_DIR}/bin)
set_tests_properties(budget-anchor PROPERTIES LABELS "integration;dev-only" TIMEOUT 180
                                              SKIP_RETURN_CODE 77)
