/* Paths: v2[/health/live|ready], v2/models/M[/versions/V][/ready|/stats|/infer], v2/repository/..., metrics,
 * debug/trace, and the files of the page. */
#include "server/http/route.h"

#include "server/page/page.h"

#include <string.h>

enum { MOST_PARTS = 8 };

typedef struct parts {
    const char *at[MOST_PARTS];
    size_t length[MOST_PARTS];
    int count;
} parts;

static bool part_is(const parts *p, int index, const char *word)
{
    return index < p->count && p->length[index] == strlen(word) && memcmp(p->at[index], word, p->length[index]) == 0;
}

static bool copy_part(const parts *p, int index, char *to, unsigned long room)
{
    if (index >= p->count || p->length[index] == 0 || p->length[index] >= room)
        return false;
    memcpy(to, p->at[index], p->length[index]);
    to[p->length[index]] = '\0';
    return true;
}

static xcs_target repository_target(const parts *p, xcs_route *route)
{
    if (p->count == 3 && part_is(p, 2, "index"))
        return XCS_TARGET_INDEX;
    if (p->count != 5 || !part_is(p, 2, "models") || !copy_part(p, 3, route->model, sizeof route->model))
        return XCS_TARGET_UNKNOWN;
    return part_is(p, 4, "load") ? XCS_TARGET_LOAD : part_is(p, 4, "unload") ? XCS_TARGET_UNLOAD : XCS_TARGET_UNKNOWN;
}

static xcs_target model_target(const parts *p, xcs_route *route)
{
    if (p->count == 3 && part_is(p, 2, "stats"))
        return XCS_TARGET_STATISTICS;
    if (!copy_part(p, 2, route->model, sizeof route->model))
        return XCS_TARGET_UNKNOWN;
    int at = 3;
    if (part_is(p, at, "versions")) {
        if (!copy_part(p, at + 1, route->version, sizeof route->version))
            return XCS_TARGET_UNKNOWN;
        at += 2;
    }
    if (p->count == at)
        return XCS_TARGET_MODEL;
    if (p->count != at + 1)
        return XCS_TARGET_UNKNOWN;
    return part_is(p, at, "infer")   ? XCS_TARGET_INFER
           : part_is(p, at, "ready") ? XCS_TARGET_MODEL_READY
           : part_is(p, at, "stats") ? XCS_TARGET_STATISTICS
                                     : XCS_TARGET_UNKNOWN;
}

xcs_route xcs_route_parse(const char *path)
{
    xcs_route route = {.target = XCS_TARGET_UNKNOWN};
    parts p = {.count = 0};
    const char *whole = path;
    while (*path == '/' && path[1] != '\0') {
        if (p.count == MOST_PARTS)
            return route;
        path++;
        p.at[p.count] = path;
        p.length[p.count] = strcspn(path, "/");
        path += p.length[p.count++];
    }
    if (p.count == 1 && part_is(&p, 0, "metrics"))
        route.target = XCS_TARGET_METRICS;
    else if (p.count == 1 && part_is(&p, 0, "v2"))
        route.target = XCS_TARGET_SERVER;
    else if (p.count == 2 && part_is(&p, 0, "debug") && part_is(&p, 1, "trace"))
        route.target = XCS_TARGET_TRACE;
    else if (p.count < 2 && xcs_page_find(whole) != NULL)
        route.target = XCS_TARGET_PAGE;
    else if (!part_is(&p, 0, "v2"))
        return route;
    else if (p.count == 3 && part_is(&p, 1, "health"))
        route.target = part_is(&p, 2, "live")    ? XCS_TARGET_LIVE
                       : part_is(&p, 2, "ready") ? XCS_TARGET_READY
                                                 : XCS_TARGET_UNKNOWN;
    else if (part_is(&p, 1, "models"))
        route.target = model_target(&p, &route);
    else if (part_is(&p, 1, "repository"))
        route.target = repository_target(&p, &route);
    return route;
}

const char *xcs_route_method(xcs_target target)
{
    return target == XCS_TARGET_INFER || target == XCS_TARGET_INDEX || target == XCS_TARGET_LOAD ||
                   target == XCS_TARGET_UNLOAD
               ? "POST"
               : "GET";
}
