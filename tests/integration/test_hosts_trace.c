/* trace.json of a training on two hosts: their clocks are aligned. */
#include <math.h>
#include <stdlib.h>

#include "several.h"

static double number_of(const json_t *clock, const char *key)
{
    return json_number_value(json_object_get(clock, key));
}

/* Both hosts are this machine, and have one clock, which their launchers do not know. So the offset is no further
 * from 0 than its uncertainty says. All ranks are in the trace. */
static void clocks_of_two_hosts_are_aligned(void **state)
{
    (void)state;
    bool ranks[4] = {false};
    several_make_key("clocks");
    const several job = SEVERAL("2", "--ranks", "4");
    several_start_hosts("clocks", &job);
    several_expect_all(2, 0);
    test_program_assert_no_children();
    json_t *trace = training_json(&several_runs[0], "trace.json");
    const json_t *events = json_object_get(trace, "traceEvents");
    const json_t *clocks = json_object_get(json_object_get(trace, "otherData"), "clocks");
    const json_t *here = json_array_get(clocks, 0);
    const json_t *there = json_array_get(clocks, 1);
    assert_int_equal(json_array_size(clocks), 2);
    assert_true(number_of(here, "offset_us") == 0.0);
    assert_true(number_of(here, "uncertainty_us") == 0.0);
    assert_int_equal(json_integer_value(json_object_get(there, "first_rank")), 2);
    assert_true(json_is_true(json_object_get(there, "known")));
    assert_true(number_of(there, "uncertainty_us") > 0);
    assert_true(fabs(number_of(there, "offset_us")) <= number_of(there, "uncertainty_us"));
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_int_t process =
            json_integer_value(json_object_get(json_array_get(events, i), "pid"));
        assert_in_range(process, 1, 4);
        ranks[process - 1] = true;
    }
    assert_true(ranks[0] && ranks[1] && ranks[2] && ranks[3]);
    json_decref(trace);
    char *text = training_file(&several_runs[0], "report.html", NULL);
    assert_has(text, "Each host has a clock of its own.");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(clocks_of_two_hosts_are_aligned)};
    const int skipped = test_hosts_skip(2);
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests(tests, test_shared_directory_make,
                                                 test_shared_directory_remove);
}
