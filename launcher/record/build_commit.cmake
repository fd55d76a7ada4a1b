# Writes HEADER with the commit of SOURCE: "unknown" outside a checkout, "-dirty" with local changes.
cmake_policy(VERSION 3.25)
set(commit unknown)
if(GIT)
  execute_process(COMMAND ${GIT} rev-parse --show-toplevel WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE}" source)
  # A tree unpacked inside another project's checkout is not that project's commit.
  if(top STREQUAL source)
    execute_process(
      COMMAND ${GIT} describe --always --dirty --abbrev=40 --exclude=* WORKING_DIRECTORY ${SOURCE}
      OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(described)
      set(commit ${described})
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define LAUNCH_BUILD_COMMIT \"@commit@\"\n" @ONLY)
