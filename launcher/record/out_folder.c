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
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"

enum { LOCK_ATTEMPTS = 8 };

typedef enum folder_kind { FOLDER_EMPTY, FOLDER_RECORD, FOLDER_OTHER } folder_kind;

/* The first process in /proc/locks that holds a lock on the file; 0 when it cannot be known. */
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

/* Opens and locks the folder that stands at path; *fd is its descriptor. */
static base_status lock_folder(const char *path, int *fd, base_error *reterr)
{
    for (int attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
        struct stat locked;
        struct stat standing;
        base_status status = base_mkdirs(path, reterr);
        if (status != BASE_OK) {
            return status;
        }
        *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (*fd < 0) {
            return base_fail_errno(reterr, errno, "cannot open the folder %s", path);
        }
        status = base_lock_try(*fd, path, reterr);
        if (status == BASE_ERR_BUSY) {
            status = busy(path, *fd, reterr);
        } else if (status == BASE_OK && fstat(*fd, &locked) == 0 && stat(path, &standing) == 0 &&
                   locked.st_ino == standing.st_ino && locked.st_dev == standing.st_dev) {
            return BASE_OK;
        }
        (void)close(*fd); /* another run has just moved the folder away: look again */
        *fd = -1;
        if (status != BASE_OK) {
            return status;
        }
    }
    return base_fail(reterr, BASE_ERR_BUSY, "%s is being moved by other runs", path);
}

/* Looks through the folder; with remove_ours, our files go and *kind is what was left. */
static base_status scan_folder(const launch_out_folder *folder, bool remove_ours, folder_kind *kind,
                               base_error *reterr)
{
    DIR *entries = opendir(folder->path);
    const struct dirent *entry = NULL;
    base_status status = BASE_OK;
    if (entries == NULL) {
        return base_fail_errno(reterr, errno, "cannot read the folder %s", folder->path);
    }
    *kind = FOLDER_EMPTY;
    while (status == BASE_OK && (entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (remove_ours && launch_out_is_ours(entry->d_name) &&
            !launch_out_is_input(folder, entry->d_name)) {
            if (unlinkat(folder->fd, entry->d_name, 0) != 0) {
                status = base_fail_errno(reterr, errno, "cannot remove %s/%s", folder->path,
                                         entry->d_name);
            }
        } else if (strcmp(entry->d_name, "manifest.json") == 0 ||
                   strcmp(entry->d_name, "timings.jsonl") == 0) {
            *kind = FOLDER_RECORD;
        } else if (*kind == FOLDER_EMPTY) {
            *kind = FOLDER_OTHER;
        }
    }
    (void)closedir(entries);
    return status;
}

static bool is_at_or_below(const char *folder, const char *real)
{
    const size_t folder_bytes = strlen(folder);
    return strncmp(real, folder, folder_bytes) == 0 &&
           (real[folder_bytes] == '/' || real[folder_bytes] == '\0');
}

/* Nothing that is there already stands in the way of this run. */
static base_status check_folder(const launch_out_options *options, launch_out_folder *folder,
                                base_error *reterr)
{
    char real_folder[PATH_MAX];
    char real[PATH_MAX];
    folder_kind kind = FOLDER_EMPTY;
    const base_status status = scan_folder(folder, false, &kind, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (kind == FOLDER_OTHER) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s is not empty and holds no record of a run: name another folder, or "
                         "empty it",
                         folder->path);
    }
    if (faccessat(folder->fd, ".", W_OK | X_OK, AT_EACCESS) != 0) {
        return base_fail_errno(reterr, errno, "cannot write into the folder %s", folder->path);
    }
    if (realpath(folder->path, real_folder) == NULL) {
        return base_fail_errno(reterr, errno, "cannot find the folder %s", folder->path);
    }
    folder->holds_record = kind == FOLDER_RECORD;
    if (folder->holds_record && !options->overwrite && options->log_dir != NULL &&
        (strcmp(options->log_dir, real_folder) == 0 ||
         launch_out_below(real_folder, options->log_dir, real) != NULL)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the logs would go into the record of an earlier run, %s: name another "
                         "--log-dir, or --overwrite it",
                         folder->path);
    }
    if (folder->holds_record && !options->overwrite && getcwd(real, sizeof real) != NULL &&
        is_at_or_below(real_folder, real)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "you are in %s, so the record of an earlier run in it cannot be moved "
                         "away: name another --out, or --overwrite it",
                         folder->path);
    }
    return launch_out_find_inputs(options, real_folder, folder, reterr);
}

