/* The compiler's functions for JavaScript. */
#include "web/src/compilation.h"
#include "web/src/bytes.h"
#include "web/src/exports.h"

/* Receives a diagnostic. */
WEB_IMPORT(diagnose) void host_diagnose(int kind, const char *text);

static void diagnose(void *user, xcc_diagnostic_kind kind, const char *text)
{
    (void)user;
    host_diagnose((int)kind, text);
}

web_compilation *WEB_EXPORT(web_compilation_create)(void)
{
    web_compilation *c = web_compilation_new((xcc_diagnostics){diagnose, NULL});
    if (c == NULL)
        web_error = (xcvm_error){.status = XCVM_OUT_OF_MEMORY, .pc = -1, .message = "no memory for options"};
    return c;
}

/* Compiles a model. Returns the program's bytes. */
web_bytes *WEB_EXPORT(web_compile)(const web_compilation *c, const void *model, size_t count)
{
    web_bytes *bytes = web_bytes_create(&web_error);
    return bytes == NULL
               ? NULL
               : web_bytes_finish(
                     bytes, xcc_compile(model, count, &c->options, (xcvm_sink){web_bytes_add, bytes}, NULL, &web_error),
                     &web_error);
}
