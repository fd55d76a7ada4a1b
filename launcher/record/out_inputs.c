/* Knows which files in the output directory are a run's own, and which ones the job reads. Called
 * by out_directory.c. */
#include "record/out_inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "proto/checkpoints.h"
#include "proto/job.h"

/* The files that a run writes, besides those of each rank. A later run may start from the
 * first ones, so they are replaced at the very end. */
static const char *const OUR_FILES[] = {
    "model.safetensors",
    "config.json",
    "tokenizer.json",
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "timings.jsonl",
    "manifest.json",
    "report.html",
    "scaling.svg",
    "loss.svg",
    "steptime.svg",
    "scaling.dat",
    "loss.dat",
    "steptime.dat",
    "scaling.png", /* these four: of older records */
    "loss.png",
    "steptime.png",
    "plots.gp",
    "flight.html",
    PROTO_TRACE_FILE,
    "adapter_config.json",
    "adapter_model.safetensors",
    (PROTO_ADAPTER_DIRECTORY "/adapter_config.json"),
    (PROTO_ADAPTER_DIRECTORY "/adapter_model.safetensors"),
    (PROTO_ADAPTER_DIRECTORY "/generation_config.json"),
};
enum { MODEL_FILES = 6 };

static const char STATE[] = "state-rank-";
static const char CHECKPOINTS[] = PROTO_CHECKPOINTS_DIRECTORY "/";

/* HEAD, a number, TAIL. */
static bool is_numbered(const char *name, const char *head, const char *tail)
{
    if (strncmp(name, head, strlen(head)) != 0) {
        return false;
    }
    name += strlen(head);
    const size_t digits = strspn(name, "0123456789");
    return digits > 0 && strcmp(name + digits, tail) == 0;
}

/* Cuts the ending off the name, if it has it. */
static void cut(char *name, const char *ending)
{
    const size_t length = strlen(name);
    const size_t ending_length = strlen(ending);
    if (length > ending_length && strcmp(name + length - ending_length, ending) == 0) {
        name[length - ending_length] = '\0';
    }
}

bool launch_out_is_ours(const char *name)
{
    char stem[NAME_MAX + 1];
    (void)snprintf(stem, sizeof stem, "%s", name);
    cut(stem, ".tmp");
    cut(stem, ".part"); /* of a file that another host sends */
    for (size_t i = 0; i < sizeof OUR_FILES / sizeof OUR_FILES[0]; i++) {
        if (strcmp(stem, OUR_FILES[i]) == 0) {
            return true;
        }
    }
    return is_numbered(stem, STATE, ".safetensors") || is_numbered(stem, "rank-", ".log") ||
           is_numbered(stem, "flight-rank-", ".json") ||
           is_numbered(stem, LAUNCH_TIMINGS_BEFORE, ".jsonl");
}

base_status launch_out_remove_adapters(const launch_out_directory *directory, base_error *reterr)
{
    static const char below[] = PROTO_ADAPTER_DIRECTORY "/";
    for (size_t i = 0; i < sizeof OUR_FILES / sizeof OUR_FILES[0]; i++) {
        if (strncmp(OUR_FILES[i], below, sizeof below - 1) == 0 &&
            unlinkat(directory->fd, OUR_FILES[i], 0) != 0 && errno != ENOENT && errno != ENOTDIR) {
            return base_fail_errno(reterr, errno, "cannot remove %s/%s", directory->path,
                                   OUR_FILES[i]);
        }
        char partial[BASE_PATH_BYTES]; /* of a run that was killed */
        (void)snprintf(partial, sizeof partial, "%s.tmp", OUR_FILES[i]);
        if (strncmp(partial, below, sizeof below - 1) == 0) {
            (void)unlinkat(directory->fd, partial, 0);
        }
    }
    (void)unlinkat(directory->fd, PROTO_ADAPTER_DIRECTORY,
                   AT_REMOVEDIR); /* if nothing else is in it */
    return BASE_OK;
}

bool launch_out_is_state(const char *name, uint64_t *rank)
{
    const bool is = is_numbered(name, STATE, ".safetensors");
    *rank = is ? strtoull(name + strlen(STATE), NULL, 10) : 0;
    return is;
}

