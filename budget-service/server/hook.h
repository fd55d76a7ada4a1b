/* The policy's hook: a command that is notified of alarms. A process of its own runs it, which was
 * forked before any secret was read. The command gets one JSON object on standard input, one alarm
 * after the other. It leads a process group of its own, has the signals that a program expects, and
 * may take SERVICE_HOOK_S; then it is ended with all that it has started, in whatever group or session
 * that is. So is what it leaves behind when it ends by itself. The service never waits for it. Alarms that
 * come meanwhile wait in a socket's buffer; if that is full, one is dropped. The log names what was
 * dropped and what has failed, and so does `status`, until a later alarm has reached the command. */
#ifndef BUDGET_SERVER_HOOK_H
#define BUDGET_SERVER_HOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

typedef struct service_hook {
    int fd; /* -1: there is none */
    pid_t pid;
    uint64_t sent; /* alarms, */
    uint64_t
        dropped; /* `sent` when one was dropped: only a later one that is heard ends that failure */
    char failure[BASE_ERROR_MESSAGE_BYTES]; /* of the last alarm; empty: it was heard */
} service_hook;

/* command: program and arguments, NULL behind the last; NULL: no hook, nothing is forked. The
 * child's only descriptors are 0 to 2 and the socket. BASE_ERR_INVALID: the program is none that can
 * be run. */
BASE_MUST_CHECK base_status service_hook_start(service_hook *hook, const char *const *command,
                                               base_error *reterr);

/* Hands an alarm over, and releases it; NULL: there was no memory for it. */
struct json_t;
void service_hook_tell(service_hook *hook, struct json_t *alarm);

/* The policy has a hook, even if its process is gone. */
bool service_hook_is_set(const service_hook *hook);

/* The command has ended for an alarm. number: `sent`, once it was handed over. heard: it ended with 0. */
typedef void service_hook_answer(void *user, uint64_t number, bool heard);

/* Takes what the hook's process has reported: calls answer for each, and fills failure. Does not
 * block. */
void service_hook_look(service_hook *hook, service_hook_answer *answer, void *user);

/* Lets it end what it is doing, for a moment, and waits. Nothing that it has started is left then. */
void service_hook_stop(service_hook *hook);

#endif
