/* Makes the directory that an agent's ranks read and write in, and removes it. Called by files.c. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/lock.h"
#include "base/path.h"

enum { OPEN_DIRECTORIES = 16, LOCK_TRIES = 1000, PREFIX_BYTES = 65 };

static const char lock_suffix[] = ".lock";

/* A directory of this user's alone where everybody may write: nobody else may have made it. */
static base_status temporary_cache(char path[BASE_PATH_BYTES], base_error *reterr)
{
    const char *directory = getenv("TMPDIR");
    char name[64];
    struct stat info;
    (void)snprintf(name, sizeof name, "ringfence-%u", (unsigned)geteuid());
    base_status status = base_path_join(
        directory != NULL && directory[0] == '/' ? directory : "/tmp", name, path, reterr);
    if (status == BASE_OK && mkdir(path, 0700) != 0 && errno != EEXIST) {
        status = base_fail_errno(reterr, errno, "cannot make %s", path);
    }
    if (status == BASE_OK && (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode) ||
                              info.st_uid != geteuid() || (info.st_mode & 077) != 0)) {
        status = base_fail(reterr, BASE_ERR_AUTH, "%s is not this user's alone", path);
    }
    return status;
}

/* --cache, or the user's cache; in a container whose user has no home, a temporary directory. */
static base_status cache_path(const launch_agent *agent, char path[BASE_PATH_BYTES],
                              base_error *reterr)
{
    const char *given = agent->options->hosts.cache;
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (given[0] != '\0') {
        (void)snprintf(path, BASE_PATH_BYTES, "%s", given);
        return BASE_OK;
    }
    if (cache != NULL && cache[0] == '/') {
        return base_path_join(cache, "ringfence", path, reterr);
    }
    if (home != NULL && home[0] == '/' && access(home, W_OK) == 0) {
        return base_path_join(home, ".cache/ringfence", path, reterr);
    }
    return temporary_cache(path, reterr);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    (void)remove(path);
    return 0;
}

static void remove_all(const char *path)
{
    (void)nftw(path, remove_one, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* A directory's lock is a file beside it, because that works on a network's file system, too. */
static base_status lock_path(const char *run, char path[BASE_PATH_BYTES], base_error *reterr)
{
    const int length = snprintf(path, BASE_PATH_BYTES, "%s%s", run, lock_suffix);
    return length < BASE_PATH_BYTES ? BASE_OK
                                    : base_fail(reterr, BASE_ERR_LIMIT, "%s: too long", run);
}

/* Removes a directory whose lock this process has, and the lock. */
static void remove_locked(const char *run, const char *lock, int fd)
{
    remove_all(run);
    (void)unlink(lock);
    (void)close(fd);
}

/* Takes the lock of this agent's directory. Another agent that sweeps may have it for a moment, and
 * removes the file: then the lock is one that nobody else meets, and is taken anew. */
static base_status lock_own(const char *lock, int *fd, base_error *reterr)
{
    for (int tries = 1;; tries++) {
        int taken = -1;
        base_status status = base_lock_file(lock, &taken, reterr);
        if (status == BASE_OK && base_lock_is_named(taken, lock)) {
            *fd = taken;
            return BASE_OK;
        }
        if (status == BASE_OK) {
            (void)close(taken);
            status = base_fail(reterr, BASE_ERR_BUSY, "%s has just been removed", lock);
        }
        if (status != BASE_ERR_BUSY || tries == LOCK_TRIES) {
            return status;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = BASE_NS_PER_MS}, NULL);
    }
}

/* What names of this host's directories begin with. A home directory may be shared with other hosts,
 * where locks may be each host's own: then theirs look free, and are not. */
static void host_prefix(char prefix[PREFIX_BYTES])
{
    base_host host;
    base_host_get(&host);
    (void)snprintf(prefix, PREFIX_BYTES, "%s.",
                   host.boot_id[0] != '\0' ? host.boot_id : host.hostname);
}

/* Removes what killed agents of this host have left since it was started: the directories whose lock
 * nobody has. If a lock's file has lost its name meanwhile, its holder has just removed the lock and the
 * directory, and another agent may have made both again. */
static void sweep(const char *runs)
{
    DIR *directory = opendir(runs);
    const struct dirent *entry = NULL;
    char prefix[PREFIX_BYTES];
    host_prefix(prefix);
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char lock[BASE_PATH_BYTES];
        char run[BASE_PATH_BYTES];
        base_error ignored;
        int fd = -1;
        const size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
            length <= sizeof lock_suffix - 1 ||
            strcmp(entry->d_name + length - (sizeof lock_suffix - 1), lock_suffix) != 0 ||
            base_path_join(runs, entry->d_name, lock, NULL) != BASE_OK ||
            base_lock_file(lock, &fd, &ignored) != BASE_OK) {
            continue;
        }
        if (!base_lock_is_named(fd, lock)) {
            (void)close(fd);
            continue;
        }
        (void)snprintf(run, sizeof run, "%.*s", (int)(strlen(lock) - (sizeof lock_suffix - 1)),
                       lock);
        remove_locked(run, lock, fd);
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
}

base_status agent_run_directory(const launch_agent *agent, agent_files *files, base_error *reterr)
{
    char cache[BASE_PATH_BYTES];
    char runs[BASE_PATH_BYTES];
    char run[BASE_PATH_BYTES];
    char lock[BASE_PATH_BYTES];
    char prefix[PREFIX_BYTES];
    char name[PREFIX_BYTES + PROTO_RUN_ID_BYTES + 64];
    host_prefix(prefix);
    (void)snprintf(name, sizeof name, "%s%s-%" PRId64 "-%d", prefix, agent->bootstrap.run_id,
                   agent->options->hosts.node_rank, (int)getpid());
    base_status status = cache_path(agent, cache, reterr);
    if (status == BASE_OK) {
        status = base_path_join(cache, "files", files->cached, reterr);
    }
    if (status == BASE_OK) {
        status = base_path_join(cache, "runs", runs, reterr);
    }
    if (status == BASE_OK) {
        status = base_path_join(runs, name, run, reterr);
    }
    if (status == BASE_OK) {
        status = lock_path(run, lock, reterr);
    }
    if (status == BASE_OK) {
        status = base_mkdirs(files->cached, reterr);
    }
    if (status == BASE_OK) {
        status = base_mkdirs(runs, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    sweep(runs);
    status = lock_own(lock, &files->run_fd, reterr);
    if (status == BASE_OK) {
        (void)snprintf(files->run, sizeof files->run, "%s", run);
        status = base_mkdirs(run, reterr);
    }
    return status;
}

void agent_run_directory_remove(const agent_files *files)
{
    char lock[BASE_PATH_BYTES];
    if (files->run[0] != '\0' && lock_path(files->run, lock, NULL) == BASE_OK) {
        remove_locked(files->run, lock, files->run_fd);
    }
}
