/* The request pool: its objects and the functions that its files share. One mutex of the server guards everything that
 * changes, except where a field says otherwise. Functions named _locked expect that the caller holds it. */
#ifndef XCVM_SERVER_POOL_POOL_H
#define XCVM_SERVER_POOL_POOL_H

#include "xcvm/server.h"

#include "base/allocator.h"
#include "base/clock.h"
#include "server/pool/memory.h"

#include <pthread.h>

typedef struct xcs_entry xcs_entry;
typedef struct xcs_client xcs_client;

struct xcs_request {
    int refs; /* atomic */
    xcvm_allocator allocator;
    xcs_server *server;
    xcs_model *model;           /* a reference until the request is complete */
    xcs_request *before, *next; /* in the queue of the model, or in a run */
    xcs_request *next_late;     /* in a list of requests whose deadline has passed */
    bool waits;                 /* in the queue */
    bool cancelled;
    bool left_run; /* its result was given while the run goes on for others; set under the mutex, atomic */
    bool client_begins, client_ends;
    bool wants_profile;
    struct xcs_run *run; /* while it runs */
    xcs_client *client;
    xcs_completion done;
    int priority;
    uint64_t submitted_ns, started_ns, deadline_ns;
    int64_t rows;
    size_t block_bytes; /* of this struct */
    size_t bytes, input_count;
    xcvm_value *inputs[]; /* references until the request is complete */
};

/* The times of a run and of its instructions. Zero-initialized except for the allocator, it is empty. */
typedef struct xcs_profile {
    const xcvm_allocator *allocator;
    uint64_t begun_ns, ended_ns;
    xcs_instruction *at;
    size_t count, capacity, left_out;
} xcs_profile;

/* One run of a program, for one request or a batch. */
typedef struct xcs_run {
    struct xcs_run *before, *next; /* in the server's list */
    xcs_request *list;             /* those that have not ended, linked by `next` */
    xcs_request *single;           /* the one that runs by itself after the batch failed; NULL: all of the list run */
    xcs_model *model;
    xcvm_session *session; /* NULL: that of a client that has none yet */
    size_t count;          /* requests */
    size_t left;           /* those that run and still want a result; atomic */
    xcs_profile *profile;  /* NULL: no request wants one */
    int64_t rows;
    bool stopped;                /* no request may run any more */
    bool wants_profile;          /* at least one request does */
    bool runs_here;              /* on the thread that submitted the request */
    bool may_be_given_up;        /* that thread has other work, so the run must be short */
    bool given_up;               /* its request waits for a worker */
    bool client_ended;           /* the place of the client was freed */
    xcs_client *ended_client;    /* without a place, to be destroyed after the run */
    xcvm_session *ended_session; /* of a client that ends; it lends the outputs until the run ends */
} xcs_run;

/* A model as loaded: one program with its sessions and queue. A model that is loaded again becomes a new one. */
struct xcs_model {
    int refs; /* atomic */
    xcs_server *server;
    xcs_entry *entry;
    xcs_model *before, *next; /* in the server's list */
    xcs_memory *memory;
    xcvm_program *program;
    xcvm_session **idle; /* room for session_count */
    size_t idle_count, session_count, running;
    xcs_request *first, *last; /* the queue, in the order in which requests run */
    size_t waiting, waiting_bytes;
    uint64_t average_ns;      /* moving average of the time of a run, for each request of it; 0: unknown */
    uint64_t interval_ns;     /* the same from run to run, with the time that threads wait for processors */
    uint64_t deviation_ns;    /* of the interval, on average */
    uint64_t last_end_ns;     /* end of the last run if requests waited then; 0 otherwise */
    int64_t batch_rows;       /* most rows of a batch; 0: requests are not batched */
    char batch_reason[200];   /* why they are not */
    xcs_model_options limits; /* with defaults filled in; strings are not valid */
};

/* The states of a client of a program with states. */
struct xcs_client {
    char *name;
    xcs_model *model;      /* a reference: the client stays with the model that it began with */
    xcvm_session *session; /* NULL before the first run */
    bool busy;
    size_t requests; /* waiting or running */
    uint64_t last_ns;
    xcs_client *next;
};

/* What the server remembers of a name and version, whether or not it is loaded. Never removed. */
struct xcs_entry {
    char *name, *version, *path;
    xcs_model_options options; /* strings are the entry's */
    xcs_model *current;        /* a reference; NULL: not ready */
    char reason[700];
    xcs_statistics statistics;
    xcs_client *clients;
    size_t client_count;
    xcs_entry *next;
};

struct xcs_server {
    xcvm_allocator allocator;
    xcs_memory *memory;
    pthread_mutex_t mutex, load_mutex; /* load_mutex: one load at a time; taken before mutex */
    pthread_cond_t work, timer, idle;
    pthread_t *threads, timer_thread;
    size_t thread_count, wanted_threads;
    bool has_timer;
    bool draining, stopping;
    bool destroying;    /* xcs_server_destroy cancels what waits and runs */
    xcs_entry *entries; /* sorted by name and version */
    xcs_model *models;  /* all that have not been destroyed */
    xcs_run *runs;
    size_t active;     /* requests whose callback has not returned */
    size_t running;    /* runs */
    size_t asleep;     /* workers that wait for work */
    uint64_t timer_ns; /* when the timer thread looks at deadlines next; UINT64_MAX: never */
};

