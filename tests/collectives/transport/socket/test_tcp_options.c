/* Which congestion control sockets end with, where the system's choice is bbr. The kernel's part is
 * played here: who may have what, and how long the path is. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "support.h"
#include "transport/socket/options.h"

enum { SOCKETS = 64, NAME_BYTES = 17 };

static bool restricted; /* nobody may choose bbr */
static uint32_t rtt_us;
static char names[SOCKETS][NAME_BYTES]; /* by descriptor */

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t value_bytes);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t value_bytes);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *value_bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *value_bytes);

int __wrap_socket(int family, int type, int protocol)
{
    const int fd = __real_socket(family, type, protocol);
    assert_in_range(fd, 0, SOCKETS - 1);
    (void)snprintf(names[fd], NAME_BYTES, "bbr");
    return fd;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t value_bytes)
{
    if (level != IPPROTO_TCP || name != TCP_CONGESTION) {
        return __real_setsockopt(fd, level, name, value, value_bytes);
    }
    if (restricted && memcmp(value, "bbr", 3) == 0) {
        errno = EPERM;
        return -1;
    }
    (void)snprintf(names[fd], NAME_BYTES, "%.*s", (int)value_bytes, (const char *)value);
    return 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *value_bytes)
{
    if (level == IPPROTO_TCP && name == TCP_CONGESTION) {
        memcpy(value, names[fd], *value_bytes);
        return 0;
    }
    const int result = __real_getsockopt(fd, level, name, value, value_bytes);
    if (level == IPPROTO_TCP && name == TCP_INFO && result == 0) {
        ((struct tcp_info *)value)->tcpi_rtt = rtt_us;
    }
    return result;
}

static void check(bool no_way_back, bool is_short, const char *before, const char *after)
{
    restricted = no_way_back;
    rtt_us = is_short ? COLL_TCP_SHORT_PATH_US : COLL_TCP_SHORT_PATH_US + 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    coll_tcp_options_fresh(fd, BASE_NS_PER_S);
    assert_string_equal(names[fd], before);
    assert_int_equal(coll_tcp_options_met(fd), is_short);
    assert_string_equal(names[fd], after);
    (void)close(fd);
}

static void short_paths_are_not_paced(void **state)
{
    (void)state;
    check(false, true, "reno", "reno");
    check(true, true, "bbr", "reno");
}

static void long_paths_keep_the_systems_choice(void **state)
{
    (void)state;
    check(false, false, "reno", "bbr");
    check(true, false, "bbr", "bbr");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_paths_are_not_paced),
        cmocka_unit_test(long_paths_keep_the_systems_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
