/* A program of users, which meets its peers as PyTorch's init_process_group does: rank 0 listens at MASTER_PORT, on
 * all addresses, and the others connect to it at MASTER_ADDR. Started by test_programs.c and test_hosts.c, behind
 * launcher --. Prints "met N" on each rank, or ends with 1. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TRIES_MAX = 200, TRY_MS = 50 };

static int number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? (int)strtol(text, NULL, 10) : -1;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

/* Hears one byte of each other rank. */
static int host_them(struct sockaddr_in address, int peers)
{
    const int on = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 8) != 0) {
        return fail("listening at MASTER_PORT");
    }
    for (int i = 0; i < peers; i++) {
        char byte = 0;
        const int peer = accept(fd, NULL, NULL);
        if (peer < 0 || recv(peer, &byte, 1, 0) != 1 || byte != '!') {
            return fail("hearing a rank");
        }
        (void)close(peer);
    }
    return 0;
}

static int visit(const struct sockaddr_in *address)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) == 0) {
            return send(fd, "!", 1, MSG_NOSIGNAL) == 1 ? 0 : fail("sending");
        }
        (void)close(fd);
        (void)poll(NULL, 0, TRY_MS); /* rank 0 has yet to listen */
    }
    return fail("connecting to MASTER_ADDR at MASTER_PORT");
}

int main(void)
{
    const char *master = getenv("MASTER_ADDR");
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)number("MASTER_PORT"))};
    if (master == NULL || inet_pton(AF_INET, master, &address.sin_addr) != 1) {
        return fail("MASTER_ADDR");
    }
    const int failed =
        number("RANK") == 0 ? host_them(address, number("WORLD_SIZE") - 1) : visit(&address);
    if (failed == 0) {
        printf("met %d\n", number("RANK"));
    }
    return failed;
}
