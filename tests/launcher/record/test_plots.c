/* record/plots.h: the pictures and columns of a record. */
#include "record/plots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/run_info.h"
#include "sample.h"
#include "support.h"

static sample made;

static const char *const NAMES[] = {"scaling", "loss", "steptime"};
enum { NAME_COUNT = sizeof NAMES / sizeof NAMES[0] };

/* Writes a record of two ranks and ten steps. */
static void write_record(void)
{
    sample_make(&made, "out", 2, 10);
    sample_write(&made, 10);
}

static void every_figure_has_columns_and_a_picture(void **state)
{
    (void)state;
    write_record();
    for (size_t i = 0; i < NAME_COUNT; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s.dat", NAMES[i]);
        char *data = sample_text(&made, name);
        assert_true(strncmp(data, "# ", 2) == 0 && strstr(data, "\n0 ") != NULL);
        free(data);
        (void)snprintf(name, sizeof name, "%s.svg", NAMES[i]);
        char *picture = sample_text(&made, name);
        assert_true(strncmp(picture, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 20) == 0);
        sample_assert_well_formed(picture);
        free(picture);
    }
}

static void a_picture_names_machine_and_commit(void **state)
{
    (void)state;
    char wanted[64 + LAUNCH_INFO_BYTES];
    launch_run_info info;
    launch_file_digest data = {.path = ""};
    launch_run_info_gather(&info, &data);
    write_record();
    char *picture = sample_text(&made, "scaling.svg");
    const char *title = strstr(picture, ">Tokens per second against processes</text>");
    assert_non_null(title);
    (void)snprintf(wanted, sizeof wanted, ", commit %s</text>", info.git_commit);
    assert_has(title, wanted);
    base_buffer machine = {0};
    base_buffer_html(&machine, info.cpu[0] != '\0' ? info.cpu : info.host);
    assert_has(title, machine.data);
    base_buffer_fini(&machine);
    free(picture);
}

/* What no figure has is in no file: here a run without steps. */
static void of_nothing_there_is_no_picture(void **state)
{
    (void)state;
    sample_make(&made, "empty", 2, 10);
    made.end.scaling_count = 0;
    sample_write(&made, 0);
    for (size_t i = 0; i < NAME_COUNT; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "empty/%s.dat", NAMES[i]);
        assert_int_equal(access(test_shared_path(path), F_OK), 0);
        (void)snprintf(path, sizeof path, "empty/%s.svg", NAMES[i]);
        assert_int_not_equal(access(test_shared_path(path), F_OK), 0);
    }
}

/* The second record moves the first away, and says so. Its end says nothing. */
static void notes_are_of_the_beginning(void **state)
{
    (void)state;
    write_record();
    sample_make(&made, "out", 2, 10);
    launch_record *record = sample_begin(&made, 0);
    assert_has(launch_record_notes(record), "is now in");
    launch_record_close(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_has_columns_and_a_picture),
        cmocka_unit_test(a_picture_names_machine_and_commit),
        cmocka_unit_test(of_nothing_there_is_no_picture),
        cmocka_unit_test(notes_are_of_the_beginning),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
