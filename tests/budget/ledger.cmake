add_library(budget_ledger_fixture STATIC audited_ledger.c ledger_fixture.c reconcile_fixture.c)
target_link_libraries(
  budget_ledger_fixture
  PUBLIC ringfence::budget-guard ringfence_test_support PkgConfig::SQLITE PkgConfig::SODIUM
  PRIVATE ringfence_options)

foreach(noun IN ITEMS audit bill checkpoint export ledger ledger-time policy reconcile
                      reconcile-begin reconcile-final reconcile-instances rules)
  string(REPLACE "-" "_" file ${noun})
  ringfence_test(budget-${noun} SOURCES test_${file}.c LIBS budget_ledger_fixture LABELS unit
                 TIMEOUT 180)
endforeach()
set_property(TEST budget-audit budget-rules APPEND PROPERTY LABELS no-tsan)
target_link_options(test-budget-checkpoint PRIVATE -Wl,--wrap=fsync)
foreach(noun IN ITEMS journal store)
  ringfence_test(budget-${noun} SOURCES test_${noun}.c LIBS budget_ledger_fixture LABELS unit
                 PRIVATE_OF budget-service)
  target_include_directories(test-budget-${noun} PRIVATE ${PROJECT_SOURCE_DIR}/budget-service/ledger)
endforeach()
ringfence_test(
  budget-ledger-faults
  SOURCES test_ledger_faults.c sim_disk.c
  LIBS budget_ledger_fixture
  LABELS fault
  TIMEOUT 180)

# The same sources with twenty seeded bugs in them, for the simulation alone.
get_directory_property(ledger_sources DIRECTORY ${PROJECT_SOURCE_DIR}/budget-service DEFINITION
                       BUDGET_LEDGER_SOURCES)
set(mutant_sources)
foreach(source IN LISTS ledger_sources)
  list(APPEND mutant_sources ${PROJECT_SOURCE_DIR}/budget-service/${source})
endforeach()
ringfence_test(
  budget-ledger-sim
  SOURCES test_ledger_sim.c sim_bill.c sim_disk.c sim_model.c sim_model_bill.c sim_story.c ${mutant_sources}
  LIBS ringfence::budget ringfence::proto PkgConfig::SQLITE PkgConfig::SODIUM PkgConfig::JANSSON
  LABELS fault
  TIMEOUT 240
  PRIVATE_OF budget-service)
target_compile_definitions(test-budget-ledger-sim PRIVATE BUDGET_MUTATIONS)
target_include_directories(
  test-budget-ledger-sim PRIVATE ${PROJECT_SOURCE_DIR}/budget-service/ledger
                                 ${PROJECT_SOURCE_DIR}/budget-service/include)
# What it shows is the same in every build: that the simulation finds bugs.
add_test(NAME budget-ledger-sim-bugs COMMAND test-budget-ledger-sim --bugs)
set_tests_properties(budget-ledger-sim-bugs PROPERTIES LABELS "fault;dev-only" TIMEOUT 300)
add_test(NAME budget-ledger-sim-million COMMAND test-budget-ledger-sim 1000000)
set_tests_properties(budget-ledger-sim-million PROPERTIES LABELS "slow;fault" TIMEOUT 1800)
