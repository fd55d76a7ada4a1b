/* Writes timings.jsonl as steps arrive, and keeps its whole lines on a full disk. Called by record.c. */
#include "record/timings_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/out_inputs.h"
#include "record/timings.h"

enum { STREAM_BUFFER_BYTES = 64 * 1024 };

#define FLUSH_EVERY_NS (500 * BASE_NS_PER_MS)

static base_status cannot_write(const launch_timings_file *file, int reason, base_error *reterr)
{
    return base_fail_errno(reterr, reason, "cannot write %s", file->path);
}

void launch_timings_file_name(launch_timings_file *file, const char *directory)
{
    (void)snprintf(file->path, sizeof file->path, "%s/timings.jsonl", directory);
    file->flushed_ns = base_now_ns();
}

/* NULL: errno says why. */
static FILE *open_empty(const char *path)
{
    FILE *stream = fopen(path, "w+e");
    if (stream != NULL) {
        (void)setvbuf(stream, NULL, _IOFBF, STREAM_BUFFER_BYTES);
    }
    return stream;
}

base_status launch_timings_file_open(launch_timings_file *file, base_error *reterr)
{
    file->stream = open_empty(file->path);
    return file->stream != NULL ? BASE_OK : cannot_write(file, errno, reterr);
}

/* Cuts the file after its last whole line, and writes nothing more to it. So the record on a full
 * disk has lines, and not a piece of one. */
static void cut_to_lines(launch_timings_file *file)
{
    char tail[LAUNCH_TIMINGS_LINE_BYTES_MAX];
    const int fd = fileno(file->stream);
    const off_t end = lseek(fd, 0, SEEK_END);
    const off_t from = end > (off_t)sizeof tail ? end - (off_t)sizeof tail : 0;
    ssize_t got = end > 0 ? pread(fd, tail, (size_t)(end - from), from) : 0;
    while (got > 0 && tail[got - 1] != '\n') {
        got--;
    }
    __fpurge(file->stream);
    if (got >= 0) {
        (void)!ftruncate(fd, from + got);
    }
    file->failed = true;
}

/* The stream keeps its error flag. So one check after writing is enough. */
static base_status check(launch_timings_file *file, bool failed, base_error *reterr)
{
    const int reason = errno;
    if (!failed && !ferror(file->stream)) {
        return BASE_OK;
    }
    cut_to_lines(file);
    return cannot_write(file, reason != 0 ? reason : EIO, reterr);
}

static base_status flush(launch_timings_file *file, base_error *reterr)
{
    errno = 0;
    return check(file, fflush(file->stream) != 0, reterr);
}

base_status launch_timings_file_keep(launch_timings_file *file, const launch_steps *steps,
                                     base_error *reterr)
{
    char temporary[LAUNCH_TIMINGS_PATH_BYTES + 8];
    const base_status flushed = file->stream != NULL ? flush(file, reterr) : BASE_OK;
    if (flushed != BASE_OK) {
        return flushed;
    }
    (void)snprintf(temporary, sizeof temporary, "%s.tmp", file->path);
    FILE *kept = open_empty(temporary);
    if (kept == NULL || !launch_timings_copy(file->path, steps, kept) || fflush(kept) != 0 ||
        rename(temporary, file->path) != 0) {
        const base_status status = cannot_write(file, errno, reterr);
        if (kept != NULL) {
            (void)fclose(kept);
            (void)unlink(temporary);
        }
        file->failed = true;
        return status;
    }
    launch_timings_file_fini(file);
    file->stream = kept;
    return BASE_OK;
}

base_status launch_timings_file_put(launch_timings_file *file, const launch_step *step,
                                    const proto_job *job, base_error *reterr)
{
    if (file->failed) {
        return BASE_OK;
    }
    errno = 0;
    launch_timings_put(file->stream, step, job);
    const base_status status = check(file, false, reterr);
    const int64_t now_ns = base_now_ns();
    const int64_t every = job->train.save_every;
    const bool saved =
        every > 0 && (step->step + 1) % (uint64_t)every == 0; /* its checkpoint is next */
    if (status != BASE_OK || (!saved && now_ns - file->flushed_ns < FLUSH_EVERY_NS)) {
        return status;
    }
    file->flushed_ns = now_ns;
    return flush(file, reterr);
}

bool launch_timings_file_set_aside(launch_timings_file *file, uint64_t first_step,
                                   char kept[LAUNCH_TIMINGS_PATH_BYTES + 32])
{
    struct stat info;
    const size_t directory_bytes = (size_t)(strrchr(file->path, '/') - file->path);
    launch_timings_file_fini(file);
    (void)snprintf(kept, LAUNCH_TIMINGS_PATH_BYTES + 32,
                   "%.*s/" LAUNCH_TIMINGS_BEFORE "%" PRIu64 ".jsonl", (int)directory_bytes,
                   file->path, first_step);
    return stat(file->path, &info) == 0 && info.st_size > 0 &&
           renameat2(AT_FDCWD, file->path, AT_FDCWD, kept, RENAME_NOREPLACE) == 0;
}

base_status launch_timings_file_close(launch_timings_file *file, base_error *reterr)
{
    const base_status status = file->failed ? BASE_OK : flush(file, reterr);
    FILE *stream = file->stream;
    file->stream = NULL;
    if (fclose(stream) != 0 && status == BASE_OK && !file->failed) {
        return cannot_write(file, errno, reterr);
    }
    return status;
}

void launch_timings_file_fini(launch_timings_file *file)
{
    if (file->stream != NULL) {
        (void)fclose(file->stream);
        file->stream = NULL;
    }
}
