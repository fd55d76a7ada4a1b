/* Gets the job's files for an agent's ranks: looks for each by its digest on this host, fetches what
 * is missing from the head, and makes the directory in which the ranks find all of them. Called by
 * agent.c between Assign and Prepared. */
#include "agent/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"

enum { BUSY_MS = 200, MB = 1000 * 1000 };

/* ---- opening ---- */

static base_status add_file(agent_files *files, const Ringfence__Control__File *named,
                            base_error *reterr)
{
    proto_file *file = &files->files[files->count];
    if (!proto_job_reads(&files->placed, named->key)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the head has a file \"%s\", which this job does not read", named->key);
    }
    (void)snprintf(file->key, sizeof file->key, "%s", named->key);
    (void)snprintf(file->name, sizeof file->name, "%s", named->name);
    file->size_bytes = named->size_bytes;
    memcpy(file->sha256, named->sha256.data, PROTO_DIGEST_BYTES);
    files->count++;
    files->total_bytes += named->size_bytes;
    return BASE_OK;
}

base_status agent_files_open(launch_agent *agent, const Ringfence__Control__Assign *assign,
                             base_error *reterr)
{
    agent_files *files = &agent->files;
    agent_files_close(files); /* of a head that was there before */
    files->placed = agent->part.job;
    files->files = calloc(assign->n_files > 0 ? assign->n_files : 1, sizeof files->files[0]);
    files->since_ns = base_now_ns();
    files->show_ns = files->since_ns + LAUNCH_FILES_SHOWN_MS * BASE_NS_PER_MS;
    base_status status = files->files != NULL
                             ? BASE_OK
                             : base_fail(reterr, BASE_ERR_MEMORY, "no memory for a list of files");
    for (size_t i = 0; i < assign->n_files && status == BASE_OK; i++) {
        status = add_file(files, assign->files[i], reterr);
    }
    const bool writes = files->placed.output.directory[0] != '\0';
    if (status != BASE_OK || (files->count == 0 && !writes)) {
        return status; /* a user's program has no files of ours */
    }
    status = agent_run_directory(agent, files, reterr);
    if (status == BASE_OK) {
        status = proto_job_relocate(&files->placed, files->run, reterr);
    }
    if (status == BASE_OK && writes) {
        status = base_mkdirs(files->placed.output.directory, reterr);
    }
    return status == BASE_OK ? status : base_error_prepend(reterr, status, "--cache");
}

void agent_files_close(agent_files *files)
{
    launch_hashing_close(files->hashing);
    launch_incoming_close(files->incoming, true);
    agent_run_directory_remove(files);
    free(files->files);
    *files = (agent_files){.run_fd = -1};
}

/* ---- looking ---- */

/* Where a job has the file. */
static base_status path_in(const proto_job *job, const proto_file *file, char path[BASE_PATH_BYTES],
                           base_error *reterr)
{
    const base_field *field = base_fields_find(&proto_job_fields, file->key);
    const char *named = (const char *)job + field->offset;
    if (file->name[0] != '\0') {
        return base_path_join(named, file->name, path, reterr);
    }
    (void)snprintf(path, BASE_PATH_BYTES, "%s", named);
    return BASE_OK;
}

static base_status cached_path(const agent_files *files, const proto_file *file,
                               char path[BASE_PATH_BYTES], base_error *reterr)
{
    char hex[PROTO_DIGEST_HEX_BYTES];
    proto_digest_hex(file->sha256, hex);
    return base_path_join(files->cached, hex, path, reterr);
}

/* Begins to read the file at the path, if it can be the one that is looked for. */
static bool look_at(agent_files *files, const proto_file *file, const char *path)
{
    struct stat info;
    base_error ignored;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           (uint64_t)info.st_size == file->size_bytes &&
           launch_hashing_open(path, &files->hashing, &ignored) == BASE_OK;
}

static void found(agent_files *files, const char *path)
{
    proto_file *file = &files->files[files->index];
    (void)snprintf(file->path, sizeof file->path, "%s", path);
    files->have_bytes += file->size_bytes;
    files->index++;
    files->place = AGENT_LOOK_HERE;
    files->again = false;
}

