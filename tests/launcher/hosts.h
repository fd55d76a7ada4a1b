/* Hosts for tests of several launchers: network namespaces of this machine, each with a hostname of
 * its own ("host-0", …). Each two are joined by a pair of veth devices. Nothing of it has a name
 * outside, so all goes when the test's process ends. */
#ifndef TEST_HOSTS_H
#define TEST_HOSTS_H

#include <stdbool.h>

#include "program.h"

enum { TEST_HOSTS_MAX = 3 };

/* Makes the hosts. Host i has 10.77.0.(i+1), and fd77::(i+1) towards its neighbours 0 and 1. False
 * where that takes more than this user may do, or programs that are not there. */
bool test_hosts_make(int count);

/* Starts a program on a host, like test_program_start. `hosts_file` is its /etc/hosts; NULL: the
 * machine's. */
void test_hosts_start(test_program *program, int host, const char *hosts_file,
                      const char *const *arguments);

/* Takes the link between two hosts down or up. */
void test_hosts_link(int a, int b, bool up);

/* For main: 77 where there can be no hosts, with a line that says why; else 0. */
int test_hosts_skip(int count);

#endif
