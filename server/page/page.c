/* The files of the web page. */
#include "server/page/page.h"

#include <stddef.h>
#include <string.h>

/* Strings that the build makes of the files of this directory. */
extern const char xcs_page_html[], xcs_page_css[], xcs_page_js[];

const char xcs_page_headers[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n";

static const xcs_page_file files[] = {{"/", "text/html; charset=utf-8", xcs_page_html},
                                      {"/page.css", "text/css; charset=utf-8", xcs_page_css},
                                      {"/page.js", "text/javascript; charset=utf-8", xcs_page_js}};

const xcs_page_file *xcs_page_find(const char *path)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    return NULL;
}
