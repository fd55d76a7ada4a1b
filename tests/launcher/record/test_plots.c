/* record/plots.h: with gnuplot absent, failing, hanging and real. */
#include "record/plots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "record/out_directory.h"
#include "record/run_info.h"
#include "sample.h"
#include "support.h"

static char *path_before;

/* A directory whose "bin" is all of PATH, so that the test decides what gnuplot is. */
static int make_bin(void **state)
{
    base_error error;
    (void)test_shared_directory_make(state);
    const char *path = getenv("PATH");
    path_before = strdup(path != NULL ? path : "");
    assert_non_null(path_before);
    assert_ok(base_mkdirs(test_directory_path(&test_shared_directory, "bin"), &error), &error);
    assert_int_equal(setenv("PATH", test_directory_path(&test_shared_directory, "bin"), 1), 0);
    return 0;
}

static int remove_bin(void **state)
{
    assert_int_equal(setenv("PATH", path_before, 1), 0);
    free(path_before);
    return test_shared_directory_remove(state);
}

static void put_gnuplot(const char *script)
{
    base_error error;
    const char *path = test_directory_path(&test_shared_directory, "bin/gnuplot");
    assert_ok(base_file_write(path, script, strlen(script), &error), &error);
    assert_int_equal(chmod(path, 0755), 0);
}

static int has_file(const char *name)
{
    struct stat info;
    return stat(test_directory_path(&test_shared_directory, name), &info) == 0 && info.st_size > 0;
}

/* Finishes a record with plots, and copies its notes. */
static void write_record(char notes[1024])
{
    static sample made;
    base_error error;
    sample_make(&made, "out", 2, 10);
    made.options.plots = true;
    launch_record *record = sample_begin(&made, 0);
    for (int i = 0; i < 20; i++) {
        const launch_step step = sample_step(&made, (uint64_t)(i / 2), i % 2);
        sample_add(record, &step);
    }
    assert_ok(launch_record_finish(record, &made.end, &error), &error);
    (void)snprintf(notes, 1024, "%s", launch_record_notes(record));
    launch_record_close(record);
    assert_true(has_file("out/scaling.dat"));
    assert_true(has_file("out/loss.dat"));
    assert_true(has_file("out/steptime.dat"));
    assert_true(has_file("out/plots.gp"));
    assert_true(has_file("out/report.html"));
}

/* The picture names the machine and the commit. */
static void scaling_names_machine_and_commit(void **state)
{
    (void)state;
    char notes[1024];
    char wanted[300];
    launch_run_info info;
    launch_file_digest data = {.path = ""};
    void *script = NULL;
    size_t size_bytes = 0;
    base_error error;
    launch_run_info_gather(&info, &data);
    write_record(notes);
    assert_ok(base_file_read(test_directory_path(&test_shared_directory, "out/plots.gp"), 1 << 16,
                             &script, &size_bytes, &error),
              &error);
    const char *title = strstr(script, "set title \"Tokens per second");
    assert_non_null(title);
    assert_has(title, info.cpu[0] != '\0' ? info.cpu : info.host);
    (void)snprintf(wanted, sizeof wanted, "commit %s\" noenhanced\n", info.git_commit);
    assert_has(title, wanted);
    free(script);
}

static void without_gnuplot_one_line_says_so(void **state)
{
    (void)state;
    char notes[1024];
    write_record(notes);
    assert_has(notes, "gnuplot is not installed");
    assert_ptr_equal(strchr(notes, '\n'), notes + strlen(notes) - 1);
    assert_false(has_file("out/scaling.png"));
}

/* The second record moves the first away, and notes that once, after begin. Later the notes are
 * only those of finish. */
static void notes_are_printed_once(void **state)
{
    (void)state;
    char notes[1024];
    put_gnuplot("#!/bin/sh\nexit 0\n");
    write_record(notes);
    write_record(notes);
    assert_string_equal(notes, "");
}

static void gnuplots_complaint_is_reported(void **state)
{
    (void)state;
    char notes[1024];
    put_gnuplot("#!/bin/sh\necho half > scaling.png\necho '  line 3: undefined function' >&2\n"
                "echo '^' >&2\necho '<svg>'\nexit 1\n");
    write_record(notes);
    assert_has(notes, "gnuplot failed");
    assert_has(notes, "line 3: undefined function\n");
    assert_false(has_file("out/scaling.png"));
}

static void gnuplot_runs_in_the_directory(void **state)
{
    (void)state;
    char notes[1024];
    put_gnuplot(
        "#!/bin/sh\ntest \"$1\" = plots.gp && test -s plots.gp && echo drawn > scaling.png\n");
    write_record(notes);
    assert_string_equal(notes, "");
    assert_true(has_file("out/scaling.png"));
}

static void a_gnuplot_that_hangs_is_ended(void **state)
{
    (void)state;
    base_error error;
    launch_out_directory directory;
    base_buffer notes = {0};
    put_gnuplot("#!/bin/sh\necho half > scaling.png\nexec /bin/sleep 1000\n");
    assert_ok(launch_out_directory_open(
                  &(launch_out_options){.path = test_directory_path(&test_shared_directory, "out")},
                  &directory, &error),
              &error);
    launch_plots_draw(directory.fd, directory.path, 100 * BASE_NS_PER_MS, &notes);
    launch_out_directory_close(&directory);
    assert_has(notes.data, "was ended");
    assert_false(has_file("out/scaling.png"));
    base_buffer_fini(&notes);
}

static void the_real_one_draws_the_pictures(void **state)
{
    (void)state;
    char notes[1024];
    unsigned char head[8] = {0};
    if (access("/usr/bin/gnuplot", X_OK) != 0) {
        skip();
    }
    assert_int_equal(
        symlink("/usr/bin/gnuplot", test_directory_path(&test_shared_directory, "bin/gnuplot")), 0);
    write_record(notes);
    assert_string_equal(notes, "");
    assert_true(has_file("out/loss.png"));
    assert_true(has_file("out/steptime.png"));
    FILE *picture = fopen(test_directory_path(&test_shared_directory, "out/scaling.png"), "rb");
    assert_non_null(picture);
    assert_int_equal(fread(head, 1, sizeof head, picture), sizeof head);
    assert_memory_equal(head, "\x89PNG\r\n\x1a\n", sizeof head);
    (void)fclose(picture);
}

#define PLOTS_TEST(test) cmocka_unit_test_setup_teardown(test, make_bin, remove_bin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLOTS_TEST(without_gnuplot_one_line_says_so), PLOTS_TEST(scaling_names_machine_and_commit),
        PLOTS_TEST(notes_are_printed_once),           PLOTS_TEST(gnuplots_complaint_is_reported),
        PLOTS_TEST(gnuplot_runs_in_the_directory),    PLOTS_TEST(a_gnuplot_that_hangs_is_ended),
        PLOTS_TEST(the_real_one_draws_the_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
