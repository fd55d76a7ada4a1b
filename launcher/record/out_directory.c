/* The output directory of a run: locks it, and moves or removes an older record once the job has
 * begun. Called by record.c. */
#include "record/out_inputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "proto/checkpoints.h"

enum { LOCK_ATTEMPTS = 8 };

typedef enum directory_kind { DIRECTORY_EMPTY, DIRECTORY_RECORD, DIRECTORY_OTHER } directory_kind;

/* The first process in /proc/locks that has a lock on the file; 0 if it cannot be known. */
static long lock_holder(int fd)
{
    struct stat info;
    char line[256];
    long found = 0;
    FILE *locks = fopen("/proc/locks", "re");
    if (locks == NULL || fstat(fd, &info) != 0) {
        if (locks != NULL) {
            (void)fclose(locks);
        }
        return 0;
    }
    while (found == 0 && fgets(line, sizeof line, locks) != NULL) {
        long pid = 0;
        unsigned major_number = 0;
        unsigned minor_number = 0;
        unsigned long long inode = 0;
        /* The kernel writes these numbers: they fit. NOLINTNEXTLINE(cert-err34-c) */
        if (sscanf(line, "%*s FLOCK %*s %*s %ld %x:%x:%llu", &pid, &major_number, &minor_number,
                   &inode) == 4 &&
            inode == info.st_ino && makedev(major_number, minor_number) == info.st_dev) {
            found = pid;
        }
    }
    (void)fclose(locks);
    return found;
}

static base_status busy(const char *path, int fd, base_error *reterr)
{
    const long pid = lock_holder(fd);
    if (pid > 0) {
        return base_fail(reterr, BASE_ERR_BUSY, "%s is being written by another run, process %ld",
                         path, pid);
    }
    return base_fail(reterr, BASE_ERR_BUSY, "%s is being written by another run", path);
}

base_status launch_out_directory_lock(const char *path, int *fd, base_error *reterr)
{
    for (int attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
        struct stat locked;
        struct stat standing;
        base_error error;
        base_status status = base_mkdirs(path, &error);
        if (status != BASE_OK) {
            return base_fail(reterr, status, "%s; name another one with --out DIR", error.message);
        }
        *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (*fd < 0) {
            return base_fail_errno(reterr, errno, "cannot open the directory %s", path);
        }
        status = base_lock_try(*fd, path, reterr);
        if (status == BASE_ERR_BUSY) {
            status = busy(path, *fd, reterr);
        } else if (status == BASE_OK && fstat(*fd, &locked) == 0 && stat(path, &standing) == 0 &&
                   locked.st_ino == standing.st_ino && locked.st_dev == standing.st_dev) {
            return BASE_OK;
        }
        (void)close(*fd); /* another run has just moved the directory away: look again */
        *fd = -1;
        if (status != BASE_OK) {
            return status;
        }
    }
    return base_fail(reterr, BASE_ERR_BUSY, "%s is being moved by other runs", path);
}

