/*
 * XCVM server: a pool of models for services. It queues requests, batches them, enforces deadlines and limits, and
 * replaces models while they are in use. docs/serving.md explains the concepts; examples/service.c is a complete
 * program. The pool has no network code (see server_http.h).
 *
 * Threads: every function may be called from any thread, except xcs_server_destroy. Callbacks run on threads of the
 * pool, or on the thread that submits. A callback may submit and cancel requests. It must not load or unload a model,
 * or wait for a request.
 *
 * Ownership, errors and options follow xcvm.h. Values of requests must be counted (xcvm_tensor_create and others).
 */
#ifndef XCVM_SERVER_H
#define XCVM_SERVER_H

#include <xcvm/xcvm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Server ---- */

typedef struct xcs_server xcs_server;

typedef struct xcs_server_options {
    size_t size;
    const xcvm_allocator *allocator;
    int workers;         /* threads that run requests; 0: as many as the process may use */
    size_t memory_limit; /* bytes that all models and their requests may hold; 0: no limit */
} xcs_server_options;

XCVM_API XCVM_MUST_USE xcvm_status xcs_server_create(const xcs_server_options *options, xcs_server **server,
                                                     xcvm_error *error);
/* Refuses new requests, cancels those in the pool, and waits for their callbacks. */
XCVM_API void xcs_server_destroy(xcs_server *server);
/* Refuses new requests from now on, and waits until those in the pool are complete, at most `timeout_ns` (0: no limit).
 * Returns false if some are left. */
XCVM_API bool xcs_server_drain(xcs_server *server, uint64_t timeout_ns);

/* ---- Models ---- */

/* Makes a program of the file of a model. The library loads program files; a host may also compile models. The
 * program's memory must come from `options->allocator`. */
typedef struct xcs_loader {
    xcvm_status (*call)(void *user, const char *path, const xcvm_load_options *options, xcvm_program **program,
                        xcvm_error *error);
    void *user;
} xcs_loader;

typedef struct xcs_queue_options {
    size_t count;   /* most requests that wait; 0: 256 */
    uint64_t bytes; /* most bytes of inputs that wait; 0: 256 MiB */
} xcs_queue_options;

/* Requests are batched if the first dimension of every input and output is the same dynamic dimension, and the program
 * has no states. A check at load runs rows alone and together. If the bits differ, requests are not batched. */
typedef struct xcs_batch_options {
    int64_t max_rows;  /* 0: 32; 1: no batching */
    uint64_t delay_ns; /* how long a request waits for others; 0: only requests that wait already form a batch */
    bool inexact;      /* batch even if the check finds different bits */
} xcs_batch_options;

/* Clients of a program with states. Each has a session of its own, by name. */
typedef struct xcs_client_options {
    size_t count;     /* most clients at once; 0: 64 */
    uint64_t idle_ns; /* a client's states are dropped after this time without a request; 0: 10 minutes */
} xcs_client_options;

typedef struct xcs_model_options {
    size_t size;
    const char *name;
    const char *version; /* a positive decimal number; NULL: "1" */
    const char *path;    /* of the file, which is read again when the model is reloaded */
    xcs_loader loader;   /* none: xcvm_program_load_file */
    int sessions;        /* requests that run at once; 0: one for each worker */
    int threads;         /* of each session; 0: 1 */
    size_t memory_limit; /* bytes that the model and its requests may hold; 0: no limit */
    uint64_t timeout_ns; /* of requests without one of their own; 0: none */
    xcs_queue_options queue;
    xcs_batch_options batch;
    xcs_client_options clients;
} xcs_model_options;

/* Loads, verifies and warms up a model, and then adds it. It replaces a model of the same name and version at once;
 * requests in the pool complete with the old one. After a failure the old model serves on. Reloading an unloaded model
 * works too. `version` NULL selects all versions of the name. */
