/* The TCP ports that a program may listen at, where a firewall lets only some pass. Thread safe. */
#ifndef BASE_PORTS_H
#define BASE_PORTS_H

#include <stdbool.h>

enum { BASE_PORTS_BYTES = 16 }; /* "29500-29599" */

/* From low to high. low 0: the system chooses any. */
typedef struct base_ports {
    int low;
    int high;
} base_ports;

/* Reads "29500-29599", or "" for any. If false, *ports stays as it is. */
bool base_ports_parse(const char *text, base_ports *ports);

#endif
