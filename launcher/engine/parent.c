/* Ends a launcher whose engine was killed. Called by cli.c.
 *
 * A signal at the parent's death (prctl) would come when the parent's thread ends that has started
 * us, and Open MPI ends such threads while its job goes on. */
#include "engine/parent.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

enum { ONE_SIGTERM_MS = 100 };

static void *wait_for_parent(void *argument)
{
    struct pollfd parent = {.fd = (int)(intptr_t)argument, .events = POLLIN};
    int ready = 0;
    do {
        ready = poll(&parent, 1, -1);
    } while (ready < 0 && errno == EINTR);
    (void)close(parent.fd);
    if (ready > 0) {
        (void)kill(getpid(), SIGTERM);
    }
    return NULL;
}

void launch_parent_watch(void)
{
    pthread_t thread;
    const pid_t pid = getppid();
    const int fd = pid > 1 ? pidfd_open(pid, 0) : -1; /* closed by exec; 1: a container's first */
    if (fd < 0) {
        return;
    }
    if (base_thread_start(&thread, wait_for_parent, (void *)(intptr_t)fd, "the parent's end",
                          NULL) == BASE_OK) {
        (void)pthread_detach(thread);
    } else {
        (void)close(fd);
    }
}

bool launch_parent_sent_twice(const struct signalfd_siginfo *signal, int first, int64_t first_ns,
                              int64_t now_ns)
{
    return signal->ssi_signo == SIGTERM && first == SIGTERM &&
           now_ns - first_ns < ONE_SIGTERM_MS * BASE_NS_PER_MS;
}

bool launch_parent_has_sent(const struct signalfd_siginfo *signal)
{
    return signal->ssi_pid == (uint32_t)getpid();
}