/* Reads on in a file that may be the one. *same: it is. */
static bool read_on(agent_files *files, const proto_file *file, bool *same)
{
    bool whole = false;
    uint64_t size_bytes = 0;
    uint8_t digest[PROTO_DIGEST_BYTES];
    base_error ignored;
    const base_status status =
        launch_hashing_step(files->hashing, &whole, &size_bytes, digest, &ignored);
    if (status == BASE_OK && !whole) {
        return false;
    }
    launch_hashing_close(files->hashing);
    files->hashing = NULL;
    *same = status == BASE_OK && size_bytes == file->size_bytes &&
            memcmp(digest, file->sha256, sizeof digest) == 0;
    return true;
}

/* One step of looking at a path; if the file is not there, `next` is the next place. */
static void look(agent_files *files, const char *path, agent_place next)
{
    const proto_file *file = &files->files[files->index];
    bool same = false;
    if (files->hashing == NULL && !look_at(files, file, path)) {
        files->place = next;
        return;
    }
    if (!read_on(files, file, &same)) {
        return;
    }
    if (same) {
        found(files, path);
        return;
    }
    if (files->place == AGENT_LOOK_CACHED) {
        base_log(BASE_LOG_WARNING, "%s is not the file that it was: it is fetched again", path);
        (void)unlink(path);
    }
    files->place = next;
}

/* ---- fetching ---- */

static base_status open_incoming(launch_agent *agent, const char *path, base_error *reterr)
{
    agent_files *files = &agent->files;
    const proto_file *file = &files->files[files->index];
    const launch_incoming_options options = {
        .path = path, .size_bytes = file->size_bytes, .sha256 = file->sha256, .anew = files->again};
    const base_status status = launch_incoming_open(&options, &files->incoming, reterr);
    if (status == BASE_OK && !files->fetches && !agent->options->quiet) {
        base_log(BASE_LOG_INFO, "fetching what this host lacks of the job's files (%.1f MB) to %s",
                 (double)files->total_bytes / MB, files->cached);
    }
    files->fetches = files->fetches || status == BASE_OK;
    return status;
}

/* Asks for as many chunks as may be on the way. */
static void ask(launch_agent *agent)
{
    agent_files *files = &agent->files;
    Ringfence__Control__Fetch fetch = RINGFENCE__CONTROL__FETCH__INIT;
    fetch.file = (uint32_t)files->index;
    while (launch_incoming_ask(files->incoming, &fetch.offset)) {
        (void)agent_send(agent, &fetch.base);
    }
}

/* All has come. What was continued and is wrong is fetched once more, from its beginning. */
static base_status finish(launch_agent *agent, const char *path, base_error *reterr)
{
    agent_files *files = &agent->files;
    const proto_file *file = &files->files[files->index];
    char at_head[BASE_PATH_BYTES];
    const uint64_t continued_bytes = launch_incoming_found_bytes(files->incoming);
    base_status status = launch_incoming_finish(files->incoming, reterr);
    files->incoming = NULL;
    if (status == BASE_OK) {
        files->fetched_files++;
        files->fetched_bytes += file->size_bytes - continued_bytes;
        found(files, path);
    } else if (status == BASE_ERR_INVALID && continued_bytes > 0) {
        files->again = true;
        status = BASE_OK;
    } else if (status == BASE_ERR_INVALID &&
               path_in(&agent->part.job, file, at_head, NULL) == BASE_OK) {
        files->changed = true;
        status = base_error_prepend(reterr, status, "%s has changed at the head: %s", file->key,
                                    at_head);
    }
    return status;
}

