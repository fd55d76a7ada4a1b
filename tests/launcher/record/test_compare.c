/* record/compare.h: the verdicts of `launcher compare` on equal, different and bad files. */
#include "record/compare.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "record/saved_state.h"
#include "support.h"

#define HEADER(prefix)                                                                             \
    "{\"" prefix "wte\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"" prefix     \
    "ln\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}"

enum { VALUES = 8, REPORT_BYTES = 4096 };

static void write_state(const char *name, const char *header, const float *values, size_t count)
{
    uint8_t file[1024];
    base_error error;
    base_writer writer = base_writer_make(file, sizeof file);
    base_write_u64(&writer, strlen(header));
    base_write_bytes(&writer, header, strlen(header));
    base_write_bytes(&writer, values, count * sizeof *values);
    assert_false(writer.failed);
    assert_ok(base_file_write(test_shared_path(name), file, writer.offset_bytes, &error), &error);
}

/* Compares two files of the directory. report has the output. */
static launch_likeness compare(const char *a, const char *b, char report[REPORT_BYTES])
{
    launch_likeness likeness = LAUNCH_DIFFERENT;
    base_error error;
    memset(report, 0, REPORT_BYTES);
    FILE *stream = fmemopen(report, REPORT_BYTES, "w");
    assert_non_null(stream);
    assert_ok(launch_compare(test_shared_path(a), test_shared_path(b), stream, &likeness, &error),
              &error);
    assert_int_equal(fclose(stream), 0);
    return likeness;
}

static void the_same_bytes_are_equal(void **state)
{
    (void)state;
    static const float ONE[VALUES] = {1, 2, 3, 4, 5, 6, 7, 8};
    char report[REPORT_BYTES];
    write_state("a", HEADER(""), ONE, VALUES);
    write_state("b", HEADER(""), ONE, VALUES);
    assert_int_equal(compare("a", "b", report), LAUNCH_SAME_BYTES);
    assert_has(report, "byte-equal");
    assert_has(report, "2 tensors, 8 values");

    write_state("p", HEADER("transformer."), ONE, VALUES);
    assert_int_equal(compare("a", "p", report), LAUNCH_SAME_TENSORS);
    assert_has(report, "bit for bit");
}

static void the_first_difference_is_shown(void **state)
{
    (void)state;
    static const float ONE[VALUES] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const float OTHER[VALUES] = {1, 2, 3, 4, 5.5F, 5, 7, 8.25F};
    char report[REPORT_BYTES];
    write_state("a", HEADER(""), ONE, VALUES);
    write_state("b", HEADER(""), OTHER, VALUES);
    assert_int_equal(compare("a", "b", report), LAUNCH_DIFFERENT);
    assert_has(report, "first difference: wte[1, 1] is 5 (bytes 00 00 a0 40) against 5.5 ");
    assert_has(report, "wte: 2 of 6 values differ, by at most 1\n");
    assert_has(report, "ln: 1 of 2 values differ, by at most 0.25\n");
    assert_has(report, "2 tensors of 2, 3 values of 8; the largest");
    assert_has(report, "largest difference is 1, in wte");
}

static void signs_of_zero_are_seen(void **state)
{
    (void)state;
    static const float ONE[VALUES] = {0, 2, 3, 4, 5, 6, 7, 8};
    static const float OTHER[VALUES] = {-0.0F, 2, 3, 4, 5, 6, 7, 8};
    char report[REPORT_BYTES];
    write_state("a", HEADER(""), ONE, VALUES);
    write_state("b", HEADER(""), OTHER, VALUES);
    assert_int_equal(compare("a", "b", report), LAUNCH_DIFFERENT);
    assert_has(report, "wte: 1 of 6 values differ, by at most 0\n");
}

static void other_tensors_are_named(void **state)
{
    (void)state;
    static const float ONE[VALUES] = {1, 2, 3, 4, 5, 6, 7, 8};
    char report[REPORT_BYTES];
    write_state("a", HEADER(""), ONE, VALUES);
    write_state("c",
                "{\"wte\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
                "\"extra\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}",
                ONE, VALUES);
    assert_int_equal(compare("a", "c", report), LAUNCH_DIFFERENT);
    assert_has(report, "wte: another type or shape");
    assert_has(report, "ln: not in ");
    assert_has(report, "extra: not in ");
    assert_has(report, "different: 3 tensors of 3, 0 values of 0; tensors only in A: 1, only in "
                       "B: 1\n");
}

