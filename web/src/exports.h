/* Functions of the WebAssembly modules for JavaScript (web/js/runtime.js). Arguments are addresses, 32-bit integers and
 * doubles. A function that fails returns 0 or a status other than OK; web_error_text and web_error_number describe the
 * latest failure. */
#ifndef XCVM_WEB_SRC_EXPORTS_H
#define XCVM_WEB_SRC_EXPORTS_H

#include "xcvm/xcvm.h"

/* The addon for Node (web/node) shares sources with the modules, and exports nothing. */
#ifdef __wasm__
#define WEB_EXPORT(name) __attribute__((export_name(#name), used)) name
#define WEB_IMPORT(name) __attribute__((import_module("xcvm"), import_name(#name)))
#else
#define WEB_EXPORT(name) name
#define WEB_IMPORT(name)
#endif

/* Describes the latest failure of the module. */
extern xcvm_error web_error;

/* Nanoseconds of a number of milliseconds; 0, no limit, for 0. */
static inline uint64_t web_nanoseconds(double milliseconds)
{
    if (!(milliseconds > 0))
        return 0;
    const double nanoseconds = milliseconds * 1e6;
    return nanoseconds < 1 ? 1 : nanoseconds < 9e18 ? (uint64_t)nanoseconds : UINT64_C(9000000000000000000);
}

/* The number of threads that ran ranges of an instruction. */
static inline int web_count_threads(const xcvm_event *e)
{
    uint64_t seen = 1;
    for (size_t i = 0; i < e->span_count; i++)
        seen |= (uint64_t)1 << (e->spans[i].worker & 63);
    return __builtin_popcountll(seen);
}

#endif