/* Looks through the directory. With remove_ours it removes our files. *kind is what is left. */
static base_status scan_directory(const launch_out_directory *directory, bool remove_ours,
                                  directory_kind *kind, base_error *reterr)
{
    DIR *entries = opendir(directory->path);
    const struct dirent *entry = NULL;
    base_status status = BASE_OK;
    if (entries == NULL) {
        return base_fail_errno(reterr, errno, "cannot read the directory %s", directory->path);
    }
    *kind = DIRECTORY_EMPTY;
    while (status == BASE_OK && (entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (remove_ours && launch_out_is_ours(entry->d_name) &&
            !launch_out_is_input(directory, entry->d_name)) {
            if (unlinkat(directory->fd, entry->d_name, 0) != 0) {
                status = base_fail_errno(reterr, errno, "cannot remove %s/%s", directory->path,
                                         entry->d_name);
            }
        } else if (strcmp(entry->d_name, "manifest.json") == 0 ||
                   strcmp(entry->d_name, "timings.jsonl") == 0 ||
                   strcmp(entry->d_name, PROTO_CHECKPOINTS_DIRECTORY) == 0) {
            *kind = DIRECTORY_RECORD;
        } else if (*kind == DIRECTORY_EMPTY) {
            *kind = DIRECTORY_OTHER;
        }
    }
    (void)closedir(entries);
    return status;
}

static bool is_at_or_below(const char *directory, const char *real)
{
    const size_t directory_bytes = strlen(directory);
    return strncmp(real, directory, directory_bytes) == 0 &&
           (real[directory_bytes] == '/' || real[directory_bytes] == '\0');
}

/* Checks that nothing in the directory prevents this run. */
static base_status check_directory(const launch_out_options *options,
                                   launch_out_directory *directory, base_error *reterr)
{
    char real_directory[PATH_MAX];
    char real[PATH_MAX];
    directory_kind kind = DIRECTORY_EMPTY;
    const base_status status = scan_directory(directory, false, &kind, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (kind == DIRECTORY_OTHER) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s is not empty and holds no record of a run: name another directory, or "
                         "empty it",
                         directory->path);
    }
    if (faccessat(directory->fd, ".", W_OK | X_OK, AT_EACCESS) != 0) {
        return base_fail_errno(reterr, errno, "cannot write into the directory %s",
                               directory->path);
    }
    if (realpath(directory->path, real_directory) == NULL) {
        return base_fail_errno(reterr, errno, "cannot find the directory %s", directory->path);
    }
    directory->holds_record = kind == DIRECTORY_RECORD;
    const bool moves = directory->holds_record && !options->overwrite && !options->goes_on;
    if (moves && options->log_dir != NULL &&
        (strcmp(options->log_dir, real_directory) == 0 ||
         launch_out_below(real_directory, options->log_dir, real) != NULL)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the logs would go into the record of an earlier run, %s: name another "
                         "--log-dir, or --overwrite it",
                         directory->path);
    }
    if (moves && getcwd(real, sizeof real) != NULL && is_at_or_below(real_directory, real)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "you are in %s, so the record of an earlier run in it cannot be moved "
                         "away: name another --out, or --overwrite it",
                         directory->path);
    }
    return launch_out_find_inputs(options, real_directory, directory, reterr);
}

/* Moves the locked directory to the next free number, and makes and locks a new one in its
 * place. */
static base_status move_away(launch_out_directory *directory, base_error *reterr)
{
    for (int number = 1; number <= LAUNCH_RECORDS_KEPT_MAX; number++) {
        (void)snprintf(directory->moved_to, sizeof directory->moved_to, "%s.%d", directory->path,
                       number);
        if (renameat2(AT_FDCWD, directory->path, AT_FDCWD, directory->moved_to, RENAME_NOREPLACE) ==
            0) {
            (void)close(directory->fd);
            const base_status status =
                launch_out_directory_lock(directory->path, &directory->fd, reterr);
            return status == BASE_OK ? launch_out_link_inputs(directory, reterr) : status;
        }
        if (errno != EEXIST) {
            const int reason = errno;
            const base_status status = base_fail_errno(
                reterr, reason,
                "%s holds the record of an earlier run, which cannot be moved to %s (--overwrite "
                "replaces it)",
                directory->path, directory->moved_to);
            directory->moved_to[0] = '\0';
            return status;
        }
    }
    directory->moved_to[0] = '\0';
    return base_fail(reterr, BASE_ERR_LIMIT, "%s.1 to %s.%d all exist: remove some",
                     directory->path, directory->path, LAUNCH_RECORDS_KEPT_MAX);
}

base_status launch_out_directory_clear(launch_out_directory *directory, base_error *reterr)
{
    directory_kind kind = DIRECTORY_EMPTY;
    if (!directory->holds_record) {
        return BASE_OK;
    }
    if (!directory->overwrite) {
        return move_away(directory, reterr);
    }
    base_status status = proto_checkpoints_prune(directory->path, 0, reterr);
    if (status == BASE_OK) {
        status = launch_out_remove_adapters(directory, reterr);
    }
    return status == BASE_OK ? scan_directory(directory, true, &kind, reterr) : status;
}

void launch_out_directory_discard(launch_out_directory *directory)
{
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", directory->path);
    launch_out_remove_directories(path, directory->stood_bytes);
}

/* The length of the part of the path that exists. */
static size_t standing_bytes(const char *path)
{
    char part[BASE_PATH_BYTES];
    struct stat info;
    (void)snprintf(part, sizeof part, "%s", path);
    while (part[0] != '\0' && lstat(part, &info) != 0) {
        char *slash = strrchr(part, '/');
        if (slash == NULL) {
            return 0;
        }
        *slash = '\0';
    }
    return strlen(part);
}