/* One step of fetching. *next_ns: when the next one is due. */
static base_status fetch(launch_agent *agent, const char *path, int64_t now_ns, int64_t *next_ns,
                         base_error *reterr)
{
    agent_files *files = &agent->files;
    launch_incoming_state state = LAUNCH_INCOMING_READS;
    base_status status = BASE_OK;
    if (files->incoming == NULL) {
        status = open_incoming(agent, path, reterr);
    }
    if (status == BASE_ERR_BUSY) { /* another agent of this host fetches it: look when it has */
        files->place = AGENT_LOOK_CACHED;
        *next_ns = now_ns + BUSY_MS * BASE_NS_PER_MS;
        return BASE_OK;
    }
    if (status == BASE_OK) {
        status = launch_incoming_step(files->incoming, &state, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    if (state == LAUNCH_INCOMING_WHOLE) {
        return finish(agent, path, reterr);
    }
    if (state == LAUNCH_INCOMING_ASKS) {
        ask(agent);
        *next_ns = BASE_NO_DEADLINE; /* a chunk wakes the loop */
    }
    return BASE_OK;
}

base_status agent_files_chunk(launch_agent *agent, const Ringfence__Control__Chunk *chunk,
                              base_error *reterr)
{
    agent_files *files = &agent->files;
    if (files->incoming == NULL || chunk->file != (uint32_t)files->index) {
        return base_fail(reterr, BASE_ERR_INVALID, "the head has sent what nobody asked for");
    }
    const base_status status = launch_incoming_take(files->incoming, chunk->offset,
                                                    chunk->data.data, chunk->data.len, reterr);
    if (status == BASE_OK) {
        ask(agent);
    }
    return status;
}

/* ---- the loop's part ---- */

/* One step towards the next file. */
static base_status step(launch_agent *agent, int64_t now_ns, int64_t *next_ns, base_error *reterr)
{
    agent_files *files = &agent->files;
    const proto_file *file = &files->files[files->index];
    char path[BASE_PATH_BYTES];
    *next_ns = now_ns;
    if (files->place == AGENT_LOOK_HERE) {
        const base_status status = path_in(&agent->part.job, file, path, reterr);
        if (status == BASE_OK) {
            look(files, path, AGENT_LOOK_CACHED);
        }
        return status;
    }
    const base_status status = cached_path(files, file, path, reterr);
    if (status == BASE_OK && files->place == AGENT_LOOK_CACHED) {
        look(files, path, AGENT_FETCH);
        return status;
    }
    return status == BASE_OK ? fetch(agent, path, now_ns, next_ns, reterr) : status;
}

/* Links every file to where the ranks look for it. */
static base_status link_files(agent_files *files, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int i = 0; i < files->count && status == BASE_OK; i++) {
        char path[BASE_PATH_BYTES];
        char directory[BASE_PATH_BYTES];
        status = path_in(&files->placed, &files->files[i], path, reterr);
        if (status != BASE_OK) {
            break;
        }
        memcpy(directory, path, sizeof directory);
        *strrchr(directory, '/') = '\0';
        status = base_mkdirs(directory, reterr);
        if (status == BASE_OK && symlink(files->files[i].path, path) != 0) {
            status = base_fail_errno(reterr, errno, "cannot make %s", path);
        }
    }
    return status;
}

uint64_t agent_files_have(const agent_files *files)
{
    return files->have_bytes +
           (files->incoming != NULL ? launch_incoming_bytes(files->incoming) : 0);
}

bool agent_files_room(const agent_files *files, uint64_t *bytes)
{
    struct statvfs disk;
    const char *directory = files->placed.output.directory;
    if (directory[0] == '\0' || statvfs(directory, &disk) != 0 || disk.f_blocks == 0) {
        return false;
    }
    *bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    return true;
}

static void show(launch_agent *agent, int64_t now_ns)
{
    agent_files *files = &agent->files;
    if (now_ns < files->show_ns) {
        return;
    }
    files->show_ns = now_ns + LAUNCH_FILES_SHOWN_MS * BASE_NS_PER_MS;
    if (files->fetches && !agent->options->quiet) {
        base_log(BASE_LOG_INFO, "%.1f of %.1f MB of the job's files are here",
                 (double)agent_files_have(files) / MB, (double)files->total_bytes / MB);
    }
}

base_status agent_files_step(launch_agent *agent, int64_t now_ns, bool *all, int64_t *next_ns,
                             base_error *reterr)
{
    agent_files *files = &agent->files;
    base_status status = BASE_OK;
    *next_ns = now_ns;
    *all = files->index == files->count;
    if (!*all) {
        show(agent, now_ns);
        status = step(agent, now_ns, next_ns, reterr);
        *next_ns = files->show_ns < *next_ns ? files->show_ns : *next_ns;
        return status;
    }
    status = link_files(files, reterr);
    if (status == BASE_OK && files->fetches && !agent->options->quiet) {
        base_log(BASE_LOG_INFO, "fetched %d of the job's %d files (%.1f MB) in %.1f s",
                 files->fetched_files, files->count, (double)files->fetched_bytes / MB,
                 (double)(now_ns - files->since_ns) / BASE_NS_PER_S);
    }
    return status;
}
