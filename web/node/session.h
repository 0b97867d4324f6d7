/* Sessions of the addon. */
#ifndef XCVM_WEB_NODE_SESSION_H
#define XCVM_WEB_NODE_SESSION_H

#include "web/node/addon.h"

/* Sessions that share states do one thing at a time, together. */
typedef struct session_group {
    int references; /* atomic */
    bool is_running;
} session_group;

/* A session, shared by its object and by views of its memory. */
typedef struct addon_session {
    int references; /* atomic */
    addon_program *program;
    xcvm_session *session; /* NULL: destroyed */
    session_group *group;
    xcvm_host_function *functions;
    size_t function_count;

    /* Weak references to ArrayBuffers over results, which the next run detaches. */
    napi_ref *views;
    size_t view_count, view_capacity;

    /* The run in progress, and its functions of JavaScript, or NULL. A session has no references to functions: these
     * may refer to it, and would never be collected. */
    napi_env env; /* of callbacks; NULL: they are on another thread */
    napi_value call, print, observe;
    napi_ref exception;      /* thrown by a callback, or NULL */
    const xcvm_event *event; /* during the observer's call */
    web_bytes *printed;      /* text of Print instructions on another thread */
    bool was_cancelled;      /* a cancellation may have come after the run's end */
} addon_session;

/* The session of an object, which is not disposed and does not run. */
addon_session *addon_session_get(napi_env env, napi_value object);
/* The same, also while it runs. */
addon_session *addon_session_get_any(napi_env env, napi_value object);
void addon_session_release(addon_session *s);
/* Detaches the views of the results: the next run, or the end of the session, ends their memory's life. */
void addon_session_detach_views(napi_env env, addon_session *s);

/* Callbacks of the VM (run.c). */
bool addon_session_print(void *user, const char *text);
/* A host function; its number is its place in `functions`. */
typedef struct host_function {
    addon_session *session;
    size_t number;
} host_function;
xcvm_status addon_session_call(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                               xcvm_value **outputs, xcvm_error *error);

#endif
