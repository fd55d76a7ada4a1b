/* Reads files of this process's control group, version 1 or 2. Called by affinity.c for the CPU
 * quota, and by watch.c and job_run.c to recognize an out-of-memory kill. */
#include "job/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"

static bool read_text(const char *path, char *text, size_t size_bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const ssize_t got = read(fd, text, size_bytes - 1);
    (void)close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* Whether `wanted` is one of the comma-separated names. */
static bool has_name(const char *names, const char *wanted)
{
    const size_t length = strlen(wanted);
    for (const char *at = names; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strncmp(at, wanted, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Reads the file of the group that one line of /proc/self/cgroup names: "ID:CONTROLLERS:PATH". */
static bool read_from(char *line, const char *controller, const char *name, char *text,
                      size_t size_bytes)
{
    char path[BASE_PATH_BYTES];
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) {
        return false;
    }
    *group++ = '\0';
    controllers++;
    if (controllers[0] == '\0') { /* version 2 */
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, name);
        return read_text(path, text, size_bytes);
    }
    if (!has_name(controllers, controller)) {
        return false;
    }
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s/%s", controller, group, name);
    if (read_text(path, text, size_bytes)) {
        return true;
    }
    /* inside a container the line has the host's path, but the files are at the root */
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup/%s/%s", controller, name);
    return read_text(path, text, size_bytes);
}

bool launch_cgroup_read(const char *controller, const char *name, char *text, size_t size_bytes)
{
    char line[BASE_PATH_BYTES];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) {
        return false;
    }
    while (!found && fgets(line, sizeof line, file) != NULL) {
        found = read_from(line, controller, name, text, size_bytes);
    }
    (void)fclose(file);
    return found;
}

int64_t launch_cgroup_oom_kills(void)
{
    char text[512];
    if (!launch_cgroup_read("memory", "memory.events", text, sizeof text) &&
        !launch_cgroup_read("memory", "memory.oom_control", text, sizeof text)) {
        return -1;
    }
    for (char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n' ? 1 : 0;
        if (strncmp(line, "oom_kill ", 9) == 0) {
            return strtoll(line + 9, NULL, 10);
        }
    }
    return -1;
}
