/* Writes and checks the digests of a job's files, and lists the files. The launcher writes and lists
 * them, and a rank on every host checks them. */
#include "proto/pin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/safetensors.h"

/* A file that JOB.json names, and the field of its digest. */
typedef struct pinned {
    const char *option;
    const char *key;
    size_t path;   /* offset in proto_job */
    size_t sha256; /* offset in proto_job */
    bool large;
    enum { ONE_FILE, CHECKPOINT, ADAPTER } kind; /* a file, or a directory of them */
} pinned;

#define PINNED(name, member)                                                                       \
    .option = (name), .key = #member, .path = offsetof(proto_job, member),                         \
    .sha256 = offsetof(proto_job, member##_sha256)

static const pinned files[] = {
    {PINNED("--data", data.train), .large = true},
    {PINNED("--heldout", data.heldout), .large = true},
    {PINNED("--tokenizer", data.tokenizer)},
    {PINNED("--checkpoint", model.checkpoint), .kind = CHECKPOINT},
    {PINNED("--adapter", model.adapter), .kind = ADAPTER},
    {PINNED("--draft", model.draft), .kind = CHECKPOINT},
    {PINNED("--prompts", infer.prompts)},
};
enum { FILE_COUNT = sizeof files / sizeof files[0] };
_Static_assert(PROTO_FILES_MAX >= BASE_SAFETENSORS_FILES_MAX + FILE_COUNT + 13,
               "the largest checkpoint fits, with its index and configurations, an adapter, and a "
               "draft model in a few files");

static base_status digest_of(const proto_job *job, const pinned *file,
                             char hex[PROTO_DIGEST_HEX_BYTES], base_error *reterr)
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    const char *path = (const char *)job + file->path;
    const base_status status =
        file->kind == CHECKPOINT ? proto_checkpoint_digest(path, job->model.verify, digest, reterr)
        : file->kind == ADAPTER  ? proto_adapter_digest(path, digest, reterr)
                                 : proto_sha256_file(path, digest, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "%s", file->option);
    }
    proto_digest_hex(digest, hex);
    return BASE_OK;
}

base_status proto_job_pin(proto_job *job, proto_pin_extent extent, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int i = 0; i < FILE_COUNT && status == BASE_OK; i++) {
        const pinned *file = &files[i];
        const bool named = *((const char *)job + file->path) != '\0';
        if (named && (extent == PROTO_PIN_ALL || !file->large)) {
            status = digest_of(job, file, (char *)job + file->sha256, reterr);
        }
    }
    return status;
}

base_status proto_job_check_files(const proto_job *job, base_error *reterr)
{
    for (int i = 0; i < FILE_COUNT; i++) {
        char hex[PROTO_DIGEST_HEX_BYTES];
        const pinned *file = &files[i];
        const char *wanted = (const char *)job + file->sha256;
        if (wanted[0] == '\0') {
            continue;
        }
        const base_status status = digest_of(job, file, hex, reterr);
        if (status != BASE_OK) {
            return status;
        }
        if (strcmp(hex, wanted) != 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "%s: %s is not the file that the job names: its SHA-256 is %s, "
                             "JOB.json has %s",
                             file->option, (const char *)job + file->path, hex, wanted);
        }
    }
    return BASE_OK;
}

/* ---- the list ---- */

typedef struct listing {
    const pinned *row;
    const char *path; /* of the row */
    const char *sha256;
    proto_file *files; /* (PROTO_FILES_MAX) */
    int count;
} listing;

/* Adds one file. BASE_ERR_NOTFOUND: there is no such file. */
static base_status list_file(void *user, const char *name, bool tensors, base_error *reterr)
{
    listing *at = user;
    struct stat info;
    (void)tensors;
    if (at->count == PROTO_FILES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a job on several hosts reads at most %d files",
                         PROTO_FILES_MAX);
    }
    proto_file *file = &at->files[at->count];
    (void)snprintf(file->key, sizeof file->key, "%s", at->row->key);
    const int length = snprintf(file->name, sizeof file->name, "%s", name);
    base_status status = BASE_OK;
    if (name[0] != '\0') {
        status = base_path_join(at->path, name, file->path, reterr);
    } else {
        (void)snprintf(file->path, sizeof file->path, "%s", at->path);
    }
    if (status == BASE_OK && length >= (int)sizeof file->name) {
        status = base_fail(reterr, BASE_ERR_LIMIT, "%s: a name of more than %d bytes", file->path,
                           PROTO_NAME_BYTES_MAX - 1);
    }
    if (status == BASE_OK && stat(file->path, &info) != 0) {
        const int why = errno;
        status = base_fail_errno(reterr, why, "cannot read %s", file->path);
        return why == ENOENT ? BASE_ERR_NOTFOUND : status;
    }
    if (status == BASE_OK && !S_ISREG(info.st_mode)) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s: not a regular file", file->path);
    }
    if (status == BASE_OK && !proto_digest_parse(at->sha256, file->sha256)) {
        status = proto_sha256_file(file->path, file->sha256, reterr);
    }
    if (status == BASE_OK) {
        file->size_bytes = (uint64_t)info.st_size;
        at->count++;
    }
    return status;
}

bool proto_job_reads(const proto_job *job, const char *key)
{
    for (int i = 0; i < FILE_COUNT; i++) {
        if (strcmp(files[i].key, key) == 0) {
            return *((const char *)job + files[i].path) != '\0';
        }
    }
    return false;
}

base_status proto_job_files(const proto_job *job, proto_file **listed, int *count,
                            base_error *reterr)
{
    listing at = {.files = calloc(PROTO_FILES_MAX, sizeof *at.files)};
    base_status status = at.files != NULL
                             ? BASE_OK
                             : base_fail(reterr, BASE_ERR_MEMORY, "no memory for a list of files");
    for (int i = 0; i < FILE_COUNT && status == BASE_OK; i++) {
        const pinned *file = &files[i];
        at.row = file;
        at.path = (const char *)job + file->path;
        /* the digest of a directory is not that of its files */
        at.sha256 = file->kind != ONE_FILE ? "" : (const char *)job + file->sha256;
        if (at.path[0] != '\0') {
            status = file->kind == CHECKPOINT
                         ? proto_checkpoint_walk(at.path, list_file, &at, reterr)
                     : file->kind == ADAPTER ? proto_adapter_walk(list_file, &at, reterr)
                                             : list_file(&at, "", false, reterr);
        }
        if (status != BASE_OK) {
            (void)base_error_prepend(reterr, status, "%s", file->option);
        }
    }
    if (status != BASE_OK) {
        free(at.files);
        return status;
    }
    *listed = at.files;
    *count = at.count;
    return BASE_OK;
}
