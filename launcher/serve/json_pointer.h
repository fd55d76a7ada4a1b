/* A part of a JSON value by a pointer in a URI fragment (RFC 6901), as a $ref has it. Pure. */
#ifndef LAUNCH_JSON_POINTER_H
#define LAUNCH_JSON_POINTER_H

struct json_t;

/* The part at the end of "#/$defs/name" or "#/anyOf/0", borrowed; NULL: there is none. */
const struct json_t *launch_json_pointer_find(const struct json_t *root, const char *path);

#endif
