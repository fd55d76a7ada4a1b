/* The names of checkpoints: found, counted, removed. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "proto/checkpoints.h"
#include "support.h"

static void make(const char *out, uint64_t step)
{
    base_error error;
    char path[BASE_PATH_BYTES];
    char file[BASE_PATH_BYTES + 16];
    assert_ok(proto_checkpoint_path(out, step, path, &error), &error);
    assert_ok(base_mkdirs(path, &error), &error);
    (void)snprintf(file, sizeof file, "%s/training.json", path);
    assert_ok(base_file_write(file, "{}", 2, &error), &error);
}

static bool is_there(const char *out, uint64_t step)
{
    base_error error;
    char path[BASE_PATH_BYTES];
    assert_ok(proto_checkpoint_path(out, step, path, &error), &error);
    return access(path, F_OK) == 0;
}

static void a_name_is_its_step(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool known;
        uint64_t step;
    } cases[] = {
        {"step-000000500", true, 500},
        {"step-123456789012345678", true, UINT64_C(123456789012345678)},
        {"step-000000000", true, 0},
        {"step-1234567890123456789", false, 0},
        {"step-500", false, 0},
        {"step-00000050x", false, 0},
        {"step-000000500.tmp", false, 0},
        {"step--00000500", false, 0},
        {"partial", false, 0},
        {"", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t step = 0;
        assert_int_equal(proto_checkpoint_step(cases[i].name, &step), cases[i].known);
        assert_int_equal(step, cases[i].step);
    }
    base_error error;
    char path[BASE_PATH_BYTES];
    assert_ok(proto_checkpoint_path("/out", 500, path, &error), &error);
    assert_string_equal(path, "/out/checkpoints/step-000000500");
    assert_ok(proto_checkpoint_path("/out", UINT64_C(12345678901), path, &error), &error);
    assert_string_equal(path, "/out/checkpoints/step-12345678901");
}

static void the_newest_are_kept(void **state)
{
    (void)state;
    test_directory scratch;
    base_error error;
    bool found = true;
    uint64_t step = 7;
    test_directory_make(&scratch);
    char out[BASE_PATH_BYTES];
    (void)snprintf(out, sizeof out, "%s", test_directory_path(&scratch, ""));
    assert_ok(proto_checkpoints_newest(out, &found, &step, &error), &error);
    assert_false(found);
    assert_ok(proto_checkpoints_prune(out, 2, &error), &error); /* nothing is there */
    make(out, 20);
    make(out, 1000000000); /* more digits than the others */
    make(out, 100);
    make(out, 5);
    assert_ok(base_mkdirs(test_directory_path(&scratch, "checkpoints/partial"), &error), &error);
    assert_ok(proto_checkpoints_newest(out, &found, &step, &error), &error);
    assert_true(found);
    assert_int_equal(step, 1000000000);
    assert_ok(proto_checkpoints_prune(out, 2, &error), &error);
    assert_true(is_there(out, 1000000000) && is_there(out, 100));
    assert_false(is_there(out, 20) || is_there(out, 5));
    assert_int_equal(access(test_directory_path(&scratch, "checkpoints/partial"), F_OK), 0);
    char mine[BASE_PATH_BYTES];
    (void)snprintf(mine, sizeof mine, "%s", test_directory_path(&scratch, "checkpoints/notes.txt"));
    assert_ok(base_file_write(mine, "mine", 4, &error), &error);
    assert_ok(proto_checkpoints_prune(out, 0, &error), &error);
    assert_false(is_there(out, 1000000000) || is_there(out, 100));
    assert_int_not_equal(access(test_directory_path(&scratch, "checkpoints/partial"), F_OK), 0);
    assert_int_equal(access(mine, F_OK), 0); /* not ours */
    assert_int_equal(unlink(mine), 0);
    assert_ok(proto_checkpoints_prune(out, 0, &error), &error);
    assert_int_not_equal(access(test_directory_path(&scratch, "checkpoints"), F_OK), 0);
    test_directory_remove(&scratch);
}

