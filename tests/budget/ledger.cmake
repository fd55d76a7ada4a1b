add_library(budget_ledger_fixture STATIC ledger_fixture.c)
target_link_libraries(
  budget_ledger_fixture
  PUBLIC ringfence::budget-guard ringfence_test_support PkgConfig::SQLITE PkgConfig::SODIUM
  PRIVATE ringfence_options)

foreach(noun IN ITEMS audit bill ledger policy reconcile)
  ringfence_test(budget-${noun} SOURCES test_${noun}.c LIBS budget_ledger_fixture LABELS unit
                 TIMEOUT 60)
endforeach()
ringfence_test(
  budget-ledger-faults
  SOURCES test_ledger_faults.c sim_disk.c
  LIBS budget_ledger_fixture
  LABELS fault
  TIMEOUT 60)
