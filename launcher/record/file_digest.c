/* Computes the SHA-256 of the training file on a low-priority thread. record.c starts it when it
 * opens a record, and joins it when it finishes the record. */
#include "record/file_digest.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"

enum { NICE_OF_THREAD = 10 };

static void work_out(launch_file_digest *digest)
{
    struct stat info;
    if (stat(digest->path, &info) == 0 && S_ISREG(info.st_mode) &&
        proto_sha256_file(digest->path, digest->sha256, NULL) == BASE_OK) {
        digest->size_bytes = (uint64_t)info.st_size;
        digest->known = true;
    }
}

static void *run_thread(void *argument)
{
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE_OF_THREAD); /* of this thread alone */
    work_out(argument);
    return NULL;
}

void launch_file_digest_start(launch_file_digest *digest, const char *path)
{
    base_error ignored;
    memset(digest, 0, sizeof *digest);
    if (path[0] == '\0') {
        return;
    }
    (void)snprintf(digest->path, sizeof digest->path, "%s", path);
    digest->running =
        base_thread_start(&digest->thread, run_thread, digest, "a digest", &ignored) == BASE_OK;
    if (!digest->running) {
        work_out(digest);
    }
}

void launch_file_digest_finish(launch_file_digest *digest)
{
    if (digest->running) {
        (void)pthread_join(digest->thread, NULL);
        digest->running = false;
    }
}
