/* Starts the real launcher with fake ranks. Used by the tests of launcher and faults. */
#include "fake_job.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

int fake_job_setup(void **state)
{
    (void)test_shared_directory_make(state);
    test_shared_put("data.jsonl", "{\"text\": \"he goed -> he went\"}\n");
    test_shared_put("tokenizer.json",
                    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 300}, "
                    "\"merges\": []}, \"added_tokens\": []}");
    return 0;
}

int fake_job_teardown(void **state)
{
    return test_shared_directory_remove(state);
}

/* Only a training reads data, and has a record without what a rank writes. */
static bool trains(const char *const *flags)
{
    for (int i = 0; flags[i] != NULL; i++) {
        if (strcmp(flags[i], "generate") == 0) {
            return false;
        }
    }
    return true;
}

void fake_job_start_in_shell(test_program *program, const char *script, const char *const *flags,
                             const char *const *variables)
{
    const char *arguments[TEST_PROGRAM_ARGS_MAX] = {"/bin/sh", "-c", script};
    int count = script != NULL ? 3 : 0;
    arguments[count++] = FAKE_LAUNCHER_PATH;
    arguments[count++] = "--no-scaling";
    if (trains(flags)) {
        arguments[count++] = "--data";
        arguments[count++] = test_shared_path("data.jsonl");
        arguments[count++] = "--out";
        arguments[count++] = test_shared_path("out");
    }
    arguments[count++] = "--tokenizer";
    arguments[count++] = test_shared_path("tokenizer.json");
    for (int i = 0; flags[i] != NULL && count < TEST_PROGRAM_ARGS_MAX - 1; i++) {
        arguments[count++] = flags[i];
    }
    arguments[count] = NULL;
    test_program_start(program, arguments, variables);
}

void fake_job_start(test_program *program, const char *const *flags, const char *const *variables)
{
    fake_job_start_in_shell(program, NULL, flags, variables);
}

int fake_job_run(test_program *program, const char *const *flags, const char *const *variables)
{
    fake_job_start(program, flags, variables);
    const int exit_status = test_program_wait(program);
    test_program_assert_no_children();
    return exit_status;
}

void fake_job_start_endless(test_program *program)
{
    fake_job_start(program, FLAGS("--steps", FAKE_ENDLESS, "--log-dir", test_shared_directory.path),
                   FLAGS("FAKE_LINES=same"));
    test_program_wait_text(program, TEST_STDOUT, "step 3\n");
}

bool fake_job_left(const char *name)
{
    struct stat info;
    return stat(test_shared_path(name), &info) == 0;
}

char *fake_job_read(const char *name)
{
    void *text = test_file_read(test_shared_path(name), NULL);
    return text;
}
