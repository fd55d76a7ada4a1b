/* Any bytes are what ranks reported of a run, or are left out. The first byte says what they are: lines of
 * timings.jsonl, with the times of stages or without; the flight records of two ranks, with a NUL
 * between them; or a trace. No text of a flight record or a trace becomes a tag of the page. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/file.h"
#include "directory.h"
#include "record/flight_page.h"
#include "record/timings.h"
#include "record/trace_timeline.h"

enum { RANKS = 2, PAGE_BYTES_MAX = 64 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void read_timings(const fuzz_directory *directory, const void *text, size_t text_bytes,
                         bool pipelined)
{
    char path[FUZZ_PATH_BYTES];
    launch_steps steps;
    const base_status made = launch_steps_init(&steps, RANKS, pipelined ? RANKS : 0, 1, NULL);
    BASE_ASSERT(made == BASE_OK);
    fuzz_directory_put(directory, "timings.jsonl", text, text_bytes, path);
    const base_status status = launch_timings_read(path, &steps, NULL);
    BASE_ASSERT(status == BASE_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        for (size_t i = 0; pipelined && i < steps.ranks[rank].count; i++) {
            BASE_ASSERT(steps.ranks[rank].stages[i].held > 0);
        }
    }
    launch_steps_fini(&steps);
}

static void write_flight(const fuzz_directory *directory, const char *text, size_t text_bytes)
{
    static const char mark[] = "<mark"; /* in seeds */
    char path[FUZZ_PATH_BYTES];
    void *page = NULL;
    size_t page_bytes = 0;
    const char *records[RANKS] = {text, NULL};
    const size_t first_bytes = strlen(text);
    if (first_bytes < text_bytes) {
        records[1] = text + first_bytes + 1;
    }
    const base_status status = launch_flight_write(directory->path, records, RANKS, 1, mark, NULL);
    BASE_ASSERT(status == BASE_OK);
    fuzz_directory_path(directory, "flight.html", path);
    const base_status read = base_file_read(path, PAGE_BYTES_MAX, &page, &page_bytes, NULL);
    BASE_ASSERT(read == BASE_OK);
    BASE_ASSERT(memmem(page, page_bytes, mark, sizeof mark - 1) == NULL);
    free(page);
}

static void draw_trace(const fuzz_directory *directory, const char *file, size_t file_bytes)
{
    proto_job job;
    launch_trace trace;
    base_buffer page = {0};
    char path[FUZZ_PATH_BYTES];
    proto_job_defaults(&job);
    job.job.world_size = RANKS;
    fuzz_directory_put(directory, PROTO_TRACE_FILE, file, file_bytes, path);
    if (launch_trace_read(directory->path, RANKS, &trace, NULL) == BASE_OK) {
        launch_trace_timeline(&job, &trace, &page);
        BASE_ASSERT(!page.failed);
        BASE_ASSERT(strstr(page.data, "<mark") == NULL);
        launch_trace_fini(&trace);
    }
    base_buffer_fini(&page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    enum { TIMINGS, TIMINGS_OF_STAGES, FLIGHT, TRACE, KINDS };
    fuzz_directory directory;
    if (size_bytes == 0) {
        return 0;
    }
    const int kind = data[0] % KINDS;
    const size_t text_bytes = size_bytes - 1;
    char *text = calloc(1, text_bytes + 1);
    BASE_ASSERT(text != NULL);
    memcpy(text, data + 1, text_bytes);
    fuzz_directory_make(&directory);
    if (kind == FLIGHT) {
        write_flight(&directory, text, text_bytes);
    } else if (kind == TRACE) {
        draw_trace(&directory, text, text_bytes);
    } else {
        read_timings(&directory, text, text_bytes, kind == TIMINGS_OF_STAGES);
    }
    fuzz_directory_remove(&directory);
    free(text);
    return 0;
}
