/* Runs `launcher plan` in this process. Used by the tests of plans. */
#include "plan_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "support.h"

char plan_directory[] = "/tmp/plan-XXXXXX";

const char *plan_path(const char *name)
{
    static char path[64];
    (void)snprintf(path, sizeof path, "%s/%s", plan_directory, name);
    return path;
}

char plan_warnings[PLAN_TEXT_BYTES];

/* A file in place of a standard descriptor; *kept is the old one. */
static FILE *divert(int fd, int *kept)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    *kept = dup(fd);
    assert_true(dup2(fileno(file), fd) >= 0);
    return file;
}

static void restore(int fd, int kept, FILE *file, char text[PLAN_TEXT_BYTES])
{
    assert_true(dup2(kept, fd) >= 0);
    (void)close(kept);
    rewind(file);
    text[fread(text, 1, PLAN_TEXT_BYTES - 1, file)] = '\0';
    (void)fclose(file);
}

int plan_run(const char *const *given, char text[PLAN_TEXT_BYTES])
{
    static char copies[PLAN_ARGS_MAX][256];
    char *arguments[PLAN_ARGS_MAX + 1] = {0};
    int count = 0;
    for (; given[count] != NULL && count < PLAN_ARGS_MAX; count++) {
        (void)snprintf(copies[count], sizeof copies[0], "%s", given[count]);
        arguments[count] = copies[count];
    }
    (void)fflush(stdout);
    int kept[2];
    FILE *out = divert(STDOUT_FILENO, &kept[0]);
    FILE *err = divert(STDERR_FILENO, &kept[1]);
    const int exit_status = launch_cli(count, arguments, RANK_PATH);
    (void)fflush(stdout);
    restore(STDOUT_FILENO, kept[0], out, text);
    restore(STDERR_FILENO, kept[1], err, plan_warnings);
    return exit_status;
}

void plan_write_config(const char *text)
{
    FILE *file = fopen(plan_path("config.json"), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

int plan_setup(void **state)
{
    (void)state;
    return mkdtemp(plan_directory) == NULL;
}

int plan_teardown(void **state)
{
    (void)state;
    return rmdir(plan_directory);
}
