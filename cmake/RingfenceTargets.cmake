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
            $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
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
# Of kernels, which use every address that they compute: AddressSanitizer finds what these checks do. Loops there are
# unrolled, and with the checks rank is half as large again.
set(ringfence_kernel_options "")
if(RINGFENCE_SANITIZE MATCHES address)
  set(ringfence_kernel_options -fno-sanitize=null,object-size,pointer-overflow)
endif()

if(RINGFENCE_FUZZ)
  # Every library counts its branches for libFuzzer; only the fuzz programs get its main.
  target_compile_options(ringfence_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# ringfence_library(NAME PREFIX DEPENDS... ) makes the static library of one directory, with the alias
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
  # Libraries are looked for beside the programs first, so that both can be taken to a machine without our packages: no variable would
  # do that, because a rank of a mode that may cost money gets none. As DT_RPATH, which also holds for libraries of libraries.
  set_target_properties(${name} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../lib")
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
endfunction()

# ringfence_test(NAME SOURCES ... LIBS ... LABELS unit|ipc|integration|fault|docker|gpu|slow
#                [TIMEOUT seconds] [PRIVATE_OF directory...] [ARGS ...])
# makes one cmocka program and registers it. PRIVATE_OF lets a unit test see a directory's src/.
# TIMEOUT (180 unless told) ends a test that hangs, on a machine whose other tenants may stop it for
# seconds: it is no measure, and three times as long under a sanitizer.
function(ringfence_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS;LABELS;PRIVATE_OF;ARGS;PROCESSORS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 180)
  endif()
  if(RINGFENCE_SANITIZE)
    math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT}")
  endif()
  add_executable(test-${name} ${ARG_SOURCES})
  set_target_properties(test-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                ${CMAKE_BINARY_DIR}/tests/bin)
  target_link_libraries(test-${name} PRIVATE ringfence_options ringfence_test_support ${ARG_LIBS})
  foreach(directory IN LISTS ARG_PRIVATE_OF)
    if(EXISTS ${CMAKE_SOURCE_DIR}/${directory}/src)
      string(APPEND directory /src)
    endif()
    target_include_directories(test-${name} PRIVATE ${CMAKE_SOURCE_DIR}/${directory})
  endforeach()
  add_test(NAME ${name} COMMAND test-${name} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
                                          SKIP_RETURN_CODE 77)
endfunction()

# ringfence_fuzz(NAME SOURCES ... LIBS ... [INCLUDES directory...] [MAX_BYTES n])
# makes fuzz-NAME from a source with LLVMFuzzerTestOneInput. In the preset `fuzz` it is a libFuzzer
# program (./dev fuzz NAME); in every other preset it replays tests/fuzz/corpus/NAME as a unit test,
# so that what was found once stays found. INCLUDES: private directories, from the project's root.
add_custom_target(fuzzers)
function(ringfence_fuzz name)
  cmake_parse_arguments(ARG "" "MAX_BYTES" "SOURCES;LIBS;INCLUDES" ${ARGN})
  if(NOT ARG_MAX_BYTES)
    set(ARG_MAX_BYTES 4096)
  endif()
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  add_executable(fuzz-${name} ${ARG_SOURCES})
  target_link_libraries(fuzz-${name} PRIVATE ringfence_options ${ARG_LIBS})
  foreach(directory IN LISTS ARG_INCLUDES)
    target_include_directories(fuzz-${name} PRIVATE ${CMAKE_SOURCE_DIR}/${directory})
  endforeach()
  if(RINGFENCE_FUZZ)
    target_sources(fuzz-${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/cpu_time.c)
    target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
    file(WRITE ${CMAKE_BINARY_DIR}/fuzz/${name}.max_bytes ${ARG_MAX_BYTES})
  else()
    target_sources(fuzz-${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
    set_target_properties(fuzz-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                  ${CMAKE_BINARY_DIR}/tests/bin)
    add_test(NAME fuzz-${name} COMMAND fuzz-${name} ${corpus})
    set_tests_properties(fuzz-${name} PROPERTIES LABELS "unit;no-tsan" TIMEOUT 60)
  endif()
  add_dependencies(fuzzers fuzz-${name})
endfunction()
