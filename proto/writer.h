/* A buffered writer: text and bytes for an xcvm_sink, gathered into larger pieces. */
#ifndef XCVM_PROTO_WRITER_H
#define XCVM_PROTO_WRITER_H

#include "base/status.h"

typedef struct xcvm_writer {
    xcvm_sink sink;
    size_t used;
    uint64_t total; /* bytes written since the start */
    bool failed;    /* the sink has refused something; nothing more is given to it */
    char buffer[4096];
} xcvm_writer;

/* A buffer that takes what fits, always NUL-terminated; `sink` for a writer that fills it. */
typedef struct xcvm_cut_text {
    char *text;
    size_t size, length;
} xcvm_cut_text;
bool xcvm_cut_text_sink(void *cut_text, const void *bytes, size_t count);

/* Bytes are gathered before they go to the sink; once it has failed nothing more goes there, and xcvm_writer_finish,
 * which must end the writing, tells. */
void xcvm_writer_start(xcvm_writer *w, xcvm_sink sink);
void xcvm_writer_put(xcvm_writer *w, const void *bytes, size_t count);
void xcvm_writer_zeros(xcvm_writer *w, size_t count);
void xcvm_writer_text(xcvm_writer *w, const char *text);
/* For text of up to 200 characters; not for floating-point numbers, whose form depends on the locale: those are written
 * by xcvm_decimal_text. */
void xcvm_writer_format(xcvm_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "text" with C escapes; UTF-8 stays as it is. */
void xcvm_writer_quoted(xcvm_writer *w, const char *text, size_t length);
/* A name as it is if it is a plain one (reader.h), else quoted. */
void xcvm_writer_name(xcvm_writer *w, const char *name);
/* Hands on what is left; IO if the sink has refused anything. */
xcvm_status xcvm_writer_finish(xcvm_writer *w, xcvm_error *error);

#endif
