/* The paths of the protocol. */
#ifndef XCVM_SERVER_HTTP_ROUTE_H
#define XCVM_SERVER_HTTP_ROUTE_H

#include <stdbool.h>

typedef enum xcs_target {
    XCS_TARGET_UNKNOWN,
    XCS_TARGET_SERVER,
    XCS_TARGET_LIVE,
    XCS_TARGET_READY,
    XCS_TARGET_MODEL,
    XCS_TARGET_MODEL_READY,
    XCS_TARGET_INFER,
    XCS_TARGET_STATISTICS,
    XCS_TARGET_INDEX,
    XCS_TARGET_LOAD,
    XCS_TARGET_UNLOAD,
    XCS_TARGET_METRICS,
    XCS_TARGET_TRACE,
    XCS_TARGET_PAGE
} xcs_target;

typedef struct xcs_route {
    xcs_target target;
    char model[200], version[24]; /* "": none */
} xcs_route;

/* Parses a decoded path without its query. */
xcs_route xcs_route_parse(const char *path);
/* Returns the method that the target expects: "GET" or "POST". */
const char *xcs_route_method(xcs_target target);

#endif
