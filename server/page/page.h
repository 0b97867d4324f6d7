/* The web page of the HTTP server: files that the build embeds. They contain no data of the server; the page requests
 * them like any other client. */
#ifndef XCVM_SERVER_PAGE_PAGE_H
#define XCVM_SERVER_PAGE_PAGE_H

typedef struct xcs_page_file {
    const char *path, *type;
    const char *content;
} xcs_page_file;

/* Returns the file at a path, or NULL. */
const xcs_page_file *xcs_page_find(const char *path);

/* Header lines of these files: the page loads nothing but them, and no other page embeds it. */
extern const char xcs_page_headers[];

#endif