/* Moves the locked folder to the next free number and takes a fresh one in its place. */
static base_status move_away(launch_out_folder *folder, base_error *reterr)
{
    for (int number = 1; number <= LAUNCH_RECORDS_KEPT_MAX; number++) {
        (void)snprintf(folder->moved_to, sizeof folder->moved_to, "%s.%d", folder->path, number);
        if (renameat2(AT_FDCWD, folder->path, AT_FDCWD, folder->moved_to, RENAME_NOREPLACE) == 0) {
            (void)close(folder->fd);
            const base_status status = lock_folder(folder->path, &folder->fd, reterr);
            return status == BASE_OK ? launch_out_link_inputs(folder, reterr) : status;
        }
        if (errno != EEXIST) {
            const int reason = errno;
            const base_status status = base_fail_errno(
                reterr, reason,
                "%s holds the record of an earlier run, which cannot be moved to %s (--overwrite "
                "replaces it)",
                folder->path, folder->moved_to);
            folder->moved_to[0] = '\0';
            return status;
        }
    }
    folder->moved_to[0] = '\0';
    return base_fail(reterr, BASE_ERR_LIMIT, "%s.1 to %s.%d all exist: remove some", folder->path,
                     folder->path, LAUNCH_RECORDS_KEPT_MAX);
}

base_status launch_out_folder_make_way(launch_out_folder *folder, base_error *reterr)
{
    folder_kind kind = FOLDER_EMPTY;
    if (!folder->holds_record) {
        return BASE_OK;
    }
    return folder->overwrite ? scan_folder(folder, true, &kind, reterr) : move_away(folder, reterr);
}

void launch_out_folder_discard(launch_out_folder *folder)
{
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", folder->path);
    launch_out_remove_folders(path, folder->stood_bytes);
}

/* How much of the path is there. */
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

base_status launch_out_folder_open(const launch_out_options *options, launch_out_folder *folder,
                                   base_error *reterr)
{
    memset(folder, 0, sizeof *folder);
    folder->fd = -1;
    folder->overwrite = options->overwrite;
    size_t length = strlen(options->path);
    while (length > 1 && options->path[length - 1] == '/') {
        length--;
    }
    if (length == 0 || length + 16 > sizeof folder->path) {
        return base_fail(reterr, BASE_ERR_INVALID, "the output folder's name is %s",
                         length == 0 ? "empty" : "too long");
    }
    memcpy(folder->path, options->path, length);
    folder->stood_bytes = standing_bytes(folder->path);
    base_status status = lock_folder(folder->path, &folder->fd, reterr);
    if (status == BASE_OK) {
        status = check_folder(options, folder, reterr);
        if (status != BASE_OK) {
            launch_out_folder_discard(folder);
        }
    }
    if (status != BASE_OK) {
        launch_out_folder_close(folder);
    }
    return status;
}

void launch_out_folder_close(launch_out_folder *folder)
{
    if (folder->fd >= 0) {
        (void)close(folder->fd);
    }
    folder->fd = -1;
}

void launch_out_folder_path(const launch_out_folder *folder, const char *name,
                            char path[BASE_PATH_BYTES + 64])
{
    (void)snprintf(path, BASE_PATH_BYTES + 64, "%s/%s", folder->path, name);
}
