/* Writes the record of a made-up run for a person to look at: sample-record OUT [RANKS [STEPS]]. */
#include <stdio.h>
#include <stdlib.h>

#include "sample.h"

int main(int argc, char **argv)
{
    static sample made;
    base_error error;
    launch_record *record = NULL;
    const int ranks = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 2;
    const int steps = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 100;
    if (argc < 2 || ranks < 1 || ranks > SAMPLE_RANKS_MAX || steps < 0) {
        (void)fputs("usage: sample-record OUT [RANKS [STEPS]]\n", stderr);
        return 2;
    }
    (void)snprintf(test_shared_directory.path, sizeof test_shared_directory.path, "%s", argv[1]);
    sample_make(&made, "", ranks, steps);
    made.options.out = argv[1];
    base_status status = launch_record_open(&made.options, &record, &error);
    if (status == BASE_OK) {
        status = launch_record_begin(record, 0, &error);
    }
    for (int i = 0; status == BASE_OK && i < steps * ranks; i++) {
        const launch_step step = sample_step(&made, (uint64_t)(i / ranks), i % ranks);
        status = sample_report(record, &step, &error);
    }
    if (status == BASE_OK) {
        status = launch_record_finish(record, &made.end, &error);
        (void)fputs(launch_record_notes(record), stdout);
    }
    if (status != BASE_OK) {
        (void)fprintf(stderr, "sample-record: %s\n", error.message);
    }
    launch_record_close(record);
    return status == BASE_OK ? 0 : 1;
}
