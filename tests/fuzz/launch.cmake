ringfence_fuzz(completion SOURCES fuzz_completion.c LIBS ringfence::launch ringfence::proto ringfence::base MAX_BYTES 4096)
target_include_directories(fuzz-completion PRIVATE ${PROJECT_SOURCE_DIR}/launcher)