XCVM_API XCVM_MUST_USE xcvm_status xcs_server_load_model(xcs_server *server, const xcs_model_options *options,
                                                         xcvm_error *error);
/* Loads a model again from its file, with its options. */
XCVM_API XCVM_MUST_USE xcvm_status xcs_server_reload_model(xcs_server *server, const char *name, const char *version,
                                                           xcvm_error *error);
/* Requests in the pool complete; new ones are refused. */
XCVM_API XCVM_MUST_USE xcvm_status xcs_server_unload_model(xcs_server *server, const char *name, const char *version,
                                                           xcvm_error *error);

/* A reference to a loaded model. It stays valid, with its program, after the model is replaced or unloaded. */
typedef struct xcs_model xcs_model;

/* Returns a reference, or NULL if no such model is ready. `version` NULL selects the highest version. */
XCVM_API xcs_model *xcs_server_find_model(xcs_server *server, const char *name, const char *version);
XCVM_API void xcs_model_release(xcs_model *model);
XCVM_API const xcvm_program *xcs_model_program(const xcs_model *model);
XCVM_API const char *xcs_model_name(const xcs_model *model);
XCVM_API const char *xcs_model_version(const xcs_model *model);
/* Returns the most rows of a batch, or 0 if requests are not batched; *reason then says why. `reason` may be NULL. */
XCVM_API int64_t xcs_model_batch_rows(const xcs_model *model, const char **reason);
/* An allocator that counts against the memory limits of model and server, for the inputs of requests. Valid as long as
 * the reference and the values made with it; the model outlives such values. */
XCVM_API const xcvm_allocator *xcs_model_allocator(const xcs_model *model);

/* Bounds of the histogram in nanoseconds: XCS_HISTOGRAM_FIRST_NS doubled for each bucket; the last one has no bound. */
#define XCS_HISTOGRAM_FIRST_NS UINT64_C(16000)
enum { XCS_HISTOGRAM_BUCKETS = 24 };

/* Totals since the model was first loaded. They continue when the model is replaced. */
typedef struct xcs_statistics {
    uint64_t succeeded, failed, refused, timed_out, cancelled;
    uint64_t inferences; /* rows of successful requests if they are batched, else requests */
    uint64_t executions; /* runs of the program that succeeded */
    uint64_t queue_ns, run_ns, total_ns;
    uint64_t last_ns;                          /* end of the last request on the monotonic clock; 0: none */
    uint64_t histogram[XCS_HISTOGRAM_BUCKETS]; /* successful requests by their time in the pool */
    uint64_t loads, failed_loads;
    size_t waiting, running, waiting_bytes, clients; /* now */
    size_t memory_bytes, peak_memory_bytes;          /* of the loaded model */
} xcs_statistics;

typedef struct xcs_model_info {
    size_t size;
    const char *name, *version, *path;
    bool ready;
    const char *reason; /* why the model is not ready or the last load failed; "" otherwise */
    xcs_statistics statistics;
} xcs_model_info;

/* Calls `visit` for each model, in the order of names and versions. The info is lent for the call. */
XCVM_API XCVM_MUST_USE xcvm_status xcs_server_visit_models(xcs_server *server,
                                                           void (*visit)(void *user, const xcs_model_info *info),
                                                           void *user, xcvm_error *error);

/* ---- Requests ---- */

#define XCS_REASON_LIST(X)                                                                                             \
    X(NONE, "the request succeeded")                                                                                   \
    X(UNKNOWN_MODEL, "no such model is ready")                                                                         \
    X(INVALID_INPUT, "an input is not what the model takes")                                                           \
    X(QUEUE_FULL, "too many requests wait")                                                                            \
    X(TOO_LATE, "the wait would exceed the deadline")                                                                  \
    X(TOO_MANY_CLIENTS, "too many clients have states")                                                                \
    X(DRAINING, "the server accepts no requests")                                                                      \
    X(TIMED_OUT, "the deadline has passed")                                                                            \
    X(CANCELLED, "the request was cancelled")                                                                          \
    X(FAILED, "the run failed")

