/* Writes what a failed job's ranks said last. NCCL says in a rank's own output why it failed. Called
 * by run_job.c. */
#include "cli/rank_logs.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"

void launch_rank_logs_write(const char *out, bool recording, int rank, const char *text,
                            size_t bytes, char directory[BASE_PATH_BYTES])
{
    char path[BASE_PATH_BYTES + 32];
    base_error error;
    directory[0] = '\0';
    if (out[0] == '\0') {
        return;
    }
    const int length =
        snprintf(directory, BASE_PATH_BYTES, "%s%s", out, recording ? "" : ".failed");
    base_status status = length < BASE_PATH_BYTES
                             ? base_mkdirs(directory, &error)
                             : base_fail(&error, BASE_ERR_LIMIT, "%s: the name is too long", out);
    if (status == BASE_OK) {
        (void)snprintf(path, sizeof path, "%s/rank-%d.log", directory, rank);
        status = base_file_write(path, text, bytes, &error);
    }
    if (status != BASE_OK) {
        base_log(BASE_LOG_WARNING, "the ranks' output is not kept: %s", error.message);
        directory[0] = '\0';
    }
}
