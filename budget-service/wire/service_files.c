/* Reads and writes a client's key file and the service's address file. Called by client/, by the
 * server at its start, by `init` and by `client add`. */
#include "budget/service_files.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "budget/secret_file.h"
#include "proto/digest.h"

enum { FILE_BYTES_MAX = 16 * 1024 };

static json_t *hex_json(const uint8_t key[PROTO_KEY_BYTES])
{
    char hex[PROTO_DIGEST_HEX_BYTES];
    proto_digest_hex(key, hex);
    json_t *made = json_string(hex);
    proto_wipe(hex, sizeof hex);
    return made;
}

static bool get_hex(const json_t *object, const char *name, uint8_t key[PROTO_KEY_BYTES])
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL && proto_digest_parse(text, key);
}

static bool get_text(const json_t *object, const char *name, char *into, size_t into_bytes)
{
    const char *text = json_string_value(json_object_get(object, name));
    if (text == NULL || strlen(text) >= into_bytes) {
        return false;
    }
    memcpy(into, text, strlen(text) + 1);
    return true;
}

/* The object's text with a newline, or NULL; frees the object. */
static char *dump(json_t *object)
{
    char *text = object != NULL ? json_dumps(object, JSON_SORT_KEYS | JSON_INDENT(2)) : NULL;
    const size_t length = text != NULL ? strlen(text) : 0;
    char *line = text != NULL ? malloc(length + 2) : NULL;
    if (line != NULL) {
        memcpy(line, text, length);
        line[length] = '\n';
        line[length + 1] = '\0';
    }
    if (text != NULL) {
        proto_wipe(text, length);
        free(text);
    }
    json_decref(object);
    return line;
}

base_status budget_client_key_write(const char *path, const budget_client_key *key,
                                    base_error *reterr)
{
    char *text = dump(json_pack("{s:s, s:s, s:o, s:o, s:o}", "format", "ringfence-client-key-1",
                                "name", key->name, "public_key", hex_json(key->keys.public_key),
                                "secret_key", hex_json(key->keys.secret_key), "service_public_key",
                                hex_json(key->service_public_key)));
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a key file");
    }
    const base_status status = budget_secret_file_create(path, text, strlen(text), reterr);
    proto_wipe(text, strlen(text));
    free(text);
    return status;
}

base_status budget_client_key_read(const char *path, budget_client_key *key, base_error *reterr)
{
    char data[FILE_BYTES_MAX];
    size_t size_bytes = 0;
    base_status status = budget_secret_file_read(path, data, sizeof data, &size_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    budget_client_key got = {0};
    char format[32] = "";
    json_t *object = json_loadb(data, size_bytes, JSON_REJECT_DUPLICATES, NULL);
    if (json_object_size(object) != 5 || !get_text(object, "format", format, sizeof format) ||
        strcmp(format, "ringfence-client-key-1") != 0 ||
        !get_text(object, "name", got.name, sizeof got.name) ||
        !get_hex(object, "public_key", got.keys.public_key) ||
        !get_hex(object, "secret_key", got.keys.secret_key) ||
        !get_hex(object, "service_public_key", got.service_public_key)) {
        status = base_fail(reterr, BASE_ERR_AUTH, "%s: not a client's key file", path);
    } else {
        *key = got;
    }
    json_decref(object);
    proto_wipe(&got, sizeof got);
    proto_wipe(data, sizeof data);
    return status;
}

base_status budget_service_address_write(const char *dir, const budget_service_address *address,
                                         base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_status status = base_path_join(dir, BUDGET_FILE_ADDRESS, path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    char *text =
        dump(json_pack("{s:s, s:s, s:o}", "endpoint", address->endpoint, "redeem_endpoint",
                       address->redeem_endpoint, "public_key", hex_json(address->public_key)));
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %s", path);
    }
    status = base_file_write(path, text, strlen(text), reterr);
    free(text);
    return status;
}

base_status budget_service_address_read(const char *dir, budget_service_address *address,
                                        base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    void *data = NULL;
    size_t size_bytes = 0;
    base_status status = base_path_join(dir, BUDGET_FILE_ADDRESS, path, reterr);
    if (status == BASE_OK) {
        status = base_file_read(path, FILE_BYTES_MAX, &data, &size_bytes, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    json_t *object = json_loadb(data, size_bytes, JSON_REJECT_DUPLICATES, NULL);
    if (!get_text(object, "endpoint", address->endpoint, sizeof address->endpoint) ||
        !get_text(object, "redeem_endpoint", address->redeem_endpoint,
                  sizeof address->redeem_endpoint) ||
        !get_hex(object, "public_key", address->public_key)) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s: does not say where the service is", path);
    }
    json_decref(object);
    free(data);
    return status;
}