typedef enum xcs_reason {
#define XCS_REASON(name, summary) XCS_##name,
    XCS_REASON_LIST(XCS_REASON)
#undef XCS_REASON
} xcs_reason;

/* One executed instruction of a profiled run. The strings belong to the program. */
typedef struct xcs_instruction {
    int32_t pc;
    const char *name, *node;   /* node: in the source model; "" if unknown */
    uint64_t start_ns, end_ns; /* on the monotonic clock */
} xcs_instruction;

/* Most instructions that a result lists. */
enum { XCS_PROFILE_INSTRUCTIONS = 2048 };

typedef struct xcs_result {
    size_t size;
    xcvm_status status;
    xcs_reason reason;
    const xcvm_error *error;          /* what was wrong; lent for the callback */
    size_t output_count;              /* 0 after a failure */
    const xcvm_value *const *outputs; /* lent for the callback; xcvm_value_retain keeps one */
    uint64_t queue_ns, run_ns;        /* the run is that of the whole batch */
    int64_t batch_rows;               /* rows of the run; 0 if the model is not batched */
    uint64_t retry_after_ns;          /* after a refusal: when a place in the queue is likely */
    /* Times on the monotonic clock; 0: not reached. */
    uint64_t submitted_ns, started_ns; /* started: the request left the queue */
    uint64_t begun_ns, ended_ns;       /* of the program's run; only with `profile` */
    size_t instruction_count, instructions_left_out;
    const xcs_instruction *instructions; /* of the run; lent for the callback */
} xcs_result;

/* Called once for each request. */
typedef struct xcs_completion {
    void (*call)(void *user, const xcs_result *result);
    void *user;
} xcs_completion;

typedef struct xcs_request_options {
    size_t size;
    xcs_model *model; /* a reference, which the caller keeps; or NULL: `name` and `version` select one */
    const char *name, *version;
    size_t input_count; /* all inputs of the program, in its order */
    const xcvm_value *const *inputs;
    int priority;        /* greater runs first; requests of equal priority run in the order of their arrival */
    uint64_t timeout_ns; /* covers queue and run; 0: the model's */
    const char *client;  /* name of the states; NULL or "": a run that starts with the initial states */
    bool client_begins;  /* the client starts with the initial states */
    bool client_ends;    /* the client's states are dropped before its result is given */
    bool may_run_here;   /* the calling thread may run the request itself, if the run is short (docs/serving.md) */
    bool profile;        /* the result has the times of the run and of its instructions */
} xcs_request_options;

typedef struct xcs_request xcs_request;

/* Submits a request. `done` is called in every case, possibly before the function returns. Returns a reference for
 * xcs_request_cancel; NULL if the request is complete already. */
XCVM_API xcs_request *xcs_server_submit(xcs_server *server, const xcs_request_options *options, xcs_completion done);
/* Completes a waiting request, or stops its run, with reason CANCELLED. Other requests of a batch are not affected.
 * Does nothing if the request is complete. */
XCVM_API void xcs_request_cancel(xcs_request *request);
XCVM_API void xcs_request_release(xcs_request *request);

/* Submits a request, waits, and stores its outputs. The caller owns them. *reason may be NULL. */
XCVM_API XCVM_MUST_USE xcvm_status xcs_server_run(xcs_server *server, const xcs_request_options *options,
                                                  size_t output_count, xcvm_value **outputs, xcs_reason *reason,
                                                  xcvm_error *error);
/* Returns the name ("QUEUE_FULL") and a sentence of a reason; NULL for an unknown number. */
XCVM_API const char *xcs_reason_name(xcs_reason reason);
XCVM_API const char *xcs_reason_summary(xcs_reason reason);

#ifdef __cplusplus
}
#endif
#endif
