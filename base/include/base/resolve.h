/* The addresses of a host, from the system's resolver, which may take its time. One thread. */
#ifndef BASE_RESOLVE_H
#define BASE_RESOLVE_H

#include <stdbool.h>

#include "base/status.h"

enum { BASE_ADDRESSES_MAX = 8, BASE_NUMERIC_BYTES = 64 };

typedef struct base_addresses {
    char numeric[BASE_ADDRESSES_MAX][BASE_NUMERIC_BYTES];
    int count;
} base_addresses;

bool base_addresses_have(const base_addresses *addresses, const char *numeric);

/* Asks the system's resolver for a host's addresses, on a thread. The question is the caller's, and the
 * thread's until it has the answer: the caller may drop it at any time. */
typedef struct base_question base_question;
BASE_MUST_CHECK base_status base_question_ask(const char *host, base_question **question,
                                              base_error *reterr);

/* Can be read once the answer is there. */
int base_question_fd(const base_question *question);

/* The answer: the host's numeric addresses, IPv4 and IPv6. BASE_ERR_NOTFOUND: there are none. */
BASE_MUST_CHECK base_status base_question_answer(const base_question *question,
                                                 base_addresses *addresses, base_error *reterr);

/* NULL is fine. */
void base_question_drop(base_question *question);

#endif
