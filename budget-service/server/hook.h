/* The policy's hook: a command that is notified of alarms. A process of its own runs it, which was
 * forked before any secret was read. The command gets one JSON object on standard input. The service
 * never waits for it. If too many alarms queue up, one is dropped, and the log says so. The log also
 * says if the command fails. */
#ifndef BUDGET_SERVER_HOOK_H
#define BUDGET_SERVER_HOOK_H

#include <sys/types.h>

#include "base/status.h"

typedef struct service_hook {
    int fd; /* -1: there is none */
    pid_t pid;
} service_hook;

/* command: program and arguments, NULL behind the last; NULL: no hook, nothing is forked. The
 * child's only descriptors are 0 to 2 and the socket. */
BASE_MUST_CHECK base_status service_hook_start(service_hook *hook, const char *const *command,
                                               base_error *reterr);

/* Hands an alarm over, and releases it; NULL: there was no memory for it. If it is dropped, the log
 * says so. */
struct json_t;
void service_hook_tell(const service_hook *hook, struct json_t *alarm);

/* Lets it end what it is doing, and waits. */
void service_hook_stop(service_hook *hook);

#endif
