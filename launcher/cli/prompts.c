/* Puts the prompts of --prompt into a file, and checks the file of --prompts. Called by
 * complete.c. */
#include "cli/prompts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "proto/prompts.h"

/* All prompts in one malloc'ed text, one line each. */
static char *join_prompts(const launch_options *options, size_t *size_bytes)
{
    size_t needed = 0;
    for (int i = 0; i < options->prompt_count; i++) {
        needed += strlen(options->prompts[i]) + 1;
    }
    char *text = malloc(needed + 1);
    for (int i = 0, used = 0; text != NULL && i < options->prompt_count; i++) {
        used += snprintf(text + used, needed + 1 - (size_t)used, "%s\n", options->prompts[i]);
    }
    *size_bytes = needed;
    return text;
}

/* Writes the text into a memfd. The ranks are this process's children, and open it under its
 * descriptors. */
static base_status keep_in_memory(const char *text, size_t size_bytes, char path[BASE_PATH_BYTES],
                                  base_error *reterr)
{
    const int fd = memfd_create("prompts", MFD_CLOEXEC);
    if (fd < 0) {
        return base_fail_errno(reterr, errno, "cannot make a file for the prompts");
    }
    (void)snprintf(path, BASE_PATH_BYTES, "/proc/%d/fd/%d", (int)getpid(), fd);
    /* the memfd stays open until this process ends */
    return base_fd_write(fd, path, text, size_bytes, reterr);
}

static base_status write_prompts(const launch_options *options, char path[BASE_PATH_BYTES],
                                 base_error *reterr)
{
    size_t size_bytes = 0;
    char *text = join_prompts(options, &size_bytes);
    base_status status = BASE_OK;
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for prompts");
    }
    if (options->write_job[0] == '\0') {
        status = keep_in_memory(text, size_bytes, path, reterr);
    } else {
        const int length = snprintf(path, BASE_PATH_BYTES, "%s.prompts", options->write_job);
        status = length < BASE_PATH_BYTES
                     ? base_file_write(path, text, size_bytes, reterr)
                     : base_fail(reterr, BASE_ERR_LIMIT, "the path is too long");
    }
    free(text);
    return status;
}

base_status launch_prompts_complete(launch_options *options, base_error *reterr)
{
    char *path = options->job.infer.prompts;
    proto_prompts prompts;
    base_status status = BASE_OK;
    if (options->prompt_count > 0) {
        status = write_prompts(options, path, reterr);
    }
    if (status == BASE_OK && path[0] != '\0') {
        status = proto_prompts_read(path, &prompts, reterr);
        proto_prompts_fini(&prompts);
    }
    return status == BASE_OK
               ? status
               : base_error_prepend(reterr, status, "%s",
                                    options->prompt_count > 0 ? "--prompt" : "--prompts");
}
