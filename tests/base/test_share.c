/* Where a program looks for installed data. The test is copied into directories as they are
 * installed, and says there what it finds. */
#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support.h"

/* Runs `script` in a new directory in which bin/paths is this program. Its words go to `said`. */
static void found_after(const char *script, char *said, size_t said_bytes)
{
    char command[2 * BASE_PATH_BYTES];
    char self[BASE_PATH_BYTES];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    (void)snprintf(command, sizeof command,
                   "d=$(mktemp -d) && cd \"$d\" && mkdir bin && cp '%s' bin/paths && { %s; } && "
                   "bin/paths share | sed \"s|^$(realpath .)||\" && rm -r \"$d\"",
                   self, script);
    FILE *pipe = popen(command, "re"); /* NOLINT(cert-env33-c): the test's own words */
    assert_non_null(pipe);
    assert_non_null(fgets(said, (int)said_bytes, pipe));
    assert_int_equal(pclose(pipe), 0);
}

static void test_finds_where_the_build_was_told(void **state)
{
    (void)state;
    char said[BASE_PATH_BYTES];
    found_after("mkdir -p share/of-test/ringfence share/ringfence", said, sizeof said);
    assert_string_equal(said, "/share/of-test/ringfence\n");
}

static void test_finds_data_of_a_build_directory(void **state)
{
    (void)state;
    char said[BASE_PATH_BYTES];
    found_after("mkdir -p share/ringfence", said, sizeof said);
    assert_string_equal(said, "/share/ringfence\n");
}

static void test_names_the_installed_place_if_there_is_none(void **state)
{
    (void)state;
    char said[BASE_PATH_BYTES];
    found_after("true", said, sizeof said);
    assert_string_equal(said, "/share/of-test/ringfence\n");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "share") == 0) {
        char path[BASE_PATH_BYTES];
        return base_path_share(path, NULL) == BASE_OK && puts(path) >= 0 ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_where_the_build_was_told),
        cmocka_unit_test(test_finds_data_of_a_build_directory),
        cmocka_unit_test(test_names_the_installed_place_if_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
