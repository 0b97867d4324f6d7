/* Pages of reports: what those of profiles and of differences share. */
#include "profile/page.h"
#include "io/json.h"
#include "profile/page_files.h"

#include <math.h>
#include <string.h>

void page_flush(struct page_writer *w)
{
    if (w->good && w->text.length != 0)
        w->good = w->sink.call(w->sink.user, w->text.data, w->text.length);
    w->text.length = 0;
}

void page_flush_when_large(struct page_writer *w)
{
    if (w->text.length > (1 << 16))
        page_flush(w);
}

void page_text(struct buffer *text, const char *string)
{
    for (; *string != '\0'; string++)
        switch (*string) {
        case '<':
            buffer_text(text, "&lt;");
            break;
        case '>':
            buffer_text(text, "&gt;");
            break;
        case '&':
            buffer_text(text, "&amp;");
            break;
        case '"':
            buffer_text(text, "&quot;");
            break;
        default:
            buffer_append(text, string, 1);
        }
}

void page_string(struct buffer *text, const char *string)
{
    struct buffer plain = {0};
    json_string(&plain, string);
    for (size_t i = 0; i < plain.length; i++)
        if (plain.data[i] == '<')
            buffer_text(text, "\\u003c");
        else
            buffer_append(text, plain.data + i, 1);
    buffer_release(&plain);
}

void page_number(struct buffer *text, const char *format, double number, bool known)
{
    /* JavaScript does not read "inf". NaN is sorted as the largest number. */
    const double order = isnan(number) ? 2e300 : fmin(number, 1e300);
    buffer_format(text, "<td data-v=\"%.9g\">", known ? order : -1.0);
    if (known)
        buffer_format(text, format, number);
    buffer_text(text, "</td>");
}

void page_card(struct buffer *text, const char *title, const char *format, double number, const char *unit)
{
    buffer_format(text, "<div><dt>%s</dt><dd>", title);
    buffer_format(text, format, number);
    buffer_format(text, "<small> %s</small></dd></div>\n", unit);
}

void page_begin(struct page_writer *w, const char *program, const char *kind)
{
    const char *slash = strrchr(program, '/'), *name = slash != NULL ? slash + 1 : program;
    buffer_text(&w->text, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                          "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n<title>");
    page_text(&w->text, name);
    buffer_format(&w->text, ": %s</title>\n<style>\n", kind);
    buffer_text(&w->text, report_page_css);
    buffer_text(&w->text, "</style>\n<header><h1>");
    page_text(&w->text, name);
    buffer_text(&w->text, "</h1><p>");
}

void page_begin_main(struct page_writer *w, const char *without_scripts)
{
    buffer_text(&w->text, ". XCVM ");
    page_text(&w->text, xcvm_version());
    buffer_text(&w->text, ".</p></header>\n<noscript><p class=\"note\">");
    buffer_text(&w->text, without_scripts);
    buffer_text(&w->text, "</p></noscript>\n<main>\n");
}

bool page_end(struct page_writer *w, const char *script)
{
    buffer_text(&w->text, "<script>\n");
    buffer_text(&w->text, report_page_js);
    buffer_text(&w->text, script);
    buffer_text(&w->text, "</script>\n</html>\n");
    page_flush(w);
    buffer_release(&w->text);
    return w->good;
}
