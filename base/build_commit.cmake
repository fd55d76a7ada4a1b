# Writes HEADER with the commit of SOURCE, "unknown" outside a checkout, "-dirty" with local changes; and
# with a digest of the sources, which tells whether two builds are of the same ones in any case.
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

set(patterns)
foreach(directory IN ITEMS base budget-service cmake collectives launcher proto rank)
  foreach(ending IN ITEMS c cmake cu h in map proto tsv txt)
    list(APPEND patterns ${directory}/*.${ending})
  endforeach()
endforeach()
list(TRANSFORM patterns PREPEND ${SOURCE}/)
file(GLOB_RECURSE names RELATIVE ${SOURCE} ${patterns})
list(APPEND names CMakeLists.txt) # that of the root alone: build directories have some, too
list(SORT names)
set(digests)
foreach(name IN LISTS names)
  file(SHA256 ${SOURCE}/${name} digest)
  string(APPEND digests "${digest}  ${name}\n")
endforeach()
string(SHA256 sources "${digests}")
string(SUBSTRING ${sources} 0 16 sources)

file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define BASE_BUILD_COMMIT  \"@commit@\"
#define BASE_BUILD_SOURCES \"@sources@\"
" @ONLY)
