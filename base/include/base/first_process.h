/* What a program owes as process 1 of a container. */
#ifndef BASE_FIRST_PROCESS_H
#define BASE_FIRST_PROCESS_H

/* Lets SIGTERM, SIGINT and SIGHUP end this process, with exit code 128 + signal, if it is process 1.
 * For that one the kernel drops signals without a handler, so that `docker stop` would wait for its
 * timeout. Signals that are ignored stay so. Call it first in main. */
void base_first_process_take_signals(void);

#endif