bool launch_out_is_input(const launch_out_directory *directory, const char *name)
{
    for (int i = 0; i < directory->input_count; i++) {
        if (strcmp(directory->inputs[i], name) == 0) {
            return true;
        }
    }
    return false;
}

const char *launch_out_below(const char *directory, const char *path, char real[PATH_MAX])
{
    char parent[BASE_PATH_BYTES];
    (void)snprintf(parent, sizeof parent, "%s", path);
    char *name = strrchr(parent, '/');
    if (name == NULL) {
        return NULL;
    }
    *name++ = '\0';
    if (realpath(parent[0] != '\0' ? parent : "/", real) == NULL) {
        return NULL;
    }
    const size_t length = strlen(real);
    const size_t directory_bytes = strlen(directory);
    if (length + 1 + strlen(name) >= PATH_MAX) {
        return NULL;
    }
    (void)snprintf(real + length, PATH_MAX - length, "/%s", name);
    return strncmp(real, directory, directory_bytes) == 0 && real[directory_bytes] == '/'
               ? real + directory_bytes + 1
               : NULL;
}

base_status launch_out_find_inputs(const launch_out_options *options, const char *real_directory,
                                   launch_out_directory *directory, base_error *reterr)
{
    BASE_ASSERT(options->input_count <= LAUNCH_INPUTS_MAX);
    for (int i = 0; i < options->input_count; i++) {
        char real[PATH_MAX];
        const char *rest = launch_out_below(real_directory, options->inputs[i], real);
        if (rest == NULL || access(options->inputs[i], F_OK) != 0) {
            continue;
        }
        if (!options->goes_on && strncmp(rest, CHECKPOINTS, strlen(CHECKPOINTS)) == 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "this run reads %s, and begins the checkpoints of its --out anew: "
                             "name another --out",
                             options->inputs[i]);
        }
        bool model_file = false;
        for (int j = 0; j < MODEL_FILES; j++) {
            model_file = model_file || strcmp(rest, OUR_FILES[j]) == 0;
        }
        model_file = model_file && !options->needs_model;
        if (launch_out_is_ours(rest) && !model_file) {
            return base_fail(
                reterr, BASE_ERR_INVALID,
                "this run reads %s and would write over it, or move it away: name another --out",
                options->inputs[i]);
        }
        (void)snprintf(directory->inputs[directory->input_count++], BASE_PATH_BYTES, "%s", rest);
    }
    return BASE_OK;
}

base_status launch_out_link_inputs(const launch_out_directory *directory, base_error *reterr)
{
    for (int i = 0; i < directory->input_count; i++) {
        char target[2 * BASE_PATH_BYTES + 32];
        char link[2 * BASE_PATH_BYTES + 32];
        (void)snprintf(target, sizeof target, "%s/%s", directory->moved_to, directory->inputs[i]);
        (void)snprintf(link, sizeof link, "%s/%s", directory->path, directory->inputs[i]);
        char *slash = strrchr(link, '/');
        *slash = '\0';
        const base_status status = base_mkdirs(link, reterr);
        *slash = '/';
        if (status != BASE_OK) {
            return status;
        }
        if (symlink(target, link) != 0 && errno != EEXIST) {
            return base_fail_errno(reterr, errno, "cannot link %s to %s", link, target);
        }
    }
    return BASE_OK;
}

void launch_out_remove_directories(char *path, size_t stood_bytes)
{
    while (strlen(path) > stood_bytes && rmdir(path) == 0) {
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash == path) {
            return;
        }
        *slash = '\0';
    }
}

void launch_out_directory_finish(launch_out_directory *directory)
{
    for (int i = 0; directory->moved_to[0] != '\0' && i < directory->input_count; i++) {
        char link[2 * BASE_PATH_BYTES];
        struct stat info;
        (void)snprintf(link, sizeof link, "%s/%s", directory->path, directory->inputs[i]);
        if (lstat(link, &info) != 0 || !S_ISLNK(info.st_mode) || unlink(link) != 0) {
            continue;
        }
        *strrchr(link, '/') = '\0';
        launch_out_remove_directories(link, strlen(directory->path));
    }
    directory->input_count = 0;
}
