/* The buffered writer: collects text and bytes for a sink and records failure. */
#include "proto/writer.h"
#include "proto/reader.h"

#include <stdio.h>
#include <string.h>

bool xcvm_cut_text_sink(void *cut_text, const void *bytes, size_t count)
{
    xcvm_cut_text *t = cut_text;
    if (t->size == 0)
        return true;
    size_t room = t->size - 1 - t->length;
    size_t taken = count < room ? count : room;
    memcpy(t->text + t->length, bytes, taken);
    t->length += taken;
    t->text[t->length] = '\0';
    return true;
}

void xcvm_writer_start(xcvm_writer *w, xcvm_sink sink)
{
    w->sink = sink;
    w->used = 0;
    w->total = 0;
    w->failed = false;
}

static void hand_on(xcvm_writer *w, const void *bytes, size_t count)
{
    if (!w->failed && count > 0 && !w->sink.call(w->sink.user, bytes, count))
        w->failed = true;
}

static void flush(xcvm_writer *w)
{
    hand_on(w, w->buffer, w->used);
    w->used = 0;
}

void xcvm_writer_put(xcvm_writer *w, const void *bytes, size_t count)
{
    w->total += count;
    if (count > sizeof w->buffer - w->used)
        flush(w);
    if (count > sizeof w->buffer) {
        hand_on(w, bytes, count);
        return;
    }
    if (count > 0)
        memcpy(w->buffer + w->used, bytes, count);
    w->used += count;
}

void xcvm_writer_zeros(xcvm_writer *w, size_t count)
{
    static const char zeros[256];
    while (count > 0) {
        size_t piece = count < sizeof zeros ? count : sizeof zeros;
        xcvm_writer_put(w, zeros, piece);
        count -= piece;
    }
}

void xcvm_writer_text(xcvm_writer *w, const char *text) { xcvm_writer_put(w, text, strlen(text)); }

void xcvm_writer_format(xcvm_writer *w, const char *format, ...)
{
    char text[201];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0)
        xcvm_writer_put(w, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

/* Length of a multi-byte UTF-8 sequence at `at`, or 0. Overlong forms and surrogates are accepted, because only an
 * exact round trip of the bytes matters. */
static size_t utf8_length(const unsigned char *at, size_t left)
{
    size_t length = at[0] >= 0xf0 && at[0] < 0xf8 ? 4 : at[0] >= 0xe0 && at[0] < 0xf0 ? 3 : at[0] >= 0xc2 ? 2 : 0;
    if (length == 0 || at[0] >= 0xf8 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

void xcvm_writer_quoted(xcvm_writer *w, const char *text, size_t length)
{
    static const char escaped[] = "\n\t\r\"\\", letters[] = "ntr\"\\";
    const unsigned char *at = (const unsigned char *)text;
    xcvm_writer_put(w, "\"", 1);
    for (size_t i = 0; i < length;) {
        size_t sequence = utf8_length(at + i, length - i);
        const char *escape = at[i] != '\0' ? strchr(escaped, at[i]) : NULL;
        if (sequence > 0) {
            xcvm_writer_put(w, at + i, sequence);
            i += sequence;
            continue;
        }
        if (escape != NULL)
            xcvm_writer_format(w, "\\%c", letters[escape - escaped]);
        else if (at[i] >= ' ' && at[i] < 0x7f)
            xcvm_writer_put(w, at + i, 1);
        else
            xcvm_writer_format(w, "\\x%02x", at[i]);
        i++;
    }
    xcvm_writer_put(w, "\"", 1);
}

void xcvm_writer_name(xcvm_writer *w, const char *name)
{
    size_t length = strlen(name);
    if (xcvm_name_is_plain(name, length))
        xcvm_writer_put(w, name, length);
    else
        xcvm_writer_quoted(w, name, length);
}

xcvm_status xcvm_writer_finish(xcvm_writer *w, xcvm_error *error)
{
    flush(w);
    XCVM_CHECK(error, !w->failed, IO, "the output cannot be written");
    return XCVM_OK;
}