/* A disk that is not mounted holds no checkpoint, and one that is being written may be discarded. */
static void a_link_to_nowhere_is_named(void **state)
{
    (void)state;
    test_directory scratch;
    base_error error;
    bool found = true;
    uint64_t step = 7;
    char out[BASE_PATH_BYTES];
    char elsewhere[BASE_PATH_BYTES];
    test_directory_make(&scratch);
    (void)snprintf(out, sizeof out, "%s", test_directory_path(&scratch, ""));
    (void)snprintf(elsewhere, sizeof elsewhere, "%s", test_directory_path(&scratch, "elsewhere"));
    assert_int_equal(symlink(elsewhere, test_directory_path(&scratch, "checkpoints")), 0);
    assert_int_equal(proto_checkpoints_newest(out, &found, &step, &error), BASE_ERR_NOTFOUND);
    assert_false(found);
    assert_non_null(strstr(error.message, "checkpoints is a link that leads nowhere"));
    assert_ok(base_mkdirs(test_directory_path(&scratch, "elsewhere/partial"), &error), &error);
    assert_ok(base_mkdirs(test_directory_path(&scratch, "elsewhere/removed"), &error), &error);
    assert_ok(proto_checkpoints_newest(out, &found, &step, &error), &error);
    assert_false(found);
    assert_ok(proto_checkpoint_discard_partial(out, &error), &error);
    assert_int_not_equal(access(test_directory_path(&scratch, "elsewhere/partial"), F_OK), 0);
    assert_int_not_equal(access(test_directory_path(&scratch, "elsewhere/removed"), F_OK), 0);
    assert_ok(proto_checkpoint_discard_partial(out, &error), &error); /* there is none */
    test_directory_remove(&scratch);
}

/* What cannot be removed is named. */
static void a_strange_checkpoint_is_named(void **state)
{
    (void)state;
    test_directory scratch;
    base_error error;
    test_directory_make(&scratch);
    char out[BASE_PATH_BYTES];
    (void)snprintf(out, sizeof out, "%s", test_directory_path(&scratch, ""));
    make(out, 1);
    assert_ok(base_mkdirs(test_directory_path(&scratch, "checkpoints/step-000000001/more"), &error),
              &error);
    assert_int_not_equal(proto_checkpoints_prune(out, 0, &error), BASE_OK);
    assert_non_null(strstr(error.message, "checkpoints/removed"));
    test_directory_remove(&scratch);
}

/* A checkpoint may be a link to another disk: what it leads to is not ours to empty. */
static void a_link_is_removed_alone(void **state)
{
    (void)state;
    test_directory scratch;
    base_error error;
    char out[BASE_PATH_BYTES];
    char elsewhere[BASE_PATH_BYTES];
    char file[BASE_PATH_BYTES];
    char path[BASE_PATH_BYTES];
    test_directory_make(&scratch);
    (void)snprintf(out, sizeof out, "%s", test_directory_path(&scratch, "out"));
    (void)snprintf(elsewhere, sizeof elsewhere, "%s", test_directory_path(&scratch, "elsewhere"));
    (void)snprintf(file, sizeof file, "%s", test_directory_path(&scratch, "elsewhere/file"));
    make(out, 2);
    assert_ok(base_mkdirs(elsewhere, &error), &error);
    assert_ok(base_file_write(file, "mine", 4, &error), &error);
    assert_ok(proto_checkpoint_path(out, 1, path, &error), &error);
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_ok(proto_checkpoints_prune(out, 1, &error), &error);
    assert_true(is_there(out, 2));
    assert_false(is_there(out, 1));
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_int_equal(rename(test_directory_path(&scratch, "out/checkpoints"),
                            test_directory_path(&scratch, "moved")),
                     0);
    assert_int_equal(symlink(test_directory_path(&scratch, "moved"),
                             test_directory_path(&scratch, "out/checkpoints")),
                     0);
    assert_ok(proto_checkpoints_prune(out, 0, &error), &error);
    assert_false(is_there(out, 2));
    assert_int_equal(access(file, F_OK), 0);
    test_directory_remove(&scratch);
}

/* Whoever was killed while it removed a checkpoint has taken its name away first. */
static void half_a_checkpoint_is_none(void **state)
{
    (void)state;
    test_directory scratch;
    base_error error;
    bool found = true;
    uint64_t step = 0;
    test_directory_make(&scratch);
    char out[BASE_PATH_BYTES];
    (void)snprintf(out, sizeof out, "%s", test_directory_path(&scratch, ""));
    assert_ok(base_mkdirs(test_directory_path(&scratch, "checkpoints/removed"), &error), &error);
    assert_ok(proto_checkpoints_newest(out, &found, &step, &error), &error);
    assert_false(found);
    make(out, 7);
    make(out, 8);
    assert_ok(proto_checkpoints_prune(out, 1, &error), &error);
    assert_true(is_there(out, 8));
    assert_false(is_there(out, 7));
    assert_int_not_equal(access(test_directory_path(&scratch, "checkpoints/removed"), F_OK), 0);
    test_directory_remove(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_its_step),
        cmocka_unit_test(the_newest_are_kept),
        cmocka_unit_test(a_link_to_nowhere_is_named),
        cmocka_unit_test(a_strange_checkpoint_is_named),
        cmocka_unit_test(a_link_is_removed_alone),
        cmocka_unit_test(half_a_checkpoint_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
