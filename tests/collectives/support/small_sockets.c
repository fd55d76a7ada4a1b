/* Keeps socket buffers at their smallest (--wrap=setsockopt). Used by tests of partial sends. */
#include "small_sockets.h"

#include <sys/socket.h>

enum { SMALL_BYTES = 16 * 1024 };

bool test_small_sockets;

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length);

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    const int bytes = SMALL_BYTES;
    const bool buffer = level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF);
    return buffer && test_small_sockets ? __real_setsockopt(fd, level, name, &bytes, sizeof bytes)
                                        : __real_setsockopt(fd, level, name, value, length);
}