static void directories_stand_for_their_model(void **state)
{
    (void)state;
    static const float ONE[VALUES] = {1, 2, 3, 4, 5, 6, 7, 8};
    char report[REPORT_BYTES];
    launch_likeness likeness;
    base_error error;
    assert_int_equal(mkdir(test_shared_path("out"), 0777), 0);
    assert_status(launch_compare(test_shared_path("out"), "/dev/null", stdout, &likeness, &error),
                  BASE_ERR_NOTFOUND);
    assert_has(error.message, "holds none of");
    write_state("a", HEADER(""), ONE, VALUES);
    write_state("out/state-rank-0.safetensors", HEADER(""), ONE, VALUES);
    assert_int_equal(compare("a", "out", report), LAUNCH_SAME_BYTES);
    write_state("out/model.safetensors", HEADER("transformer."), ONE, VALUES);
    assert_int_equal(compare("a", "out", report), LAUNCH_SAME_TENSORS);
}

#define INDEX(map) "{\"metadata\":{\"total_size\":32},\"weight_map\":{" map "}}"
#define BOTH       "\"ln\":\"2.safetensors\",\"wte\":\"1.safetensors\""

/* A model in two files in the directory `name`. */
static void write_in_two(const char *name, const char *index, const float *values)
{
    char path[256];
    base_error error;
    (void)mkdir(test_shared_path(name), 0777);
    (void)snprintf(path, sizeof path, "%s/1.safetensors", name);
    write_state(path, "{\"wte\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
                values, 6);
    (void)snprintf(path, sizeof path, "%s/2.safetensors", name);
    write_state(path, "{\"ln\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
                values + 6, 2);
    (void)snprintf(path, sizeof path, "%s/model.safetensors.index.json", name);
    assert_ok(base_file_write(test_shared_path(path), index, strlen(index), &error), &error);
}

static void models_in_several_files_are_compared(void **state)
{
    (void)state;
    static const float ONE[VALUES] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const float OTHER[VALUES] = {1, 2, 3, 4, 5, 6, 7, 9};
    char report[REPORT_BYTES];
    write_in_two("a", INDEX(BOTH), ONE);
    write_in_two("same", INDEX(BOTH), ONE);
    assert_int_equal(compare("a", "same", report), LAUNCH_SAME_BYTES);
    assert_has(report, "2 tensors, 8 values");
    assert_int_equal(compare("a", "same/model.safetensors.index.json", report), LAUNCH_SAME_BYTES);
    write_in_two("index", INDEX(BOTH) " ", ONE);
    assert_int_equal(compare("a", "index", report), LAUNCH_SAME_TENSORS);
    write_state("one", HEADER("transformer."), ONE, VALUES);
    assert_int_equal(compare("a", "one", report), LAUNCH_SAME_TENSORS);
    assert_has(report, "equal: 2 tensors, 8 values, bit for bit");
    write_in_two("other", INDEX(BOTH), OTHER);
    assert_int_equal(compare("a", "other", report), LAUNCH_DIFFERENT);
    assert_has(report, "first difference: ln[1] is 8 ");
    assert_has(report, "1 tensors of 2, 1 values of 8");
}

static void bad_indices_are_named(void **state)
{
    (void)state;
    static const float ONE[VALUES] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const struct {
        const char *index;
        const char *complaint;
    } bad[] = {
        {"{", "/bad/model.safetensors.index.json: "},
        {"{}", "/bad/model.safetensors.index.json: no object \"weight_map\""},
        {INDEX("\"wte\":\"../1.safetensors\""), "no name of a file for tensor wte"},
        {INDEX(BOTH ",\"x\":\"3.safetensors\""), "/bad/3.safetensors: No such file"},
        {INDEX(BOTH ",\"x\":\"2.safetensors\""),
         "says that 2 tensors are in 2.safetensors, which has 1"},
        {INDEX("\"wte\":\"2.safetensors\""), "tensor ln is in 2.safetensors, but \"weight_map\" "
                                             "says nothing of it"},
        {INDEX("\"ln\":\"1.safetensors\",\"wte\":\"2.safetensors\""),
         "tensor wte is in 1.safetensors, but \"weight_map\" says 2.safetensors"},
    };
    launch_likeness likeness;
    base_error error;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_in_two("bad", bad[i].index, ONE);
        const char *path = test_shared_path("bad");
        assert_int_not_equal(launch_compare(path, path, stdout, &likeness, &error), BASE_OK);
        assert_has(error.message, bad[i].complaint);
    }
}

static long anonymous_kib(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;
    assert_non_null(status);
    while (fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "RssAnon:", strlen("RssAnon:")) == 0) {
            kib = strtol(line + strlen("RssAnon:"), NULL, 10);
        }
    }
    (void)fclose(status);
    assert_true(kib >= 0);
    return kib;
}

