/* A relay between two ends of a TCP connection, in a thread of its own. A tap gets the bytes of
 * each side. What the tap emits goes to the other side, after a delay if there is one. The relay
 * ends when either side does, or when it is stopped. */
#ifndef TEST_RELAY_H
#define TEST_RELAY_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct test_relay test_relay;

/* `side` sent the bytes: 0 is the side that connected to the relay, 1 the one that it connected
 * to. */
typedef void (*test_relay_tap)(test_relay *relay, void *user, int side, const uint8_t *bytes,
                               size_t size_bytes);

/* Starts a relay to an address. `at` is set to the address to connect to instead. tap NULL: all
 * bytes pass unchanged. Fails the test if there is no socket or no thread. */
test_relay *test_relay_start(const struct sockaddr_in *to, struct sockaddr_in *at, int64_t delay_ns,
                             test_relay_tap tap, void *user);

/* For taps: sends bytes on to the side other than `side`. */
void test_relay_emit(test_relay *relay, int side, const void *bytes, size_t size_bytes);

/* For taps: lets nothing more pass. The connections stay, as with a cut cable. */
void test_relay_cut(test_relay *relay);

/* Ends the relay and closes its sockets. */
void test_relay_stop(test_relay *relay);

#endif
