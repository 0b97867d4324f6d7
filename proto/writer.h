/* A buffered writer: collects text and bytes for an xcvm_sink. */
#ifndef XCVM_PROTO_WRITER_H
#define XCVM_PROTO_WRITER_H

#include "base/status.h"

typedef struct xcvm_writer {
    xcvm_sink sink;
    size_t used;
    uint64_t total; /* bytes written since the start */
    bool failed;    /* the sink has failed and is not called again */
    char buffer[4096];
} xcvm_writer;

/* A fixed buffer that truncates and is always NUL-terminated, with the sink of a writer that fills it. */
typedef struct xcvm_cut_text {
    char *text;
    size_t size, length;
} xcvm_cut_text;
bool xcvm_cut_text_sink(void *cut_text, const void *bytes, size_t count);

/* Bytes are buffered before they go to the sink. After a failure the sink is not called again. xcvm_writer_finish must
 * be called at the end and reports the failure. */
void xcvm_writer_start(xcvm_writer *w, xcvm_sink sink);
void xcvm_writer_put(xcvm_writer *w, const void *bytes, size_t count);
void xcvm_writer_zeros(xcvm_writer *w, size_t count);
void xcvm_writer_text(xcvm_writer *w, const char *text);
/* Formats up to 200 characters. Not for floating-point numbers, whose text depends on the locale; use
 * xcvm_decimal_text. */
void xcvm_writer_format(xcvm_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes "text" with C escapes. UTF-8 stays unchanged. */
void xcvm_writer_quoted(xcvm_writer *w, const char *text, size_t length);
/* Writes a plain name (reader.h) unchanged, and quotes any other. */
void xcvm_writer_name(xcvm_writer *w, const char *name);
/* Flushes the buffer. Fails with IO if the sink has failed. */
xcvm_status xcvm_writer_finish(xcvm_writer *w, xcvm_error *error);

#endif
