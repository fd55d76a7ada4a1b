/* A vendor that keeps its instances in memory, for the tests of the drivers: what its APIs (RunPod's,
 * Vast.ai's, Lambda's) share. vendor_mock.c has the HTTP server, whose only thread calls them. */
#ifndef VENDOR_MOCK_H
#define VENDOR_MOCK_H

#include <jansson.h>
#include <stdbool.h>

enum { MOCK_INSTANCES_MAX = 512 };

typedef struct mock_instance {
    int id;
    json_t *shown;    /* what the API shows of it */
    json_t *when_run; /* what changes in that when it has started */
    bool described;   /* it starts when it has been asked for once */
} mock_instance;

typedef struct mock_account {
    int count;
    int last_id;
    mock_instance instances[MOCK_INSTANCES_MAX];
} mock_account;

/* path is without a fault's prefix and without the query; body is NULL if there is none. */
typedef struct mock_request {
    const char *method;
    const char *path;
    const json_t *body;
    const char *(*argument)(void *connection, const char *name);
    void *connection;
} mock_request;

/* A reference to body passes to the caller; NULL: no body. */
typedef struct mock_answer {
    unsigned status;
    json_t *body;
} mock_answer;

/* Each takes a request of its API. `vendor_error` is how that API says that something is wrong. */
mock_answer mock_runpod(mock_account *account, const mock_request *request);
mock_answer mock_runpod_error(unsigned status, const char *detail);
json_t *mock_runpod_pod(int id, const char *name, const char *gpu, int gpu_count);
json_t *mock_runpod_running(void);

mock_answer mock_vast(mock_account *account, const mock_request *request);
mock_answer mock_vast_error(unsigned status, const char *error, const char *message);
json_t *mock_vast_instance(int id, const char *label, double usd);
json_t *mock_vast_running(void);

mock_answer mock_lambda(mock_account *account, const mock_request *request);
mock_answer mock_lambda_error(unsigned status, const char *message);
json_t *mock_lambda_instance(int id, const char *name, int cents);
json_t *mock_lambda_running(void);

/* The number that a text begins with, or 0; and that of a path behind a prefix, 0 if it has another one. */
int mock_number(const char *text);
int mock_after(const char *path, const char *prefix);

/* The account's instance of that id, or NULL. */
mock_instance *mock_find(mock_account *account, int id);

/* Takes the references; NULL if there is no room. */
mock_instance *mock_add(mock_account *account, json_t *shown, json_t *when_run);
void mock_remove(mock_account *account, mock_instance *instance);

/* What the API shows of an instance that is asked for by itself; a new reference. */
json_t *mock_describe(mock_instance *instance);

#endif