/* ---- Models ---- */

xcvm_status xcs_model_create(xcs_server *server, xcs_entry *entry, const xcs_model_options *options, xcs_model **model,
                             xcvm_error *error);
/* Decides whether requests can be batched, and sets batch_rows and batch_reason. */
void xcs_batch_decide(xcs_model *model);
static inline xcs_model *xcs_model_retain(xcs_model *model)
{
    __atomic_add_fetch(&model->refs, 1, __ATOMIC_RELAXED);
    return model;
}
/* Finds the model that would serve a request; not a reference. */
xcs_model *xcs_server_current_locked(xcs_server *server, const char *name, const char *version);

/* ---- Queue ---- */

/* Returns XCS_NONE, or why the queue does not accept the request. */
xcs_reason xcs_queue_check_locked(const xcs_model *model, const xcs_request *request, uint64_t *retry_after_ns,
                                  xcvm_error *error);
void xcs_queue_add_locked(xcs_model *model, xcs_request *request);
void xcs_queue_remove_locked(xcs_model *model, xcs_request *request);
/* Removes the requests that run next from their queue, and assigns a session. Returns false if none can run. Requests
 * that are too late are moved to *late. *wake_ns is lowered to when a batch that is delayed must run. */
bool xcs_queue_take_locked(xcs_server *server, xcs_run *run, xcs_request **late, uint64_t *wake_ns);
/* Begins a run of one request that is in no queue. */
void xcs_run_begin_locked(xcs_run *run, xcs_request *request, uint64_t now);
/* Moves requests whose deadline has passed to *late: those that wait, and those in a run with others. Returns the next
 * deadline. */
uint64_t xcs_queue_expire_locked(xcs_server *server, uint64_t now, xcs_request **late);

/* ---- Requests ---- */

/* Completes a request with the mutex unlocked: calls its callback, unless it has left its run, and drops its
 * references. */
void xcs_request_complete(xcs_request *request, xcs_result *result);
void xcs_requests_complete_late(xcs_request *list);
/* True if the request runs together with others and has no result, so that it can get one before they do. */
bool xcs_request_may_leave_locked(const xcs_request *request);
/* Ends the part of a request in its run. The caller then unlocks the mutex and calls xcs_request_complete_left. */
void xcs_request_leave_run_locked(xcs_request *request, xcs_reason reason);
void xcs_request_complete_left(xcs_request *request, xcs_reason reason);

/* ---- Execution ---- */

/* Runs and completes the requests of a run. Takes the mutex. Returns false if the run was given up. */
bool xcs_run_execute(xcs_run *run);
/* Whether the submitting thread may run the request at once. */
bool xcs_may_run_here_locked(const xcs_server *server, const xcs_model *model, const xcs_request *request);

/* ---- Profiles ---- */

/* Forgets an earlier run. */
void xcs_profile_clear(xcs_profile *profile);
/* Observe one run of the session. */
void xcs_profile_begin(xcs_profile *profile, xcvm_session *session);
void xcs_profile_end(xcs_profile *profile, xcvm_session *session);
/* Lends the times to a result, for its callback. */
void xcs_profile_lend(const xcs_profile *profile, xcs_result *result);
void xcs_profile_free(xcs_profile *profile);

/* ---- Batches ---- */

/* Joins the inputs of requests into one tensor for each input. The caller releases the tensors. */
xcvm_status xcs_batch_join(xcs_model *model, const xcs_request *list, int64_t rows, xcvm_value **inputs,
                           xcvm_error *error);
/* Copies `rows` rows of each output, starting with row `first`. */
xcvm_status xcs_batch_split(xcs_model *model, const xcvm_session *session, int64_t first, int64_t rows,
                            xcvm_value **outputs, xcvm_error *error);
/* True if two requests can be in one batch: their inputs differ in the number of rows only. */
bool xcs_batch_fits(const xcs_request *a, const xcs_request *b);

/* ---- Clients ---- */

/* Finds or adds the client of a request. Returns NULL if there are too many. */
xcs_client *xcs_client_find_locked(xcs_entry *entry, xcs_model *model, const char *name);
/* Removes a client without requests. The caller destroys it, with the mutex unlocked. */
void xcs_client_remove_locked(xcs_entry *entry, xcs_client *client);
void xcs_client_destroy(xcs_server *server, xcs_client *client);
/* Moves clients that are idle too long to *idle. Returns when the next one will be. */
uint64_t xcs_clients_expire_locked(xcs_server *server, uint64_t now, xcs_client **idle);

/* ---- Statistics ---- */

void xcs_statistics_add_locked(xcs_request *request, const xcs_result *result, uint64_t now);

/* ---- Helpers ---- */

void xcs_time_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t until_ns);
/* Makes the timer thread look at deadlines at `when_ns` at the latest. */
void xcs_timer_set_locked(xcs_server *server, uint64_t when_ns);
char *xcs_text_copy(const xcvm_allocator *allocator, const char *text);
void xcs_text_release(const xcvm_allocator *allocator, char *text);

#endif
