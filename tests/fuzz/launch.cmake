ringfence_fuzz(completion SOURCES fuzz_completion.c LIBS ringfence::launch ringfence::proto ringfence::base MAX_BYTES 4096)
target_include_directories(fuzz-completion PRIVATE ${PROJECT_SOURCE_DIR}/launcher)
ringfence_fuzz(run_files SOURCES fuzz_run_files.c directory.c LIBS ringfence::record MAX_BYTES 4096)
ringfence_fuzz(tools SOURCES fuzz_tools.c LIBS ringfence::launch ringfence::proto ringfence::base MAX_BYTES 4096)
target_include_directories(fuzz-tools PRIVATE ${PROJECT_SOURCE_DIR}/launcher)
ringfence_fuzz(schema SOURCES fuzz_schema.c LIBS ringfence::launch ringfence::rank ringfence::base PkgConfig::JANSSON
               MAX_BYTES 512 INCLUDES launcher rank)
