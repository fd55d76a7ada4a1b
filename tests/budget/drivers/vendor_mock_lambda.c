/* Lambda's Cloud API, as its OpenAPI document has it: types, ssh keys and instances. Called by vendor_mock.c. */
#include <stdio.h>
#include <string.h>

#include "vendor_mock.h"

static const struct {
    const char *name;
    const char *region; /* NULL: none is free */
    int gpus, cents, disk_gib;
} types[] = {
    {"gpu_1x_a10", "us-west-1", 1, 75, 1400},
    {"gpu_1x_a6000", NULL, 1, 50, 200},
    {"gpu_1x_h100_pcie", "us-east-3", 1, 249, 1024},
    {"gpu_2x_a6000", "us-south-1", 2, 160, 1024},
};
enum { TYPES = sizeof types / sizeof types[0] };

mock_answer mock_lambda_error(unsigned status, const char *message)
{
    const char *code = status == 404   ? "global/object-does-not-exist"
                       : status == 401 ? "global/invalid-api-key"
                                       : "global/unknown";
    return (mock_answer){status, json_pack("{s:{s:s, s:s, s:s}}", "error", "code", code, "message",
                                           message, "suggestion", "Try again shortly")};
}

static mock_answer data(json_t *value)
{
    return (mock_answer){200, json_pack("{s:o}", "data", value)};
}

static mock_answer catalog(void)
{
    json_t *list = json_object();
    for (int i = 0; i < TYPES; i++) {
        json_t *regions = json_array();
        if (types[i].region != NULL) {
            json_array_append_new(
                regions, json_pack("{s:s, s:s}", "name", types[i].region, "description", "there"));
        }
        json_object_set_new(list, types[i].name,
                            json_pack("{s:{s:s, s:i, s:{s:i, s:i}}, s:o}", "instance_type", "name",
                                      types[i].name, "price_cents_per_hour", types[i].cents,
                                      "specs", "gpus", types[i].gpus, "storage_gib",
                                      types[i].disk_gib, "regions_with_capacity_available",
                                      regions));
    }
    return data(list);
}

json_t *mock_lambda_instance(int id, const char *name, int cents)
{
    char text[32];
    (void)snprintf(text, sizeof text, "lam%d", id);
    return json_pack("{s:s, s:s, s:s, s:{s:i}}", "id", text, "name", name, "status", "booting",
                     "instance_type", "price_cents_per_hour", cents);
}

json_t *mock_lambda_running(void)
{
    return json_pack("{s:s, s:s}", "status", "active", "ip", "203.0.113.5");
}

static mock_answer launch(mock_account *account, const mock_request *request)
{
    const char *region;
    const char *type;
    const char *name;
    const char *key;
    if (json_unpack((json_t *)request->body, "{s:s, s:s, s:s, s:[s!]}", "region_name", &region,
                    "instance_type_name", &type, "name", &name, "ssh_key_names", &key) != 0) {
        return mock_lambda_error(400, "Invalid request data");
    }
    for (int i = 0; i < TYPES; i++) {
        if (strcmp(types[i].name, type) == 0 && types[i].region != NULL &&
            strcmp(types[i].region, region) == 0) {
            const mock_instance *made =
                mock_add(account, mock_lambda_instance(account->last_id + 1, name, types[i].cents),
                         mock_lambda_running());
            return made == NULL ? mock_lambda_error(400, "Quota exceeded")
                                : data(json_pack("{s:[O]}", "instance_ids",
                                                 json_object_get(made->shown, "id")));
        }
    }
    return mock_lambda_error(400, "Not enough capacity to fulfill launch request");
}

static mock_answer terminate(mock_account *account, const mock_request *request)
{
    const char *id = "";
    (void)json_unpack((json_t *)request->body, "{s:[s!]}", "instance_ids", &id);
    mock_instance *found = mock_find(account, mock_after(id, "lam"));
    if (found == NULL) {
        return mock_lambda_error(404, "Specified instance does not exist");
    }
    mock_remove(account, found);
    return data(json_pack("{s:[]}", "terminated_instances"));
}

mock_answer mock_lambda(mock_account *account, const mock_request *request)
{
    const char *path = request->path;
    if (strcmp(path, "/api/v1/instance-types") == 0) {
        return catalog();
    }
    if (strcmp(path, "/api/v1/ssh-keys") == 0) {
        return data(json_pack("[{s:s, s:s}, {s:s, s:s}]", "name", "other", "public_key",
                              "ssh-ed25519 BBBB", "name", "mine", "public_key",
                              "ssh-ed25519 AAAA another comment"));
    }
    if (strcmp(path, "/api/v1/instance-operations/launch") == 0) {
        return launch(account, request);
    }
    if (strcmp(path, "/api/v1/instance-operations/terminate") == 0) {
        return terminate(account, request);
    }
    if (strcmp(path, "/api/v1/instances") == 0) {
        json_t *list = json_array();
        for (int i = 0; i < account->count; i++) {
            json_array_append(list, account->instances[i].shown);
        }
        return data(list);
    }
    mock_instance *found = mock_find(account, mock_after(path, "/api/v1/instances/lam"));
    return found == NULL ? mock_lambda_error(404, "Specified instance does not exist")
                         : data(mock_describe(found));
}