/* A model that is larger than the memory can be compared. */
static void a_state_takes_no_memory_of_its_size(void **state)
{
    (void)state;
    static const char header[] =
        "{\"wte\":{\"dtype\":\"F32\",\"shape\":[16777216],\"data_offsets\":[0,67108864]}}";
    static const float none = 0;
    enum { DATA_BYTES = 64 << 20, ALLOWED_KIB = 16 << 10 };
    launch_saved_state opened;
    base_error error;
    write_state("large", header, &none, 0);
    const char *path = test_shared_path("large");
    assert_int_equal(truncate(path, (off_t)(8 + sizeof header - 1 + DATA_BYTES)), 0);
    const long before = anonymous_kib();
    assert_ok(launch_saved_state_open(path, &opened, &error), &error);
    assert_true(anonymous_kib() - before < ALLOWED_KIB);
    assert_int_equal(opened.tensors[0].values[DATA_BYTES - 1], 0);
    launch_saved_state_close(&opened);
}

/* Nobody waits for the other end of a pipe. */
static void only_regular_files_are_read(void **state)
{
    (void)state;
    static const float ONE[VALUES] = {1, 2, 3, 4, 5, 6, 7, 8};
    launch_likeness likeness;
    base_error error;
    write_in_two("a", INDEX(BOTH), ONE);
    const char *path = test_shared_path("a/2.safetensors");
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    path = test_shared_path("a");
    assert_status(launch_compare(path, path, stdout, &likeness, &error), BASE_ERR_INVALID);
    assert_has(error.message, "/a/2.safetensors: not a regular file");
    write_state("empty", "", ONE, 0);
    path = test_shared_path("empty");
    assert_int_equal(truncate(path, 0), 0);
    assert_status(launch_compare(path, path, stdout, &likeness, &error), BASE_ERR_INVALID);
    assert_has(error.message, "/empty: the file is empty");
}

static void checkpoints_have_moments(void **state)
{
    (void)state;
    static const float ONE[VALUES] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const float OTHER[VALUES] = {1, 2, 3, 4, 5, 6, 7, 9};
    char report[REPORT_BYTES];
    assert_int_equal(mkdir(test_shared_path("c"), 0777), 0);
    assert_int_equal(mkdir(test_shared_path("d"), 0777), 0);
    write_state("c/model.safetensors", HEADER(""), ONE, VALUES);
    write_state("d/model.safetensors", HEADER(""), ONE, VALUES);
    write_state("c/exp_avg.safetensors", HEADER(""), ONE, VALUES);
    assert_int_equal(compare("c", "d", report), LAUNCH_SAME_BYTES); /* d is no checkpoint */
    write_state("d/exp_avg.safetensors", HEADER(""), ONE, VALUES);
    write_state("c/exp_avg_sq.safetensors", HEADER(""), ONE, VALUES);
    assert_int_equal(compare("c", "d", report), LAUNCH_DIFFERENT);
    assert_has(report, "exp_avg_sq.safetensors\n  not in ");
    write_state("d/exp_avg_sq.safetensors", HEADER(""), ONE, VALUES);
    assert_int_equal(compare("c", "d", report), LAUNCH_SAME_BYTES);
    assert_has(report, "exp_avg.safetensors\nbyte-equal");
    write_state("d/exp_avg.safetensors", HEADER(""), OTHER, VALUES);
    assert_int_equal(compare("c", "d", report), LAUNCH_DIFFERENT);
    assert_has(report, "exp_avg.safetensors\nfirst difference");
}

static void bad_files_are_named(void **state)
{
    (void)state;
    static const float ONE[VALUES] = {1, 2, 3, 4, 5, 6, 7, 8};
    launch_likeness likeness;
    base_error error;
    write_state("a", HEADER(""), ONE, VALUES);
    write_state("short", HEADER(""), ONE, VALUES - 1);
    assert_status(
        launch_compare(test_shared_path("a"), test_shared_path("short"), stdout, &likeness, &error),
        BASE_ERR_INVALID);
    assert_has(error.message, "/short: ");
    assert_status(
        launch_compare(test_shared_path("none"), test_shared_path("a"), stdout, &likeness, &error),
        BASE_ERR_NOTFOUND);
    assert_has(error.message, "/none");
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_status(
        launch_compare(test_shared_path("a"), test_shared_path("a"), full, &likeness, &error),
        BASE_ERR_IO);
    (void)fclose(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_DIRECTORY(the_same_bytes_are_equal),
        TEST_IN_DIRECTORY(the_first_difference_is_shown),
        TEST_IN_DIRECTORY(signs_of_zero_are_seen),
        TEST_IN_DIRECTORY(other_tensors_are_named),
        TEST_IN_DIRECTORY(directories_stand_for_their_model),
        TEST_IN_DIRECTORY(models_in_several_files_are_compared),
        TEST_IN_DIRECTORY(bad_indices_are_named),
        TEST_IN_DIRECTORY(a_state_takes_no_memory_of_its_size),
        TEST_IN_DIRECTORY(only_regular_files_are_read),
        TEST_IN_DIRECTORY(checkpoints_have_moments),
        TEST_IN_DIRECTORY(bad_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
