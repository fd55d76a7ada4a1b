/* Writes what a failed job's ranks said last. NCCL says in a rank's own output why it failed. Called
 * by run_job.c. */
#include "cli/rank_logs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

static bool is_rank_log(const char *name)
{
    static const char head[] = "rank-";
    const char *number = name + sizeof head - 1;
    if (strncmp(name, head, sizeof head - 1) != 0) {
        return false;
    }
    const size_t digits = strspn(number, "0123456789");
    return digits > 0 && strcmp(number + digits, ".log") == 0;
}

/* Removes the logs of an earlier job, which may have had more ranks. */
static base_status remove_logs(const char *directory, base_error *reterr)
{
    base_status status = BASE_OK;
    DIR *entries = opendir(directory);
    if (entries == NULL) {
        return base_fail_errno(reterr, errno, "cannot read the directory %s", directory);
    }
    for (const struct dirent *entry = NULL;
         status == BASE_OK && (entry = readdir(entries)) != NULL;) {
        if (is_rank_log(entry->d_name) && unlinkat(dirfd(entries), entry->d_name, 0) != 0) {
            status =
                base_fail_errno(reterr, errno, "cannot remove %s/%s", directory, entry->d_name);
        }
    }
    (void)closedir(entries);
    return status;
}

/* The directory for them, without logs if these are the first. A record's own has none: it began
 * empty. */
static base_status make_directory(const launch_rank_logs *logs, base_error *reterr)
{
    const base_status status = base_mkdirs(logs->directory, reterr);
    return status == BASE_OK && !logs->begun ? remove_logs(logs->directory, reterr) : status;
}

void launch_rank_logs_write(launch_rank_logs *logs, const char *out, bool recording, int rank,
                            const char *text, size_t bytes)
{
    char path[BASE_PATH_BYTES + 32];
    base_error error;
    if (out[0] == '\0') {
        return;
    }
    const int length =
        snprintf(logs->directory, sizeof logs->directory, "%s%s", out, recording ? "" : ".failed");
    base_status status = length < BASE_PATH_BYTES
                             ? make_directory(logs, &error)
                             : base_fail(&error, BASE_ERR_LIMIT, "%s: the name is too long", out);
    logs->begun = true;
    if (status == BASE_OK) {
        (void)snprintf(path, sizeof path, "%s/rank-%d.log", logs->directory, rank);
        status = base_file_write(path, text, bytes, &error);
    }
    if (status != BASE_OK) {
        base_log(BASE_LOG_WARNING, "the ranks' output is not kept: %s", error.message);
        logs->directory[0] = '\0';
    }
}
