/* Any bytes as HTTP: the head of a request and its body. What is read piece by piece must be what is read at once. */
#include "fuzz.h"

#include "server/http/parse.h"
#include "server/http/route.h"

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t count, size_t capacity, unsigned seed)
{
    (void)seed;
    return LLVMFuzzerMutate(bytes, count, capacity);
}

/* A block of its own, so that reads beyond the end are seen. */
static char *copy_of(const char *bytes, size_t count)
{
    char *copy = malloc(count > 0 ? count : 1);
    if (copy == NULL)
        abort();
    if (count > 0)
        memcpy(copy, bytes, count);
    return copy;
}

/* Parses as the bytes arrive, `step` at a time. Returns the text that was parsed. */
static char *parse_in_steps(const char *bytes, size_t count, size_t step, xcs_head *head, int *status)
{
    size_t scanned = 0;
    *status = 0;
    for (size_t there = step < count ? step : count;; there = there + step < count ? there + step : count) {
        char *text = copy_of(bytes, there);
        *status = xcs_head_parse(text, there, &scanned, head);
        if (*status != 0 || there == count)
            return text;
        free(text);
    }
}

static void check_head(const xcs_head *head, const char *text, size_t count)
{
    if (head->length > count || head->length > XCS_HEAD_BYTES || head->field_count > XCS_HEAD_FIELDS ||
        (head->chunked && head->has_length))
        abort();
    const char *const end = text + head->length;
    for (size_t i = 0; i < head->field_count; i++)
        if (head->fields[i].name < text || head->fields[i].value + strlen(head->fields[i].value) >= end)
            abort();
    if (head->path + strlen(head->path) >= end || head->method[0] == '\0')
        abort();
    (void)xcs_head_find(head, "Content-Type");
    const xcs_route route = xcs_route_parse(head->path);
    if (strlen(route.model) >= sizeof route.model || strlen(route.version) >= sizeof route.version)
        abort();
}

/* Reads a chunked body, `step` bytes at a time. Returns the last result; *length is the number of its bytes, *sum a
 * checksum of them, and *used the bytes up to its end. */
static xcs_chunks_result read_chunks(const char *bytes, size_t count, size_t step, size_t *length, uint32_t *sum,
                                     size_t *used)
{
    xcs_chunks chunks = {0};
    xcs_chunks_result result = XCS_CHUNKS_MORE;
    *length = *used = 0;
    *sum = 0;
    for (size_t begin = 0; begin < count && result == XCS_CHUNKS_MORE;) {
        const size_t there = count - begin < step ? count - begin : step;
        char *piece = copy_of(bytes + begin, there);
        const char *at = piece, *data;
        size_t some;
        while ((result = xcs_chunks_read(&chunks, &at, piece + there, &data, &some)) == XCS_CHUNKS_DATA) {
            if (some == 0 || data < piece || data + some > piece + there)
                abort();
            for (size_t i = 0; i < some; i++)
                *sum = *sum * 31 + (unsigned char)data[i];
            *length += some;
        }
        *used = begin + (size_t)(at - piece);
        begin += there;
        free(piece);
    }
    return result;
}

static void check_chunks(const char *bytes, size_t count)
{
    size_t length, used, length_by_one, used_by_one;
    uint32_t sum, sum_by_one;
    const xcs_chunks_result whole = read_chunks(bytes, count, count, &length, &sum, &used),
                            by_one = read_chunks(bytes, count, 1, &length_by_one, &sum_by_one, &used_by_one);
    if (whole != by_one || length != length_by_one || sum != sum_by_one || used != used_by_one || used > count)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static xcs_head whole, by_step;
    const char *text = (const char *)bytes;
    int status, status_by_step;
    char *at_once = parse_in_steps(text, count, count > 0 ? count : 1, &whole, &status);
    char *in_steps = parse_in_steps(text, count, count / 64 + 1, &by_step, &status_by_step);
    /* An error in the bytes that follow a long head may be found before or after its end. */
    if (status == 200 && (status_by_step != 200 || by_step.length != whole.length ||
                          by_step.field_count != whole.field_count || strcmp(by_step.path, whole.path) != 0))
        abort();
    size_t rest = 0;
    if (status == 200) {
        check_head(&whole, at_once, count);
        check_head(&by_step, in_steps, count);
        rest = whole.length;
    }
    free(at_once);
    free(in_steps);
    check_chunks(text + rest, count - rest);
    return 0;
}
