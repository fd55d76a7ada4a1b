/* Any text is refused as JOB.json, or is a job that is right and comes back from its own text. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "proto/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static proto_job job;
    static proto_job again;
    base_error error = {.message = ""};
    char *text = NULL;
    char *text_again = NULL;
    size_t text_bytes = 0;
    size_t again_bytes = 0;
    memset(&job, 0, sizeof job);
    if (proto_job_parse(data, size_bytes, &job, &error) != BASE_OK) {
        BASE_ASSERT(error.message[0] != '\0');
        BASE_ASSERT(job.job.version == 0); /* untouched */
        return 0;
    }
    const base_status written = proto_job_write(&job, "", &text, &text_bytes, &error);
    BASE_ASSERT(written == BASE_OK);
    const base_status parsed = proto_job_parse(text, text_bytes, &again, &error);
    BASE_ASSERT(parsed == BASE_OK);
    const base_status rewritten = proto_job_write(&again, "", &text_again, &again_bytes, &error);
    BASE_ASSERT(rewritten == BASE_OK);
    BASE_ASSERT(again_bytes == text_bytes);
    BASE_ASSERT(memcmp(text, text_again, text_bytes) == 0);
    free(text);
    free(text_again);
    return 0;
}
