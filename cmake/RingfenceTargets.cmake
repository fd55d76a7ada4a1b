# How every target of the project is built: warnings, sanitizers, header checks.

add_library(ringfence_options INTERFACE)
target_compile_definitions(ringfence_options INTERFACE _GNU_SOURCE)
target_compile_options(
  ringfence_options
  INTERFACE -Wall
            -Wextra
            -Wshadow
            -Wstrict-prototypes
            -Wmissing-prototypes
            -Wpointer-arith
            -Wwrite-strings
            -Wundef
            -Wvla
            -Wformat=2
            -Wno-format-truncation
            -fno-math-errno
            -fno-common
            -fvisibility=hidden
            -ffp-contract=off)
if(RINGFENCE_WERROR)
  target_compile_options(ringfence_options INTERFACE -Werror)
endif()
if(RINGFENCE_SANITIZE)
  target_compile_options(
    ringfence_options INTERFACE -fsanitize=${RINGFENCE_SANITIZE} -fno-omit-frame-pointer
                                -fno-sanitize-recover=all)
  target_link_options(ringfence_options INTERFACE -fsanitize=${RINGFENCE_SANITIZE})
endif()

# ringfence_library(NAME PREFIX DEPENDS... ) makes the static library of one folder, with the alias
# ringfence::NAME. Sources are explicit; public headers live in include/PREFIX.
#   ringfence_library(base PREFIX base SOURCES src/a.c HEADERS include/base/a.h DEPENDS lib PRIVATE lib)
function(ringfence_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;DEPENDS;PRIVATE" ${ARGN})
  add_library(ringfence_${name} STATIC ${ARG_SOURCES})
  add_library(ringfence::${name} ALIAS ringfence_${name})
  set_target_properties(ringfence_${name} PROPERTIES OUTPUT_NAME ringfence-${name}
                                                     VERIFY_INTERFACE_HEADER_SETS ON)
  target_sources(ringfence_${name} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${ARG_HEADERS})
  target_include_directories(ringfence_${name} PRIVATE src)
  target_link_libraries(
    ringfence_${name}
    PUBLIC ${ARG_DEPENDS}
    PRIVATE ringfence_options ${ARG_PRIVATE})
endfunction()

# ringfence_program(NAME SOURCES ... LIBS ...) makes bin/NAME.
function(ringfence_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ringfence_options ${ARG_LIBS})
endfunction()

# ringfence_test(NAME SOURCES ... LIBS ... LABELS unit|ipc|integration|fault|docker|gpu|slow
#                TIMEOUT seconds [PRIVATE_OF folder...] [ARGS ...])
# makes one cmocka program and registers it. PRIVATE_OF lets a unit test see a folder's src/.
function(ringfence_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS;LABELS;PRIVATE_OF;ARGS;PROCESSORS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(test-${name} ${ARG_SOURCES})
  set_target_properties(test-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                ${CMAKE_BINARY_DIR}/tests/bin)
  target_link_libraries(test-${name} PRIVATE ringfence_options ringfence_test_support ${ARG_LIBS})
  foreach(folder IN LISTS ARG_PRIVATE_OF)
    target_include_directories(test-${name} PRIVATE ${CMAKE_SOURCE_DIR}/${folder}/src)
  endforeach()
  add_test(NAME ${name} COMMAND test-${name} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
