/* Stops the process at a named point, for tests of crashes (compiled in with BUDGET_FAILPOINTS
 * only). Called by the ledger and by the server's batch. */
#include "failpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef BUDGET_FAILPOINTS

enum { NAMES_MAX = 32 };

static void note_first(const char *name)
{
    static const char *seen[NAMES_MAX];
    static int count;
    const char *path = getenv("BUDGET_FAILPOINT_LOG");
    if (path == NULL) {
        return;
    }
    for (int i = 0; i < count; i++) {
        if (strcmp(seen[i], name) == 0) {
            return;
        }
    }
    if (count < NAMES_MAX) {
        seen[count++] = name;
    }
    const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        char line[64] = "";
        const size_t length = strlen(name) < sizeof line - 1 ? strlen(name) : sizeof line - 1;
        memcpy(line, name, length);
        line[length] = '\n';
        (void)!write(fd, line, length + 1);
        (void)close(fd);
    }
}

void budget_failpoint(const char *name)
{
    static long reached;
    const char *wanted = getenv("BUDGET_FAILPOINT");
    note_first(name);
    const size_t length = strlen(name);
    if (wanted == NULL || strncmp(wanted, name, length) != 0 || wanted[length] != ':') {
        return;
    }
    reached++;
    if (reached == strtol(wanted + length + 1, NULL, 10)) {
        (void)raise(SIGKILL);
    }
}

#endif