base_status launch_out_directory_open(const launch_out_options *options,
                                      launch_out_directory *directory, base_error *reterr)
{
    memset(directory, 0, sizeof *directory);
    directory->fd = -1;
    directory->overwrite = options->overwrite;
    size_t length = strlen(options->path);
    while (length > 1 && options->path[length - 1] == '/') {
        length--;
    }
    if (length == 0 || length + 16 > sizeof directory->path) {
        return base_fail(reterr, BASE_ERR_INVALID, "the output directory's name is %s",
                         length == 0 ? "empty" : "too long");
    }
    memcpy(directory->path, options->path, length);
    directory->stood_bytes = standing_bytes(directory->path);
    base_status status = launch_out_directory_lock(directory->path, &directory->fd, reterr);
    if (status == BASE_OK) {
        status = check_directory(options, directory, reterr);
        if (status != BASE_OK) {
            launch_out_directory_discard(directory);
        }
    }
    if (status != BASE_OK) {
        launch_out_directory_close(directory);
    }
    return status;
}

/* What the files in the directory take of its disk: all of them, or those that a run writes. */
static uint64_t taken_bytes(const char *path, dev_t disk, bool all)
{
    uint64_t bytes = 0;
    const struct dirent *entry = NULL;
    DIR *entries = opendir(path);
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        struct stat info;
        if ((all || launch_out_is_ours(entry->d_name)) &&
            fstatat(dirfd(entries), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode) && info.st_dev == disk) {
            bytes += (uint64_t)info.st_blocks * 512;
        }
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return bytes;
}

/* The same of all checkpoints, and of one that was being written. */
static uint64_t checkpoints_bytes(const char *checkpoints, dev_t disk)
{
    uint64_t bytes = 0;
    const struct dirent *entry = NULL;
    DIR *entries = opendir(checkpoints);
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        char path[2 * BASE_PATH_BYTES];
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof path, "%s/%s", checkpoints, entry->d_name);
            bytes += taken_bytes(path, disk, true);
        }
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return bytes;
}

base_status launch_out_directory_check_room(const launch_out_directory *directory,
                                            const launch_out_need *need, base_error *reterr)
{
    char checkpoints[BASE_PATH_BYTES + 32];
    struct statvfs disk;
    struct stat here;
    struct stat there;
    if (fstatvfs(directory->fd, &disk) != 0 || disk.f_blocks == 0 ||
        fstat(directory->fd, &here) != 0) {
        return BASE_OK;
    }
    (void)snprintf(checkpoints, sizeof checkpoints, "%s/" PROTO_CHECKPOINTS_DIRECTORY,
                   directory->path);
    /* a link may lead to another disk, of which nothing is known here */
    const bool elsewhere = stat(checkpoints, &there) == 0 && there.st_dev != here.st_dev;
    const uint64_t one_bytes = elsewhere ? 0 : need->checkpoint_bytes;
    const uint64_t written = need->checkpoints_written;
    const uint64_t kept = need->checkpoints_kept;
    /* one more than are kept is there while it is written; results come when the last one is */
    const uint64_t saving_bytes = (written <= kept ? written : kept + 1) * one_bytes;
    const uint64_t ending_bytes =
        (written < kept ? written : kept) * one_bytes + need->results_bytes;
    const uint64_t bytes = saving_bytes > ending_bytes ? saving_bytes : ending_bytes;
    const bool replaces = directory->overwrite && directory->holds_record;
    uint64_t room_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (need->goes_on || replaces) {
        room_bytes += checkpoints_bytes(checkpoints, here.st_dev);
    }
    if (replaces && !need->goes_on) {
        room_bytes += taken_bytes(directory->path, here.st_dev, false);
    }
    return room_bytes >= bytes
               ? BASE_OK
               : base_fail(
                     reterr, BASE_ERR_LIMIT,
                     "--out: the disk of %s has room for %.1f MB, and the job writes %.1f MB at "
                     "its end: make room, or name another directory",
                     directory->path, (double)room_bytes / 1e6, (double)bytes / 1e6);
}

base_status launch_out_directory_drop_states(const launch_out_directory *directory, int world_size,
                                             base_error *reterr)
{
    const struct dirent *entry = NULL;
    base_status status = BASE_OK;
    DIR *entries = opendir(directory->path);
    if (entries == NULL) {
        return base_fail_errno(reterr, errno, "cannot read the directory %s", directory->path);
    }
    while (status == BASE_OK && (entry = readdir(entries)) != NULL) {
        uint64_t rank = 0;
        if (launch_out_is_state(entry->d_name, &rank) && rank >= (uint64_t)world_size &&
            unlinkat(directory->fd, entry->d_name, 0) != 0) {
            status = base_fail_errno(reterr, errno, "cannot remove %s/%s", directory->path,
                                     entry->d_name);
        }
    }
    (void)closedir(entries);
    return status;
}

void launch_out_directory_close(launch_out_directory *directory)
{
    base_fd_close(&directory->fd);
    directory->fd = -1;
}
