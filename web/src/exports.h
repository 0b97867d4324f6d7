/* Functions of the WebAssembly modules for JavaScript (web/js/runtime.js). Arguments are addresses, 32-bit integers and
 * doubles. A function that fails returns 0 or a status other than OK; web_error_text and web_error_number describe the
 * latest failure. */
#ifndef XCVM_WEB_SRC_EXPORTS_H
#define XCVM_WEB_SRC_EXPORTS_H

#include "xcvm/xcvm.h"

#define WEB_EXPORT(name) __attribute__((export_name(#name), used)) name
#define WEB_IMPORT(name) __attribute__((import_module("xcvm"), import_name(#name)))

/* Describes the latest failure of the module. */
extern xcvm_error web_error;

/* Bytes that a sink has received, in malloc's memory. The length precedes the bytes. */
typedef struct web_bytes {
    uint32_t count, capacity;
    unsigned char *at;
    bool failed; /* no memory for them */
} web_bytes;

bool web_bytes_add(void *user, const void *bytes, size_t count);
/* Returns the received bytes, or NULL with OUT_OF_MEMORY in web_error. The caller of JavaScript destroys them. */
web_bytes *web_bytes_finish(web_bytes *bytes, xcvm_status status);
web_bytes *web_bytes_create(void);

/* Nanoseconds of a number of milliseconds; 0, no limit, for 0. */
uint64_t web_nanoseconds(double milliseconds);

#endif
